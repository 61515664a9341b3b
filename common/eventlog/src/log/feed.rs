//! Feeds, which readers of a process share: records as they arrive from NATS, decoded once.
//!
//! A feed runs a little ahead of its slowest reader, and retains what that has not read yet. A reader at another
//! position begins a feed of its own, which ends when it catches up with another one.

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
    window::{FeedStep, State, Window},
};
use crate::record::{Broken, Record};

/// The feeds of a process.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    open: Mutex<Vec<Arc<Feed>>>,
    numbers: AtomicU64,
}

/// A consumer, and the records that it has delivered.
#[derive(Debug)]
struct Feed {
    number: u64,
    window: Mutex<Window>,
    /// Notified when there is a further record, or the feed has ended.
    came: Notify,
    /// Notified when a reader has read on, or was left behind.
    read: Notify,
    /// Notified when a reader is gone.
    left: Notify,
}

/// The membership of a reader in a feed.
#[derive(Debug)]
pub(super) struct Seat {
    feed: Arc<Feed>,
    number: u64,
}

impl Feeds {
    /// Joins a feed that has, or will have, the record after `last`.
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
        // Nobody joins any more, and the readers are notified.
        self.open().retain(|open| open.number != feed.number);
        feed.window().state = outcome.map_or_else(State::Failed, |()| State::Ended);
        feed.came.notify_waiters();
    }

    /// Delivers records until it catches up with another feed.
    async fn fill(&self, feed: &Feed, reading: &stream::Stream, stream: &stream::Stream) -> Result<(), LogFailure> {
        let mut last = feed.window().end;
        let mut messages = messages(reading, last + 1).await?;
        loop {
            let (record, size) = match next(&mut messages, stream, last).await {
                // They are requested again.
                Err(LogFailure::Nats(what)) if what == LOST => {
                    tracing::debug!(last, "{LOST}; they are asked for again");
                    messages = self::messages(reading, last + 1).await?;
                    continue;
                }
                outcome => outcome?,
            };
            match record.stream_sequence {
                // A consumer that its client recreates may begin anywhere; one that is created here does not.
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

    /// Whether another feed has everything that the readers of this one need, and is as far. Then nobody joins this one
    /// any more.
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
    /// Delivers a record to all readers. It waits for a reader that lags far, but not for long.
    async fn push(&self, record: Record, size: u64) {
        loop {
            let read = self.read.notified();
            let Some(until) = self.window().full_until(Instant::now()) else { break };
            let _ = timeout_at(until, read).await;
        }
        self.window().push(Arc::new(record), size);
        self.came.notify_waiters();
    }

    /// Completes when no readers are left.
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
    /// Waits for the record after `last`; `None` if this feed will never have it.
    pub(super) async fn next(&self, last: u64) -> Result<Option<Arc<Record>>, LogFailure> {
        loop {
            let came = self.feed.came.notified();
            let next = self.feed.window().next(self.number, last);
            match next {
                FeedStep::Record(record) => {
                    self.feed.read.notify_waiters();
                    return Ok(Some(record));
                }
                FeedStep::Later => came.await,
                FeedStep::Never => return Ok(None),
                FeedStep::Failed(failure) => return Err(failure),
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

/// Returns the messages of a stream from a sequence on, as they arrive.
pub(super) async fn messages(stream: &stream::Stream, start_sequence: u64) -> Result<Ordered, LogFailure> {
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence },
        max_batch: MOST_IN_FLIGHT,
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(nats)?;
    consumer.messages().await.map_err(nats)
}

/// Returns the record after the one with stream sequence `last`, and its size in bytes.
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

/// The error for records that were sent and did not arrive.
const LOST: &str = "records were lost on their way";

/// A feed that receives nothing while the stream goes on has lost records on their way, and must request them again.
async fn nothing_lost(stream: &stream::Stream, last: u64) -> Result<(), LogFailure> {
    match stream.get_info().await.map_err(nats)?.state.last_sequence {
        end if end > last => match stream.get_raw_message(last + 1).await {
            // It will never arrive.
            Err(error) if is_missing(&error) => Err(broken(stream, Broken::Lost { end, lost: 1, at: last + 1 })),
            _ => Err(LogFailure::Nats(LOST.to_owned())),
        },
        _ => Ok(()),
    }
}
