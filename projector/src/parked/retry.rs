//! Retries of parked aggregates, with the events that wait for each.

use std::{collections::HashSet, sync::Arc};

use eventlog::record::{AggregateKey, Recorded};
use view::failed_event::ParkedAt;

/// An aggregate that is tried again.
pub(crate) struct RetriedAggregate {
    pub(super) key: AggregateKey,
    pub(super) from: u64,
    /// Its events from there on, without discarded ones; if its row was removed and comes back, they are preceded by
    /// the last event that was in that row.
    pub(crate) events: Vec<Arc<Recorded>>,
    /// The sequence up to which these are all.
    pub(super) last: u64,
    /// Whether nothing comes after them.
    pub(super) is_all: bool,
    /// Whether history has the event that failed.
    pub(super) is_there: bool,
}

/// Aggregates that are tried again, and those of them that stay parked nevertheless.
#[derive(Default)]
pub(crate) struct Retry {
    pub(crate) waiting: Vec<RetriedAggregate>,
    pub(super) postponed: HashSet<AggregateKey>,
}

impl RetriedAggregate {
    /// Its events from the failed one on.
    pub(crate) fn events_from_failed(&self) -> impl Iterator<Item = &Arc<Recorded>> {
        self.events.iter().filter(|event| event.sequence >= self.from)
    }
}

impl Retry {
    /// The aggregates that stay parked.
    pub(crate) fn postponed(&self) -> Vec<AggregateKey> {
        self.postponed.iter().cloned().collect()
    }

    /// The aggregates for which nothing waits any more.
    pub(crate) fn healed(&self, failed: &[ParkedAt]) -> Vec<AggregateKey> {
        let failed: HashSet<_> = failed.iter().map(|failed| &failed.key).collect();
        let is_healed = |waiting: &&RetriedAggregate| {
            waiting.is_all && !failed.contains(&waiting.key) && !self.postponed.contains(&waiting.key)
        };
        self.waiting.iter().filter(is_healed).map(|waiting| waiting.key.clone()).collect()
    }
}
