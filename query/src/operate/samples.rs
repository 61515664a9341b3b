//! The progress of projections and reactions in the last minute, sampled every second from what this node hears.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use domain::log_class::{LogClass, OfEach};
use page::component::POINTS;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use view::{
    progress::Progress,
    projection::{PROJECTIONS, Projection},
    reaction::{REACTIONS, Reaction},
};

/// How often samples are taken.
const EVERY: Duration = Duration::from_secs(1);

/// The samples of the last minute.
#[derive(Clone)]
pub(super) struct Samples(Arc<Mutex<SampleWindow>>);

#[derive(Default)]
struct SampleWindow {
    /// The ends of the logs, as this node knows them.
    ends: OfEach<VecDeque<u64>>,
    /// The position of each projection, if it was known, and the log that it follows.
    positions: HashMap<&'static str, (LogClass, VecDeque<Option<u64>>)>,
    /// The position of each reaction, if it was known, and how much it lacked or had not finished.
    reactions: HashMap<&'static str, VecDeque<Option<(u64, u64)>>>,
}

/// The progress of a projection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lag {
    /// The sequence of the last event that it has processed; `None` if that is unknown.
    pub(super) position: Option<u64>,
    /// How many events it lacks.
    pub(super) events: u64,
    /// How many seconds it has lacked the first of them; at most the last minute is known.
    pub(super) seconds: u64,
    /// How many events it has processed a second.
    pub(super) rate: u64,
    /// How many it has lacked, second after second.
    pub(super) values: Vec<u64>,
}

/// The speed of a reaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pace {
    /// How many events it has taken up a second.
    pub(super) rate: u64,
    /// How many it lacked or had not finished, second after second.
    pub(super) values: Vec<u64>,
}

impl Samples {
    /// Starts to take samples.
    pub(super) fn start(progress: Progress, ends: OfEach<watch::Receiver<u64>>) -> Self {
        let samples = Self(Arc::default());
        let seen = samples.0.clone();
        tokio::spawn(async move {
            let mut beat = interval(EVERY);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                beat.tick().await;
                let ends = ends.as_ref().map(|end| *end.borrow());
                let positions = PROJECTIONS.iter().map(|it| (it, position(&progress, it)));
                let positions = positions.map(|(it, position)| ((it.name, it.class), position));
                let reactions = REACTIONS.iter().map(|name| (*name, progress.reactions.of(name)));
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.add(ends, positions);
                seen.add_reactions(reactions);
            }
        });
        samples
    }

    /// The progress of a projection.
    pub(super) fn lag(&self, name: &str) -> Lag {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lag(name)
    }

    /// The speed of a reaction.
    pub(super) fn pace(&self, name: &str) -> Pace {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pace(name)
    }

    /// The end of `EVENTS`.
    pub(super) fn end(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ends.events.back().copied().unwrap_or_default()
    }
}

/// The position of a projection, once it has a record, which may be one without events.
fn position(progress: &Progress, projection: &Projection) -> Option<u64> {
    let reached = *progress.of(projection).borrow();
    (reached.stream_sequence > 0).then_some(reached.sequence)
}

impl SampleWindow {
    fn add(&mut self, mut ends: OfEach<u64>, positions: impl Iterator<Item = ((&'static str, LogClass), Option<u64>)>) {
        for ((name, class), position) in positions {
            // A projection may be ahead of what this node knows of the log.
            ends[class] = ends[class].max(position.unwrap_or_default());
            push(&mut self.positions.entry(name).or_insert_with(|| (class, VecDeque::new())).1, position);
        }
        for class in LogClass::ALL {
            push(&mut self.ends[class], ends[class]);
        }
    }

    fn add_reactions(&mut self, reactions: impl Iterator<Item = (&'static str, Option<Reaction>)>) {
        for (name, reaction) in reactions {
            let reported = reaction.map(|reported| (reported.sequence, reported.lag_events + reported.waiting));
            push(self.reactions.entry(name).or_default(), reported);
        }
    }

    fn pace(&self, name: &str) -> Pace {
        let Some(reported) = self.reactions.get(name) else { return Pace::default() };
        Pace {
            rate: rate(reported.iter().map(|reported| reported.map(|(sequence, _)| sequence))),
            values: reported.iter().map(|reported| reported.map_or(0, |(_, undone)| undone)).collect(),
        }
    }

    fn lag(&self, name: &str) -> Lag {
        let Some((class, positions)) = self.positions.get(name) else { return Lag::default() };
        let ends = &self.ends[*class];
        let (Some(end), Some(position)) = (ends.back(), positions.back().copied().flatten()) else {
            return Lag::default();
        };
        let values = ends.iter().zip(positions);
        let values = values.map(|(end, position)| position.map_or(0, |position| end.saturating_sub(position)));
        let missing = ends.iter().rev().take_while(|end| **end > position).count() as u64;
        Lag {
            position: Some(position),
            events: end.saturating_sub(position),
            seconds: missing,
            rate: rate(positions.iter().copied()),
            values: values.collect(),
        }
    }
}

/// The average events a second between the first and the last known position, given one position a second.
fn rate(positions: impl Iterator<Item = Option<u64>>) -> u64 {
    let mut reported = (0..).zip(positions).filter_map(|(second, position)| Some((second, position?)));
    let Some(first) = reported.next() else { return 0 };
    let last = reported.last().unwrap_or(first);
    last.1.saturating_sub(first.1) / (last.0 - first.0).max(1_u64)
}

fn push<T>(values: &mut VecDeque<T>, value: T) {
    if values.len() == POINTS {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: (&str, LogClass) = ("targets", LogClass::Events);

    fn of_events(end: u64) -> OfEach<u64> {
        OfEach { events: end, sessions: 0 }
    }

    #[test]
    fn a_lag_is_counted_in_events_and_in_seconds() {
        let mut seen = SampleWindow::default();
        assert_eq!(seen.lag("targets"), Lag::default());
        for (end, position) in [(10, None), (10, Some(10)), (14, Some(10)), (16, Some(12))] {
            seen.add(of_events(end), [(TARGETS, position)].into_iter());
        }
        let values = vec![0, 0, 4, 4];
        assert_eq!(seen.lag("targets"), Lag { position: Some(12), events: 4, seconds: 2, rate: 1, values });
        seen.add(of_events(16), [(TARGETS, Some(16))].into_iter());
        let lag = seen.lag("targets");
        assert_eq!((lag.events, lag.seconds), (0, 0));
    }

    #[test]
    fn a_reaction_is_as_fast_as_it_takes_events_up_and_what_waits_is_not_done() {
        let mut seen = SampleWindow::default();
        assert_eq!(seen.pace("sweep"), Pace::default());
        let reported =
            |sequence, lag_events, waiting| Reaction { sequence, lag_events, waiting, ..Reaction::default() };
        for reported in [None, Some(reported(10, 0, 0)), Some(reported(10, 6, 1)), Some(reported(16, 0, 3))] {
            seen.add_reactions([("sweep", reported)].into_iter());
        }
        assert_eq!(seen.pace("sweep"), Pace { rate: 3, values: vec![0, 0, 7, 3] });
    }

    #[test]
    fn a_minute_is_kept_and_no_projection_is_ahead_of_the_log() {
        let mut seen = SampleWindow::default();
        for second in 1..200 {
            seen.add(of_events(1), [(TARGETS, Some(second))].into_iter());
        }
        assert_eq!((seen.lag("targets").values.len(), seen.lag("targets").events), (POINTS, 0));
    }

    #[test]
    fn a_projection_lags_behind_the_log_that_it_follows() {
        let mut seen = SampleWindow::default();
        let sessions = ("session_history", LogClass::Sessions);
        let positions = [(TARGETS, Some(1000)), (sessions, Some(0))];
        seen.add(OfEach { events: 1000, sessions: 0 }, positions.into_iter());
        assert_eq!(seen.lag("session_history").position, Some(0), "it has all of a log without events");
        assert_eq!((seen.lag("targets").events, seen.lag("session_history").events), (0, 0));
        seen.add(OfEach { events: 1000, sessions: 3 }, positions.into_iter());
        assert_eq!((seen.lag("targets").events, seen.lag("session_history").events), (0, 3));
    }
}
