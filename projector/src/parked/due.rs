//! The parked aggregates that are tried again: as soon as history, which has the waiting events, has come far enough.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use eventlog::record::{AggregateKey, Recorded};
use tokio::time::Instant;

/// The first pause before it is checked again whether history has come far enough; later ones get longer.
const LOOK_SOON: Duration = Duration::from_millis(100);
/// The longest such pause.
const LOOK_AT_LEAST: Duration = Duration::from_secs(1);
/// How many aggregates are tried again at once.
const AT_ONCE: usize = 32;

/// The aggregates that are to be tried again.
pub(super) struct Due {
    /// The aggregates, and the event to begin with. The next ones are at the end.
    all: Vec<(AggregateKey, u64)>,
    /// When they are checked next.
    at: Instant,
    /// The pause after the next check in vain.
    pause: Duration,
    /// The sequence of the log at which the unit began. The last events of what was parked by then are unknown.
    begun: u64,
    /// The last event of each parked aggregate that has arrived since.
    last: HashMap<AggregateKey, u64>,
}

impl Due {
    /// Begins with these aggregates, in a unit that is at a sequence of the log.
    pub(super) fn new(all: Vec<(AggregateKey, u64)>, begun: u64) -> Self {
        Self { all, at: Instant::now(), pause: LOOK_SOON, begun, last: HashMap::new() }
    }

    /// Whether it is time to check them.
    pub(super) fn is_now(&self) -> bool {
        !self.all.is_empty() && self.at <= Instant::now()
    }

    /// How soon that is, but not later than something else.
    pub(super) fn within(&self, otherwise: Duration) -> Duration {
        let left = self.at.saturating_duration_since(Instant::now());
        if self.all.is_empty() { otherwise } else { left.min(otherwise) }
    }

    /// Postpones the next check.
    pub(super) fn postpone(&mut self, by: Duration) {
        self.at = Instant::now() + by;
    }

    /// Postpones the next check, each time for longer, up to a bound.
    fn wait(&mut self) {
        self.postpone(self.pause);
        self.pause = (self.pause * 2).min(LOOK_AT_LEAST);
    }

    /// Adds aggregates, each with the event that it is parked at, unless they are due already.
    pub(super) fn add(&mut self, meant: Vec<(AggregateKey, u64)>) {
        let known: HashSet<_> = self.all.iter().map(|(key, _)| key.clone()).collect();
        self.all.extend(meant.into_iter().filter(|(key, _)| !known.contains(key)));
        (self.at, self.pause) = (Instant::now(), LOOK_SOON);
    }

    /// Notes events of parked aggregates, which wait.
    pub(super) fn note_waiting<'a>(&mut self, events: impl Iterator<Item = &'a Recorded>) {
        self.last.extend(events.map(|event| (event.key(), event.sequence)));
    }

    /// Whether history at a sequence has everything that waits of an aggregate. Later writes to other aggregates are no
    /// reason to wait.
    pub(super) fn has_all(&self, key: &AggregateKey, reached: u64) -> bool {
        self.last.get(key).copied().unwrap_or(self.begun) <= reached
    }

    /// Returns the next ones, given the sequence that history has reached; none if it has nothing new of any. Complete
    /// ones come first.
    pub(super) fn next(&mut self, reached: u64) -> Vec<(AggregateKey, u64)> {
        let mut all = std::mem::take(&mut self.all);
        all.sort_by_key(|(key, from)| (*from <= reached, self.has_all(key, reached)));
        // Only then is it known what was discarded before the unit began.
        let has_begun = self.begun <= reached;
        let is_ready = |(_, from): &&(AggregateKey, u64)| has_begun && *from <= reached;
        let next: Vec<_> = all.iter().rev().take_while(is_ready).take(AT_ONCE).cloned().collect();
        self.all = all;
        if next.first().is_some_and(|(key, _)| self.has_all(key, reached)) {
            self.pause = LOOK_SOON;
        } else {
            // Aggregates with frequent writes follow history, but not before every batch.
            self.wait();
        }
        next
    }

    /// Removes the given number of next ones.
    pub(super) fn done(&mut self, count: usize) {
        self.all.truncate(self.all.len() - count);
    }

    /// Continues with an aggregate from an event on.
    pub(super) fn go_on(&mut self, key: AggregateKey, from: u64) {
        self.all.push((key, from));
    }

    /// Stops trying an aggregate that failed, whose events the unit has seen up to a sequence.
    pub(super) fn stop(&mut self, key: &AggregateKey, seen: u64) {
        self.all.retain(|(due, _)| due != key);
        self.last.insert(key.clone(), seen);
    }

    /// Forgets an aggregate that is not parked any more.
    pub(super) fn forget(&mut self, key: &AggregateKey) {
        self.last.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use eventlog::record::Event;
    use jiff::Timestamp;

    use super::*;

    fn key(id: &str) -> AggregateKey {
        AggregateKey { instance_id: "1".into(), aggregate_type: "target".into(), id: id.into() }
    }

    fn event(id: &str, sequence: u64) -> Recorded {
        let AggregateKey { instance_id, aggregate_type, id: aggregate_id } = key(id);
        let event = Event { instance_id, aggregate_type, aggregate_id, ..Event::default() };
        Recorded { sequence, committed_at: Timestamp::UNIX_EPOCH, event }
    }

    #[test]
    fn who_looks_in_vain_for_ever_looks_again_within_a_second() {
        let mut due = Due::new(vec![(key("a"), 7)], 0);
        assert!(due.is_now());
        for _ in 0..200 {
            assert_eq!(due.next(6), vec![]);
            assert!(!due.is_now(), "not before every batch");
            assert!(due.within(Duration::MAX) <= LOOK_AT_LEAST);
        }
        assert_eq!(due.next(7), vec![(key("a"), 7)]);
    }

    #[test]
    fn nothing_is_tried_before_history_is_where_the_unit_began() {
        let mut due = Due::new(vec![(key("a"), 7)], 9);
        assert_eq!(due.next(8), vec![]);
        assert_eq!(due.next(9), vec![(key("a"), 7)]);
        assert!(due.has_all(&key("a"), 9));
    }

    #[test]
    fn what_history_has_all_of_comes_first_and_what_it_has_nothing_of_does_not_come() {
        let mut due = Due::new(vec![(key("all"), 3), (key("part"), 4), (key("nothing"), 6)], 0);
        due.note_waiting([event("all", 3), event("part", 4), event("nothing", 6), event("part", 8)].iter());
        assert_eq!(due.next(5), vec![(key("all"), 3), (key("part"), 4)]);
        assert!(due.has_all(&key("all"), 5) && !due.has_all(&key("part"), 5));
        due.done(2);
        due.go_on(key("part"), 6);
        assert_eq!(due.next(5), vec![], "it has come no further");
        assert_eq!(due.next(7), vec![(key("nothing"), 6), (key("part"), 6)]);
        due.done(2);
        due.go_on(key("part"), 8);
        assert_eq!(due.next(9), vec![(key("part"), 8)]);
        assert!(due.has_all(&key("part"), 9), "whatever others wrote since");
    }
}
