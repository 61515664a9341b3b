//! The section of the log that a feed retains, and the positions of its readers. It knows no clock and no NATS.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::LogFailure;
use crate::record::Record;

/// The most bytes that a feed is ahead of its slowest reader.
const AHEAD: u64 = 4 << 20;
/// How many bytes that all have read are retained, for readers that begin a little later.
const MOST_LAG: u64 = 1 << 20;
/// How long a feed waits for readers that do not move, before it goes on without them.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a feed waits in total for readers that are slow, before it goes on without them.
const FORBEARANCE: Duration = Duration::from_secs(30);

/// The records of one section of the log.
#[derive(Debug)]
pub(super) struct Window {
    /// The records, the newest at the back, each with the total bytes that the feed had sent with it.
    records: VecDeque<(Arc<Record>, u64)>,
    /// The stream sequence of the newest record, or of the one before the first.
    pub(super) end: u64,
    /// The bytes that the feed has sent with all records, and with those that are not here any more.
    sent: u64,
    gone: u64,
    /// The stream sequence that each reader has read, by reader number.
    pub(super) readers: HashMap<u64, u64>,
    /// Set while the feed is too far ahead of a reader.
    full: Option<Full>,
    pub(super) state: State,
}

#[derive(Debug)]
struct Full {
    since: Instant,
    /// The readers that were late at the last check, and what they had read.
    late: HashMap<u64, u64>,
    looked: Instant,
}

#[derive(Debug)]
pub(super) enum State {
    Goes,
    /// The feed has caught up with another one, or has no reader.
    Ended,
    Failed(LogFailure),
}

/// The next item for a reader.
pub(super) enum FeedStep {
    Record(Arc<Record>),
    Later,
    /// The feed does not have the record, and never will.
    Never,
    Failed(LogFailure),
}

impl Window {
    /// Creates an empty window after a record, for readers that have read that.
    pub(super) fn new(last: u64, readers: impl IntoIterator<Item = u64>) -> Self {
        let readers = readers.into_iter().map(|number| (number, last)).collect();
        let (records, state) = (VecDeque::new(), State::Goes);
        Self { records, end: last, sent: 0, gone: 0, readers, full: None, state }
    }

    /// Whether the record after `last` is here, or is the next to arrive.
    pub(super) fn serves(&self, last: u64) -> bool {
        matches!(self.state, State::Goes) && (self.end - self.records.len() as u64..=self.end).contains(&last)
    }

    pub(super) fn seat(&mut self, number: u64, last: u64) -> bool {
        let serves = self.serves(last);
        if serves {
            self.readers.insert(number, last);
        }
        serves
    }

    /// Returns the record after `last`, if it is here.
    fn after(&self, last: u64) -> Option<&(Arc<Record>, u64)> {
        let first = self.end - self.records.len() as u64;
        self.records.get(usize::try_from(last.checked_sub(first)?).ok()?)
    }

    /// Returns what the slowest reader has read.
    pub(super) fn slowest(&self) -> u64 {
        self.readers.values().min().copied().unwrap_or(self.end)
    }

    /// Returns the bytes that were sent up to a record.
    fn sent_with(&self, last: u64) -> u64 {
        last.checked_sub(1).and_then(|before| self.after(before)).map_or(self.gone, |(_, sent)| *sent)
    }

    /// Returns until when there is no room for a further record; `None` if there is room. Drops readers that were
    /// waited for long enough, unless no others are left.
    pub(super) fn full_until(&mut self, now: Instant) -> Option<Instant> {
        let lag = self.sent - self.sent_with(self.slowest());
        if lag <= AHEAD / 2 {
            self.full = None;
        }
        if lag <= AHEAD {
            return None;
        }
        let mut late = self.readers.clone();
        late.retain(|_, last| self.sent - self.sent_with(*last) > AHEAD / 2);
        let full = self.full.get_or_insert_with(|| Full { since: now, late: late.clone(), looked: now });
        let (is_over, until) = (now >= full.since + FORBEARANCE, full.looked + PATIENCE);
        if !is_over && now < until {
            return Some(until.min(full.since + FORBEARANCE));
        }
        let given_up: HashSet<u64> = late
            .iter()
            .filter(|(number, last)| is_over || full.late.get(number) == Some(last))
            .map(|(number, _)| *number)
            .collect();
        let since = if is_over { now } else { full.since };
        self.full = Some(Full { since, late, looked: now });
        if given_up.len() < self.readers.len() {
            self.readers.retain(|number, _| !given_up.contains(number));
        }
        self.full_until(now)
    }

    pub(super) fn push(&mut self, record: Arc<Record>, size: u64) {
        (self.end, self.sent) = (record.stream_sequence, self.sent + size);
        self.records.push_back((record, self.sent));
        let read = self.sent_with(self.slowest());
        while let Some((_, sent)) = self.records.front()
            && sent + MOST_LAG < read
        {
            self.gone = *sent;
            self.records.pop_front();
        }
    }

    pub(super) fn next(&mut self, number: u64, last: u64) -> FeedStep {
        let record = self.after(last).map(|(record, _)| record.clone());
        match (&self.state, record) {
            (State::Goes | State::Failed(_), Some(record)) => {
                // A reader that was left behind is not waited for, though it may still find what it needs.
                self.readers.entry(number).and_modify(|read| *read = last + 1);
                FeedStep::Record(record)
            }
            (State::Goes, None) if last == self.end => FeedStep::Later,
            (State::Failed(failure), None) if last == self.end => FeedStep::Failed(failure.clone()),
            (State::Goes | State::Failed(_), None) | (State::Ended, _) => FeedStep::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::log::CommitRecord;

    use super::*;

    const SIZE: u64 = AHEAD / 4;

    fn fill(window: &mut Window, records: u64) {
        for _ in 0..records {
            let record = Record::new(window.end + 1, [0; 32], CommitRecord { first_sequence: 1, ..Default::default() });
            window.push(Arc::new(record), SIZE);
        }
    }

    fn read(window: &mut Window, number: u64, from: u64, to: u64) {
        for last in from..to {
            assert!(
                matches!(window.next(number, last), FeedStep::Record(record) if record.stream_sequence == last + 1)
            );
        }
    }

    #[test]
    fn one_that_stands_still_is_waited_for_a_second() {
        let (mut window, begin) = (Window::new(10, [1, 2]), Instant::now());
        fill(&mut window, 4);
        assert_eq!(window.full_until(begin), None, "there is room");
        fill(&mut window, 1);
        read(&mut window, 1, 10, 15);
        assert_eq!(window.full_until(begin), Some(begin + PATIENCE));
        assert_eq!(window.full_until(begin + PATIENCE / 2), Some(begin + PATIENCE));
        assert_eq!(window.full_until(begin + PATIENCE), None, "it is waited for no more");
        assert_eq!(window.readers, HashMap::from([(1, 15)]));
        read(&mut window, 2, 10, 15);
        fill(&mut window, 9);
        read(&mut window, 1, 15, 24);
        fill(&mut window, 1);
        assert!(matches!(window.next(2, 15), FeedStep::Never), "what it has not read is gone");
    }

    #[test]
    fn one_that_is_slow_is_waited_for_longer_and_one_that_is_alone_for_ever() {
        let (mut window, begin) = (Window::new(0, [1, 2]), Instant::now());
        fill(&mut window, 5);
        let mut now = begin;
        while now < begin + FORBEARANCE {
            let (one, other, end) = (window.readers[&1], window.readers[&2], window.end);
            read(&mut window, 1, one, end);
            assert!(window.full_until(now).is_some(), "it is waited for");
            now += PATIENCE;
            read(&mut window, 2, other, other + 1);
            fill(&mut window, 1);
        }
        assert_eq!(window.full_until(now), None, "it is waited for no more");
        assert_eq!(window.readers.len(), 1);

        fill(&mut window, 5);
        assert_eq!(window.full_until(now), Some(now + PATIENCE));
        assert_eq!(window.full_until(now + 2 * FORBEARANCE), Some(now + 2 * FORBEARANCE + PATIENCE));
        assert_eq!(window.readers.len(), 1, "nobody else is there");
    }

    #[test]
    fn what_all_have_read_goes_except_for_the_last_of_it() {
        let mut window = Window::new(0, [1]);
        for last in 0..20 {
            fill(&mut window, 1);
            read(&mut window, 1, last, last + 1);
        }
        assert!(window.records.len() < 4, "{}", window.records.len());
        assert!(window.serves(19) && !window.serves(10) && !window.serves(21));
        assert!(matches!(window.next(1, 20), FeedStep::Later));
    }
}
