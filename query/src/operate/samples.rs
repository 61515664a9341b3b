//! How far projections were during the last minute, once a second, from what this node hears anyway: it asks nobody.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use page::component::POINTS;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use view::{progress::Progress, projection::PROJECTIONS};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);

/// The last minute.
#[derive(Clone)]
pub(super) struct Samples(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// The end of the log, as this node knows it.
    ends: VecDeque<u64>,
    /// Where each projection was.
    positions: HashMap<&'static str, VecDeque<u64>>,
}

/// How far a projection is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lag {
    /// The sequence of the last event that it has; nothing where it has not said so yet.
    pub(super) position: Option<u64>,
    /// How many events it lacks.
    pub(super) events: u64,
    /// For how long it has lacked the first of them; no more than the last minute is known.
    pub(super) seconds: u64,
    /// How many events it has processed a second.
    pub(super) rate: u64,
    /// How many it has lacked, second after second.
    pub(super) values: Vec<u64>,
}

impl Samples {
    /// Looks from now on.
    pub(super) fn start(progress: Progress, end: watch::Receiver<u64>) -> Self {
        let samples = Self(Arc::default());
        let seen = samples.0.clone();
        tokio::spawn(async move {
            let mut beat = interval(EVERY);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                beat.tick().await;
                let positions = PROJECTIONS.iter().map(|it| (it.name, progress.of(it).borrow().sequence));
                seen.lock().unwrap_or_else(PoisonError::into_inner).add(*end.borrow(), positions);
            }
        });
        samples
    }

    /// How far a projection is.
    pub(super) fn lag(&self, name: &str) -> Lag {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lag(name)
    }

    /// The end of the log.
    pub(super) fn end(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ends.back().copied().unwrap_or_default()
    }
}

impl Seen {
    fn add(&mut self, end: u64, positions: impl Iterator<Item = (&'static str, u64)>) {
        push(&mut self.ends, end);
        for (name, position) in positions {
            push(self.positions.entry(name).or_default(), position);
        }
        // What this node has heard of a projection may be ahead of what it has itself.
        let furthest = self.positions.values().filter_map(|positions| positions.back()).max().copied();
        if let (Some(end), Some(furthest)) = (self.ends.back_mut(), furthest) {
            *end = (*end).max(furthest);
        }
    }

    fn lag(&self, name: &str) -> Lag {
        let (Some(positions), Some(end)) = (self.positions.get(name), self.ends.back()) else { return Lag::default() };
        let Some(position) = positions.back().copied().filter(|position| *position > 0) else { return Lag::default() };
        let values = self.ends.iter().zip(positions).map(|(end, position)| match position {
            0 => 0,
            position => end.saturating_sub(*position),
        });
        let missing = self.ends.iter().rev().take_while(|end| **end > position).count() as u64;
        let first = positions.iter().copied().find(|position| *position > 0).unwrap_or(position);
        let seconds = (positions.iter().filter(|position| **position > 0).count() as u64).saturating_sub(1).max(1);
        Lag {
            position: Some(position),
            events: end.saturating_sub(position),
            seconds: missing,
            rate: position.saturating_sub(first) / seconds,
            values: values.collect(),
        }
    }
}

fn push(values: &mut VecDeque<u64>, value: u64) {
    if values.len() == POINTS {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_is_counted_in_events_and_in_seconds() {
        let mut seen = Seen::default();
        assert_eq!(seen.lag("targets"), Lag::default());
        for (end, position) in [(10, 0), (10, 10), (14, 10), (16, 12)] {
            seen.add(end, [("targets", position)].into_iter());
        }
        let values = vec![0, 0, 4, 4];
        assert_eq!(seen.lag("targets"), Lag { position: Some(12), events: 4, seconds: 2, rate: 1, values });
        seen.add(16, [("targets", 16)].into_iter());
        let lag = seen.lag("targets");
        assert_eq!((lag.events, lag.seconds), (0, 0));
    }

    #[test]
    fn a_minute_is_kept_and_no_projection_is_ahead_of_the_log() {
        let mut seen = Seen::default();
        for second in 1..200 {
            seen.add(1, [("targets", second)].into_iter());
        }
        assert_eq!((seen.lag("targets").values.len(), seen.lag("targets").events), (POINTS, 0));
    }
}
