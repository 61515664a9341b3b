//! Which parked aggregates are tried again, and when: as soon as history, which what waits is read from, has come far enough.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use eventlog::record::{AggregateKey, Recorded};
use tokio::time::Instant;

/// How soon it looks again at first whether history has come far enough, and then more and more rarely.
const LOOK_SOON: Duration = Duration::from_millis(100);
/// How rarely it looks at last.
const LOOK_AT_LEAST: Duration = Duration::from_secs(1);
/// How many aggregates are tried again at once.
const AT_ONCE: usize = 32;

/// The aggregates that are to be tried again.
pub(super) struct Due {
    /// Each, and from which event on. The next ones are the last.
    all: Vec<(AggregateKey, u64)>,
    /// When it looks at them.
    at: Instant,
    /// How long it waits after it has looked in vain.
    pause: Duration,
    /// Where in the log the unit began. Of what was parked by then it is not known what came last.
    begun: u64,
    /// The last event of each parked aggregate that the log has brought since.
    last: HashMap<AggregateKey, u64>,
}

impl Due {
    /// Begins with these, in a unit that stands at a sequence of the log.
    pub(super) fn new(all: Vec<(AggregateKey, u64)>, begun: u64) -> Self {
        Self { all, at: Instant::now(), pause: LOOK_SOON, begun, last: HashMap::new() }
    }

    /// Whether it is time to look at them.
    pub(super) fn is_now(&self) -> bool {
        !self.all.is_empty() && self.at <= Instant::now()
    }

    /// How soon that is, if there are any and it is sooner than something else.
    pub(super) fn within(&self, otherwise: Duration) -> Duration {
        let left = self.at.saturating_duration_since(Instant::now());
        if self.all.is_empty() { otherwise } else { left.min(otherwise) }
    }

    /// Does not look at them for so long.
    pub(super) fn postpone(&mut self, by: Duration) {
        self.at = Instant::now() + by;
    }

    /// Looks again, and every time later than the time before, up to a bound.
    fn wait(&mut self) {
        self.postpone(self.pause);
        self.pause = (self.pause * 2).min(LOOK_AT_LEAST);
    }

    /// Adds aggregates, each with the event that it is parked at, save those that are here already.
    pub(super) fn add(&mut self, meant: Vec<(AggregateKey, u64)>) {
        let known: HashSet<_> = self.all.iter().map(|(key, _)| key.clone()).collect();
        self.all.extend(meant.into_iter().filter(|(key, _)| !known.contains(key)));
        (self.at, self.pause) = (Instant::now(), LOOK_SOON);
    }

    /// Notes events of parked aggregates, which wait.
    pub(super) fn saw<'a>(&mut self, events: impl Iterator<Item = &'a Recorded>) {
        self.last.extend(events.map(|event| (event.key(), event.sequence)));
    }

    /// Whether history at a sequence has all that waits of an aggregate. Others may have been written since: their writes are no
    /// reason to wait.
    pub(super) fn has_all(&self, key: &AggregateKey, reached: u64) -> bool {
        self.last.get(key).copied().unwrap_or(self.begun) <= reached
    }

    /// The next ones, where history has come to a sequence; none where it has nothing new of any of them. Those come first of which
    /// it has all.
    pub(super) fn next(&mut self, reached: u64) -> Vec<(AggregateKey, u64)> {
        let mut all = std::mem::take(&mut self.all);
        all.sort_by_key(|(key, from)| (*from <= reached, self.has_all(key, reached)));
        // What was discarded before the unit began is not known before.
        let has_begun = self.begun <= reached;
        let is_ready = |(_, from): &&(AggregateKey, u64)| has_begun && *from <= reached;
        let next: Vec<_> = all.iter().rev().take_while(is_ready).take(AT_ONCE).cloned().collect();
        self.all = all;
        if next.first().is_some_and(|(key, _)| self.has_all(key, reached)) {
            self.pause = LOOK_SOON;
        } else {
            // What is written again and again is brought up as far as history is, but not before every batch.
            self.wait();
        }
        next
    }

    /// Takes away the ones that were next, so many.
    pub(super) fn done(&mut self, count: usize) {
        self.all.truncate(self.all.len() - count);
    }

    /// Goes on with an aggregate from an event on.
    pub(super) fn go_on(&mut self, key: AggregateKey, from: u64) {
        self.all.push((key, from));
    }

    /// Does not go on with an aggregate that failed, of which the unit has seen all up to a sequence.
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
        due.saw([event("all", 3), event("part", 4), event("nothing", 6), event("part", 8)].iter());
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
