//! What readers of a process share: records as they come from NATS, decoded once.
//!
//! A feed runs a little ahead of its slowest reader, and keeps what that has not read yet. Whoever is elsewhere begins a
//! feed of its own, which ends where it meets another one.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
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

use super::{
    IDLE, Log, LogFailure, MOST_IN_FLIGHT, broken, is_missing, nats,
    window::{Next, State, Window},
};
use crate::record::{Broken, Record};

/// The feeds of a process.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    open: Mutex<Vec<Arc<Feed>>>,
    numbers: AtomicU64,
}

/// One consumer, and what it has sent of the log.
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

/// One reader's part in a feed.
#[derive(Debug)]
pub(super) struct Seat {
    feed: Arc<Feed>,
    number: u64,
}

impl Feeds {
    /// A part in a feed that has, or will have, the record after `last`.
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
    async fn fill(&self, feed: &Feed, reading: &stream::Stream, stream: &stream::Stream) -> Result<(), LogFailure> {
        let mut last = feed.window().end;
        let mut messages = messages(reading, last + 1).await?;
        loop {
            let (record, size) = match next(&mut messages, stream, last).await {
                // They are asked for again.
                Err(LogFailure::Nats(what)) if what == LOST => {
                    tracing::debug!(last, "{LOST}; they are asked for again");
                    messages = self::messages(reading, last + 1).await?;
                    continue;
                }
                outcome => outcome?,
            };
            match record.stream_sequence {
                // A consumer that is made anew by its client may begin anywhere; one that is asked for again does not.
                found if found <= last => return Err(LogFailure::Nats(format!("message {found} came after {last}"))),
                found if found > last + 1 => return Err(broken(stream, Broken::MessageHole { last, found })),
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
    /// Sends a record to all readers. It waits for one that lags far, but not for long.
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

impl Seat {
    /// The record after `last`, waited for; `None` where this feed never has it.
    pub(super) async fn next(&self, last: u64) -> Result<Option<Arc<Record>>, LogFailure> {
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

/// What a stream has from a message on, as it comes.
pub(super) async fn messages(stream: &stream::Stream, start_sequence: u64) -> Result<Ordered, LogFailure> {
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence },
        max_batch: MOST_IN_FLIGHT,
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(nats)?;
    consumer.messages().await.map_err(nats)
}

/// The record after the one of stream sequence `last`, and its size in bytes.
async fn next(messages: &mut Ordered, stream: &stream::Stream, last: u64) -> Result<(Record, u64), LogFailure> {
    let message = loop {
        match timeout(IDLE, messages.next()).await {
            Ok(Some(message)) => break message.map_err(nats)?,
            Ok(None) => return Err(LogFailure::Nats(LOST.to_owned())),
            Err(_) => nothing_lost(stream, last).await?,
        }
    };
    let sequence = message.info().map_err(|error| LogFailure::Nats(error.to_string()))?.stream_sequence;
    let record = Record::decode(sequence, &message.payload).map_err(|found| broken(stream, found))?;
    Ok((record, message.payload.len() as u64))
}

/// What is said of records that were sent and did not arrive.
const LOST: &str = "records were lost on their way";

/// A feed that hears nothing while the stream goes on has lost records on their way, and must ask for them again.
async fn nothing_lost(stream: &stream::Stream, last: u64) -> Result<(), LogFailure> {
    match stream.get_info().await.map_err(nats)?.state.last_sequence {
        end if end > last => match stream.get_raw_message(last + 1).await {
            // It will never come.
            Err(error) if is_missing(&error) => Err(broken(stream, Broken::Lost { end, lost: 1, at: last + 1 })),
            _ => Err(LogFailure::Nats(LOST.to_owned())),
        },
        _ => Ok(()),
    }
}
