//! Disclosures: somebody was shown what is personal in a failed event, and gave a reason. They are an aggregate of
//! their own, and not a decision about failed events: views stall at a decision that they do not know.

use serde::{Deserialize, Serialize};

use crate::{aggregate::Aggregate, rejection::Rejection};

/// The aggregate of the disclosures of one failed event, whose id it has. It belongs to the system, or to the instance
/// whose administrator was shown the event.
pub struct Disclosure;

/// The event that somebody was shown, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disclosed {
    /// The reason, in the words of the person who was shown it.
    pub reason: String,
    /// The view in which the event failed.
    pub view: String,
    /// The log that the event is in.
    pub log: String,
    /// The sequence of the event in that log.
    pub sequence: u64,
    /// The instance of the event.
    pub instance_id: String,
    /// The type of the event's aggregate.
    pub aggregate_type: String,
    /// The id of the event's aggregate.
    pub aggregate_id: String,
}

/// The events of a disclosure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// Somebody was shown the event.
    Made(Disclosed),
}

impl Aggregate for Disclosure {
    const NAME: &'static str = "disclosure";
    const EVENTS: &'static [&'static str] = &["made"];
    type State = ();
    type Command = Disclosed;
    type Event = Event;

    fn decide((): &(), disclosed: Disclosed) -> Result<Vec<Event>, Rejection> {
        Ok(vec![Event::Made(disclosed)])
    }

    fn evolve((): (), _: &Event) {}

    fn restores(_: &Event) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::given;

    fn disclosed() -> Disclosed {
        let [reason, view, log] = ["a ticket", "users_index", "EVENTS"].map(str::to_owned);
        let [instance_id, aggregate_type, aggregate_id] = ["1", "user", "2"].map(str::to_owned);
        Disclosed { reason, view, log, sequence: 7, instance_id, aggregate_type, aggregate_id }
    }

    #[test]
    fn every_look_is_an_event() {
        let made = || Event::Made(disclosed());
        given::<Disclosure>([]).when(disclosed()).then([made()]);
        given::<Disclosure>([made()]).when(disclosed()).then([made()]);
    }

    #[test]
    fn no_earlier_event_is_needed_for_the_state() {
        assert!(Disclosure::restores(&Event::Made(disclosed())));
    }

    #[test]
    fn an_aggregate_that_cannot_be_removed_exists_and_belongs_to_no_user() {
        assert!(Disclosure::exists(&()));
        assert_eq!(Disclosure::user("2", &()), None);
    }
}
