//! What records leave to be done afterwards, a page at a time: each lets the others go first, and what cannot be done now keeps only
//! itself waiting. It begins again after a saved place, before which nothing is left; what was done already is found to be done.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use base::explain::explain;
use eventlog::{
    log::{Log, LogFailure},
    record::{Position, Record, Undecodable},
};
use futures::StreamExt;
use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};
use view::reaction::Telling;

use super::{
    checkpoint::{CheckpointFailure, CheckpointStore, SavedCheckpoint},
    steps::PAUSE,
};

/// How much may be left before no more is taken from the log.
const MOST: usize = 10_000;

/// Why nothing more is taken from the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum BacklogFailure {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointFailure),
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Event(#[from] Undecodable),
    #[error("the log ended")]
    LogEnded,
}

/// What becomes of something after one page of it.
pub(super) enum Next {
    /// Nothing is left of it.
    Done,
    /// It goes on after the others.
    More,
    /// The same, not before some time is over.
    Later(Duration),
}

/// A reaction to what records leave to be done.
pub(super) trait Backlog: Send + Sync {
    /// Something that is left to be done.
    type Item: Send;
    /// Why a page of it is not done.
    type Failure: std::error::Error + Send + 'static;

    /// What a record leaves to be done.
    fn left(&self, record: &Record) -> impl Future<Output = Result<Vec<Self::Item>, BacklogFailure>> + Send;

    /// Does one page of it.
    fn step(&self, item: &mut Self::Item) -> impl Future<Output = Result<Next, Self::Failure>> + Send;

    /// Names it, for who reads that it is not done at the moment.
    fn name(item: &Self::Item) -> String;
}

struct Left<T> {
    item: T,
    /// The position before its record.
    before: Position,
    /// When that was committed.
    since: Timestamp,
    /// When it is tried again.
    due: Instant,
}

/// Does what the records of a log leave, in their order as far as that can be, until the log fails. `trouble` is told where something is
/// not done.
pub(super) async fn work_off<B: Backlog>(
    backlog: &B,
    (log, store, shard): (&Log, CheckpointStore, u16),
    trouble: &'static str,
) -> Result<Infallible, BacklogFailure> {
    let name = store.name;
    let mut saved = SavedCheckpoint::begin(store, log).await?;
    let telling = Telling::start(log, shard, (name, saved.at));
    let (mut at, mut left) = (saved.at, VecDeque::new());
    let mut records = log.follow(at).await?;
    loop {
        let due = left.iter().map(|left: &Left<B::Item>| left.due).min();
        let record = tokio::select! {
            record = records.next(), if left.len() < MOST => Some(record),
            () = until(due), if due.is_some() => None,
        };
        if let Some(record) = record {
            let record = record.ok_or(BacklogFailure::LogEnded)??;
            let items = backlog.left(&record).await?.into_iter();
            let since = record.committed_at();
            left.extend(items.map(|item| Left { item, before: at, since, due: Instant::now() }));
            at = record.position();
        }
        let had_some = !left.is_empty();
        tell(&telling, at, &left);
        step(backlog, &mut left, trouble).await;
        tell(&telling, at, &left);
        let oldest = left.iter().map(|left| left.before).min_by_key(|place| place.stream_sequence);
        let done = oldest.unwrap_or(at);
        if saved.is_due(done) || had_some && done != saved.at && left.is_empty() {
            saved.save(done).await?;
        }
    }
}

fn tell<T>(telling: &Telling, at: Position, left: &VecDeque<Left<T>>) {
    let waits_since = left.iter().map(|left| left.since).min();
    telling.note(|stand| (stand.at, stand.waiting, stand.waits_since) = (at, left.len() as u64, waits_since));
}

async fn until(due: Option<Instant>) {
    if let Some(due) = due {
        sleep_until(due).await;
    }
}

/// Does a page of the first that is due.
async fn step<B: Backlog>(backlog: &B, left: &mut VecDeque<Left<B::Item>>, trouble: &'static str) {
    let now = Instant::now();
    let first = left.iter().position(|left| left.due <= now);
    let Some(mut first) = first.and_then(|place| left.remove(place)) else { return };
    let next = backlog.step(&mut first.item).await.unwrap_or_else(|failure| {
        tracing::warn!(error = explain(&failure), item = B::name(&first.item), "{trouble}");
        Next::Later(PAUSE)
    });
    let pause = match next {
        Next::Done => return,
        Next::More => Duration::ZERO,
        Next::Later(pause) => pause,
    };
    first.due = Instant::now() + pause;
    left.push_back(first);
}
