//! Decisions of operators and administrators of instances about events that could not be processed or delivered.

use serde::{Deserialize, Serialize};

use crate::{aggregate::Aggregate, rejection::Rejection};

/// The view of the deliveries of events to targets, among those of projections: deliveries that are given up are its
/// failed events.
pub const DELIVERIES: &str = "deliveries";

/// The aggregate of one failed event in one view, or of a retry of many. It belongs to the system, or to the instance
/// whose administrator decides.
pub struct FailedEvent;

/// The decisions that can be made.
#[derive(Debug, Clone)]
pub enum Command {
    /// Makes views try again what is parked.
    Retry(Retried),
    /// Makes a view leave an event out.
    Discard(Discarded),
}

/// The decisions that were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// Views try again what is parked.
    Retried(Retried),
    /// A view leaves an event out, for good: every later version of the view does so, too.
    Discarded(Discarded),
}

/// Which parked aggregates are tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retried {
    /// Filters that all have to match; without any, everything that failed matches.
    pub filters: Vec<Filter>,
    /// Further filters, of kinds that the first builds do not know: those builds retry more than intended, which does
    /// no harm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<Filter>,
    /// The sequence up to which events failed in the log that is retained for ever.
    pub until: u64,
    /// The sequence up to which events failed in the log that ages out.
    #[serde(default)]
    pub until_of_sessions: u64,
    /// The queue position up to which deliveries that were given up are retried; zero, as in earlier builds, retries
    /// none.
    #[serde(default)]
    pub until_place: u64,
}

impl Retried {
    /// Creates a retry of everything that meets all of these filters.
    pub fn of(all: Vec<Filter>) -> Self {
        let is_known = |filter: &Filter| {
            !matches!(filter, Filter::TargetId(_) | Filter::Error(_) | Filter::FailedFrom(_) | Filter::FailedBefore(_))
        };
        let (filters, further) = all.into_iter().partition(is_known);
        Self { filters, further, until: 0, until_of_sessions: 0, until_place: 0 }
    }
}

/// The state of a failed event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It waits for a decision.
    Failed,
    /// Somebody has started a retry that is not done yet.
    Retrying,
    /// It was discarded.
    Discarded,
}

/// One condition on failed events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// The id.
    Id(u64),
    /// The name of the view.
    View(String),
    /// The instance.
    InstanceId(String),
    /// The type of the aggregate.
    AggregateType(String),
    /// The aggregate.
    AggregateId(String),
    /// The target of a delivery.
    TargetId(String),
    /// A part of the error, ignoring the case of ASCII letters.
    Error(String),
    /// The event last failed at this time or later, in microseconds since 1970.
    FailedFrom(i64),
    /// The event last failed before this time, in microseconds since 1970.
    FailedBefore(i64),
}

/// An event, and the view that leaves it out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discarded {
    /// The name of the view, for every version of it.
    pub view: String,
    /// The log that the event is in.
    pub log: String,
    /// The sequence of the event in that log.
    pub sequence: u64,
    /// The reason, in the operator's words.
    pub reason: String,
    /// The instance of the event.
    pub instance_id: String,
    /// The type of the event's aggregate.
    pub aggregate_type: String,
    /// The id of the event's aggregate.
    pub aggregate_id: String,
    /// The target that it was not delivered to; empty for a projection.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_id: String,
    /// The last error.
    #[serde(default)]
    pub error: String,
    /// When it first failed, in microseconds since 1970; absent if the build did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failed: Option<i64>,
    /// When it last failed, in microseconds since 1970.
    #[serde(default)]
    pub last_failed: i64,
    /// How often it failed.
    #[serde(default)]
    pub tries: u64,
}

impl Aggregate for FailedEvent {
    const NAME: &'static str = "failed_event";
    const EVENTS: &'static [&'static str] = &["retried", "discarded"];
    /// Whether a projection leaves the event out. A delivery has the same id when it is given up once more, and waits
    /// then.
    type State = bool;
    type Command = Command;
    type Event = Event;

    fn decide(is_discarded: &bool, command: Command) -> Result<Vec<Event>, Rejection> {
        match command {
            _ if *is_discarded => Err(Rejection::NotFound(Self::NAME)),
            Command::Retry(retried) => Ok(vec![Event::Retried(retried)]),
            Command::Discard(discarded) => Ok(vec![Event::Discarded(discarded)]),
        }
    }

    fn evolve(_: bool, event: &Event) -> bool {
        matches!(event, Event::Discarded(discarded) if discarded.view != DELIVERIES)
    }

    fn restores(_: &Event) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::given;

    fn retried() -> Retried {
        let filters = vec![Filter::View("targets".into()), Filter::Error("x".into()), Filter::Id(7)];
        Retried { until: 9, until_of_sessions: 3, until_place: 4, ..Retried::of(filters) }
    }

    fn discarded() -> Discarded {
        let [view, log, reason] = ["targets", "EVENTS", "it is of a customer who has left"].map(str::to_owned);
        let [instance_id, aggregate_type, aggregate_id] = ["1", "target", "2"].map(str::to_owned);
        Discarded {
            view,
            log,
            sequence: 7,
            reason,
            instance_id,
            aggregate_type,
            aggregate_id,
            target_id: String::new(),
            error: "it is broken".to_owned(),
            first_failed: Some(5),
            last_failed: 8,
            tries: 9,
        }
    }

    #[test]
    fn what_was_left_out_before_its_error_was_kept_is_read() {
        let mut old = serde_json::to_value(discarded()).unwrap();
        for name in ["error", "first_failed", "last_failed", "tries"] {
            old.as_object_mut().unwrap().remove(name);
        }
        let read: Discarded = serde_json::from_value(old).unwrap();
        let without = Discarded { error: String::new(), first_failed: None, last_failed: 0, tries: 0, ..discarded() };
        assert_eq!(read, without);
    }

    #[test]
    fn what_failed_is_tried_again_as_often_as_one_likes() {
        given::<FailedEvent>([]).when(Command::Retry(retried())).then([Event::Retried(retried())]);
        given::<FailedEvent>([Event::Retried(retried())])
            .when(Command::Retry(retried()))
            .then([Event::Retried(retried())]);
    }

    #[test]
    fn what_is_left_out_is_no_failed_event_any_more() {
        let before = [Event::Retried(retried())];
        given::<FailedEvent>(before).when(Command::Discard(discarded())).then([Event::Discarded(discarded())]);
        for command in [Command::Discard(discarded()), Command::Retry(retried())] {
            let missing = Rejection::NotFound(FailedEvent::NAME);
            given::<FailedEvent>([Event::Discarded(discarded())]).when(command).then_rejected(&missing);
        }
    }

    #[test]
    fn what_the_first_builds_do_not_know_is_apart() {
        let filters = [Filter::View("targets".into()), Filter::Id(7)].to_vec();
        assert_eq!((retried().filters, retried().further), (filters, vec![Filter::Error("x".into())]));
    }

    #[test]
    fn a_delivery_can_be_given_up_again() {
        let before = Event::Discarded(Discarded { view: DELIVERIES.to_owned(), ..discarded() });
        given::<FailedEvent>([before]).when(Command::Retry(retried())).then([Event::Retried(retried())]);
    }

    #[test]
    fn an_event_alone_gives_the_state() {
        for (event, is_discarded) in [(Event::Discarded(discarded()), true), (Event::Retried(retried()), false)] {
            assert!(FailedEvent::restores(&event));
            assert_eq!(FailedEvent::evolve(false, &event), is_discarded);
        }
    }
}
