//! What readers of a process share: records as they come from NATS, decoded once.
//!
//! A feed runs a little ahead of its slowest reader, and keeps what that has not read yet. Whoever is elsewhere begins a
//! feed of its own, which ends where it meets another one.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_nats::jetstream::{
    consumer::{
        DeliverPolicy,
        pull::{Ordered, OrderedConfig},
    },
    stream,
};
use futures::StreamExt;
use tokio::{
    sync::Notify,
    time::{Instant, timeout, timeout_at},
};

use super::{Failure, IDLE, Log, MOST_IN_FLIGHT, nats};
use crate::record::{Broken, Record};

/// How many bytes of the log a feed is ahead of its slowest reader at most.
const AHEAD: u64 = 4 << 20;
/// How many bytes it keeps that all have read, for those who begin a little later.
const BEHIND: u64 = 1 << 20;
/// How long it waits for readers that stand still, before it goes on without them.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it waits all in all for readers that are slow, before it goes on without them.
const FORBEARANCE: Duration = Duration::from_secs(30);

/// The feeds of a process.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    open: Mutex<Vec<Arc<Feed>>>,
    numbers: AtomicU64,
}

/// Records of one stretch of the log.
#[derive(Debug)]
struct Feed {
    number: u64,
    window: Mutex<Window>,
    /// There is a further record, or the feed has ended.
    came: Notify,
    /// A reader has read on, or was left behind.
    read: Notify,
    /// A reader is gone.
    left: Notify,
}

#[derive(Debug)]
struct Window {
    /// The newest at the back, each with the bytes of the log that the feed had sent with it.
    records: VecDeque<(Arc<Record>, u64)>,
    /// The stream sequence of the newest record, or of the one before the first.
    end: u64,
    /// How many bytes of the log the feed has sent with all records, and with those that are no longer here.
    sent: u64,
    gone: u64,
    /// The stream sequences that the readers have read, by their numbers.
    readers: HashMap<u64, u64>,
    /// Since it was too far ahead of a reader.
    full: Option<Full>,
    state: State,
}

#[derive(Debug)]
struct Full {
    since: Instant,
    /// Who was late when it was looked last, and what they had read.
    late: HashMap<u64, u64>,
    looked: Instant,
}

#[derive(Debug)]
enum State {
    Goes,
    /// It has met another one, or has no reader.
    Ended,
    Failed(Failure),
}

/// One reader's part in a feed.
#[derive(Debug)]
pub(super) struct Seat {
    feed: Arc<Feed>,
    number: u64,
}

/// What a feed has for a reader.
enum Next {
    Record(Arc<Record>),
    Later,
    /// It does not have the record, and never will.
    Never,
    Failed(Failure),
}

impl Feeds {
    /// A part in a feed that has, or will have, the record behind `last`.
    pub(super) fn join(self: &Arc<Self>, log: &Log, last: u64) -> Seat {
        let number = self.numbers.fetch_add(1, Relaxed);
        let mut open = self.open();
        if let Some(feed) = open.iter().find(|feed| feed.window().seat(number, last)) {
            return Seat { feed: feed.clone(), number };
        }
        let window = Mutex::new(Window::new(last, [number]));
        let feed = Arc::new(Feed { number, window, came: Notify::new(), read: Notify::new(), left: Notify::new() });
        open.push(feed.clone());
        tokio::spawn(self.clone().run(feed.clone(), log.reading.clone(), log.stream.clone()));
        Seat { feed, number }
    }

    async fn run(self: Arc<Self>, feed: Arc<Feed>, reading: stream::Stream, stream: stream::Stream) {
        let outcome = tokio::select! {
            outcome = self.fill(&feed, &reading, &stream) => outcome,
            () = feed.is_left() => Ok(()),
        };
        // Nobody joins any more, and whoever did is told.
        self.open().retain(|open| open.number != feed.number);
        feed.window().state = outcome.map_or_else(State::Failed, |()| State::Ended);
        feed.came.notify_waiters();
    }

    /// Sends what comes, until that is what another feed sends.
    async fn fill(&self, feed: &Feed, reading: &stream::Stream, stream: &stream::Stream) -> Result<(), Failure> {
        let mut last = feed.window().end;
        let mut messages = messages(reading, last + 1).await?;
        loop {
            let (record, size) = match next(&mut messages, stream, last).await {
                // They are asked for again.
                Err(Failure::Nats(what)) if what == LOST => {
                    tracing::debug!(last, "{LOST}; they are asked for again");
                    messages = self::messages(reading, last + 1).await?;
                    continue;
                }
                outcome => outcome?,
            };
            match record.stream_sequence {
                // A consumer that is made anew by its client may begin anywhere; one that is asked for again does not.
                found if found <= last => return Err(Failure::Nats(format!("message {found} came behind {last}"))),
                found if found > last + 1 => return Err(Broken::MessageHole { last, found }.into()),
                found => last = found,
            }
            feed.push(record, size).await;
            if self.is_met(feed) {
                return Ok(());
            }
        }
    }

    /// Whether another feed has all that the readers of this one want, and is as far. Nobody joins this one then.
    fn is_met(&self, feed: &Feed) -> bool {
        let (end, slowest) = {
            let window = feed.window();
            (window.end, window.slowest())
        };
        let mut open = self.open();
        let others = open.iter().filter(|other| other.number != feed.number);
        let is_met = others.map(|other| other.window()).any(|window| window.end >= end && window.serves(slowest));
        if is_met {
            open.retain(|open| open.number != feed.number);
        }
        is_met
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Feed>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    /// Sends a record to all readers. It waits for one that is far behind, but not for long.
    async fn push(&self, record: Record, size: u64) {
        loop {
            let read = self.read.notified();
            let Some(until) = self.window().full_until(Instant::now()) else { break };
            let _ = timeout_at(until, read).await;
        }
        self.window().push(Arc::new(record), size);
        self.came.notify_waiters();
    }

    /// Ends when nobody listens.
    async fn is_left(&self) {
        loop {
            let left = self.left.notified();
            if self.window().readers.is_empty() {
                return;
            }
            left.await;
        }
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    /// An empty one behind a record, for readers that have read that.
    fn new(last: u64, readers: impl IntoIterator<Item = u64>) -> Self {
        let readers = readers.into_iter().map(|number| (number, last)).collect();
        let (records, state) = (VecDeque::new(), State::Goes);
        Self { records, end: last, sent: 0, gone: 0, readers, full: None, state }
    }

    /// Whether the record behind `last` is here, or is the next to come.
    fn serves(&self, last: u64) -> bool {
        matches!(self.state, State::Goes) && (self.end - self.records.len() as u64..=self.end).contains(&last)
    }

    fn seat(&mut self, number: u64, last: u64) -> bool {
        let serves = self.serves(last);
        if serves {
            self.readers.insert(number, last);
        }
        serves
    }

    /// The record behind `last`, if it is here.
    fn behind(&self, last: u64) -> Option<&(Arc<Record>, u64)> {
        let first = self.end - self.records.len() as u64;
        self.records.get(usize::try_from(last.checked_sub(first)?).ok()?)
    }

    /// What the slowest reader has read.
    fn slowest(&self) -> u64 {
        self.readers.values().min().copied().unwrap_or(self.end)
    }

    /// How many bytes were sent up to a record.
    fn sent_with(&self, last: u64) -> u64 {
        last.checked_sub(1).and_then(|before| self.behind(before)).map_or(self.gone, |(_, sent)| *sent)
    }

    /// Until when there is no room for a further record; `None` where there is. Goes on without those who were waited for
    /// long enough, unless nobody else is there.
    fn full_until(&mut self, now: Instant) -> Option<Instant> {
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

    fn push(&mut self, record: Arc<Record>, size: u64) {
        (self.end, self.sent) = (record.stream_sequence, self.sent + size);
        self.records.push_back((record, self.sent));
        let read = self.sent_with(self.slowest());
        while let Some((_, sent)) = self.records.front()
            && sent + BEHIND < read
        {
            self.gone = *sent;
            self.records.pop_front();
        }
    }

    fn next(&mut self, number: u64, last: u64) -> Next {
        let record = self.behind(last).map(|(record, _)| record.clone());
        match (&self.state, record) {
            (State::Goes | State::Failed(_), Some(record)) => {
                // One that was left behind is waited for no more, though it may still find what it needs.
                self.readers.entry(number).and_modify(|read| *read = last + 1);
                Next::Record(record)
            }
            (State::Goes, None) if last == self.end => Next::Later,
            (State::Failed(failure), None) if last == self.end => Next::Failed(failure.clone()),
            (State::Goes | State::Failed(_), None) | (State::Ended, _) => Next::Never,
        }
    }
}

impl Seat {
    /// The record behind `last`, waited for; `None` where this feed never has it.
    pub(super) async fn next(&self, last: u64) -> Result<Option<Arc<Record>>, Failure> {
        loop {
            let came = self.feed.came.notified();
            let next = self.feed.window().next(self.number, last);
            match next {
                Next::Record(record) => {
                    self.feed.read.notify_waiters();
                    return Ok(Some(record));
                }
                Next::Later => came.await,
                Next::Never => return Ok(None),
                Next::Failed(failure) => return Err(failure),
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.feed.window().readers.remove(&self.number);
        self.feed.read.notify_waiters();
        self.feed.left.notify_waiters();
    }
}

async fn messages(stream: &stream::Stream, start_sequence: u64) -> Result<Ordered, Failure> {
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence },
        max_batch: MOST_IN_FLIGHT,
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(nats)?;
    consumer.messages().await.map_err(nats)
}

/// The record behind the one of stream sequence `last`, and its size in bytes.
async fn next(messages: &mut Ordered, stream: &stream::Stream, last: u64) -> Result<(Record, u64), Failure> {
    let message = loop {
        match timeout(IDLE, messages.next()).await {
            Ok(Some(message)) => break message.map_err(nats)?,
            Ok(None) => return Err(Failure::Nats(LOST.to_owned())),
            Err(_) => nothing_lost(stream, last).await?,
        }
    };
    let sequence = message.info().map_err(|error| Failure::Nats(error.to_string()))?.stream_sequence;
    Ok((Record::decode(sequence, &message.payload)?, message.payload.len() as u64))
}

/// What is said of records that were sent and did not arrive.
const LOST: &str = "records were lost on their way";

/// A feed that hears nothing while the stream goes on has lost records on their way, and must ask for them again.
async fn nothing_lost(stream: &stream::Stream, last: u64) -> Result<(), Failure> {
    match stream.get_info().await.map_err(nats)?.state.last_sequence {
        end if end > last => Err(Failure::Nats(LOST.to_owned())),
        _ => Ok(()),
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
            assert!(matches!(window.next(number, last), Next::Record(record) if record.stream_sequence == last + 1));
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
        assert!(matches!(window.next(2, 15), Next::Never), "what it has not read is gone");
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
        assert!(matches!(window.next(1, 20), Next::Later));
    }
}
