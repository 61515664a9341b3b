//! Whether a state in memory is up to date with its log. NATS is asked regularly where the log ends. Where it does
//! not answer, or the reader lags, the read model is read instead, with the time at which it had everything in the log.

use std::{
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base::clock::since_start;
use eventlog::{log::Log, record::Position};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::database::Database;

/// The longest that a token lives.
pub const LONGEST_LIFE: Duration = Duration::from_hours(24);
/// [`LONGEST_LIFE`] with a margin for clocks that differ: tokens of what ended before have expired.
pub const REMEMBERED: Duration = Duration::from_hours(25);
/// How often NATS is asked where the log ends, and how many beats pass before old entries are forgotten.
const BEAT: Duration = Duration::from_secs(1);
const FORGET_EVERY: u64 = 60;

/// How far a state in memory is, and when it was last known to be complete.
pub(crate) struct Completeness {
    /// The stream sequence of the last record that it has.
    reached: AtomicU64,
    /// The time up to which everything is known, by [`since_start`].
    complete_at: RwLock<Duration>,
    /// How long ago that may be.
    tolerance: Duration,
}

/// A state in memory that follows a log.
pub(crate) trait FollowsLog: Clone + Send + Sync + 'static {
    /// How far it is.
    fn completeness(&self) -> &Completeness;

    /// Takes over what the read model has, which follows the log by itself.
    fn look_up(&self, database: &Database, shard: u16) -> impl Future<Output = ()> + Send;

    /// Forgets what is too old.
    fn forget(&self);
}

impl Completeness {
    /// Returns the progress of a state at a position, which counts as known for so long without further news.
    pub(crate) fn new(at: Position, tolerance: Duration) -> Self {
        Self { reached: AtomicU64::new(at.stream_sequence), complete_at: RwLock::new(since_start()), tolerance }
    }

    /// Whether the state is known to be up to date.
    pub(crate) fn is_known(&self) -> bool {
        let complete_at = *self.complete_at.read().unwrap_or_else(PoisonError::into_inner);
        since_start().saturating_sub(complete_at) <= self.tolerance
    }

    /// Notes that the state has a record.
    pub(crate) fn set_reached(&self, stream_sequence: u64) {
        self.reached.store(stream_sequence, Ordering::Release);
    }

    /// Notes that everything was known at a time.
    pub(crate) fn set_complete_at(&self, at: Duration) {
        let mut complete_at = self.complete_at.write().unwrap_or_else(PoisonError::into_inner);
        *complete_at = at.max(*complete_at);
    }

    fn has(&self, end: u64) -> bool {
        self.reached.load(Ordering::Acquire) >= end
    }
}

/// Where the log ended at the last beat.
#[derive(Default)]
pub(crate) struct LogEnd {
    before: Option<(Duration, u64)>,
}

/// What a beat shows.
#[derive(PartialEq, Eq)]
pub(crate) enum Beat {
    /// The state had everything, now or one beat ago.
    Complete,
    /// The first beat after a start has nothing to compare with.
    First,
    /// The log does not answer, or the state lags.
    Lagging,
}

impl LogEnd {
    /// Asks where the log ends. If the state has what was the end one beat ago, it knew everything then.
    pub(crate) async fn check(&mut self, completeness: &Completeness, log: &Log, patience: Duration) -> Beat {
        let (requested_at, reached) = (since_start(), completeness.reached.load(Ordering::Acquire));
        let end = timeout(patience, log.end()).await.ok().and_then(Result::ok);
        // A log that ends before what was read of it is another one.
        let end = end.filter(|end| *end >= reached);
        let is_first = self.before.is_none() && end.is_some();
        let before = std::mem::replace(&mut self.before, end.map(|end| (requested_at, end)));
        let complete_at = match before.filter(|(_, end)| completeness.has(*end)) {
            _ if end.is_some_and(|end| completeness.has(end)) => Some(requested_at),
            Some((then, _)) => Some(then),
            None => None,
        };
        match complete_at {
            Some(at) => {
                completeness.set_complete_at(at);
                Beat::Complete
            }
            None if is_first => Beat::First,
            None => Beat::Lagging,
        }
    }
}

/// Checks the state at every beat.
pub(crate) async fn watch_log_end<S: FollowsLog>(state: S, log: Log, database: Database, shard: u16) {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut end = LogEnd::default();
    for beat in 1_u64.. {
        beats.tick().await;
        if end.check(state.completeness(), &log, BEAT).await == Beat::Lagging {
            state.look_up(&database, shard).await;
        }
        if beat % FORGET_EVERY == 0 {
            state.forget();
        }
    }
}
