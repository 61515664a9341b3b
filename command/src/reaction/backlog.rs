//! Work that records of the log leave to be done afterwards, one page at a time: after each page the other items go
//! first, and an item that cannot be done now delays only itself. It resumes after the checkpoint, before which nothing
//! is left; what was done already is found to be done.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use base::explain::explain;
use eventlog::{
    log::{Log, LogFailure},
    record::{Position, Record, Undecodable},
};
use futures::StreamExt;
use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};
use view::reaction::ReactionReporter;

use super::{
    checkpoint::{CheckpointFailure, CheckpointStore, SavedCheckpoint},
    steps::PAUSE,
};

/// How many items may be left before no more records are read from the log.
const MOST: usize = 10_000;

/// Why no more records are read from the log.
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

/// What happens to an item after one page of it.
pub(super) enum AfterPage {
    /// Nothing is left of the item.
    Done,
    /// The item continues after the others.
    More,
    /// The item continues after the others, but not before this time is over.
    Later(Duration),
}

/// A reaction that does what records of the log leave to be done.
pub(super) trait Backlog: Send + Sync {
    /// An item that is left to be done.
    type Item: Send;
    /// Why a page of an item is not done.
    type Failure: std::error::Error + Send + 'static;

    /// Returns the items that a record leaves to be done.
    fn left(&self, record: &Record) -> impl Future<Output = Result<Vec<Self::Item>, BacklogFailure>> + Send;

    /// Does one page of an item.
    fn step(&self, item: &mut Self::Item) -> impl Future<Output = Result<AfterPage, Self::Failure>> + Send;

    /// Returns the name of an item, for the report that it is not done at the moment.
    fn name(item: &Self::Item) -> String;
}

struct Unprocessed<T> {
    item: T,
    /// The position before the record of the item.
    before: Position,
    /// When that record was committed.
    since: Timestamp,
    /// When the item is due next.
    due: Instant,
}

/// Does the items that the records of a log leave, in their order as far as possible, until the log fails. `trouble` is
/// the warning for an item that is not done.
pub(super) async fn work_off<B: Backlog>(
    backlog: &B,
    log: &Log,
    store: CheckpointStore,
    shard: u16,
    trouble: &'static str,
) -> Result<Infallible, BacklogFailure> {
    let name = store.name;
    let mut saved = SavedCheckpoint::begin(store, log).await?;
    let reporter = ReactionReporter::start(log, shard, name, saved.at);
    let (mut at, mut left) = (saved.at, VecDeque::new());
    let mut records = log.follow(at).await?;
    loop {
        let due = left.iter().map(|left: &Unprocessed<B::Item>| left.due).min();
        let record = tokio::select! {
            record = records.next(), if left.len() < MOST => Some(record),
            () = until(due), if due.is_some() => None,
        };
        if let Some(record) = record {
            let record = record.ok_or(BacklogFailure::LogEnded)??;
            let items = backlog.left(&record).await?.into_iter();
            let since = record.committed_at();
            left.extend(items.map(|item| Unprocessed { item, before: at, since, due: Instant::now() }));
            at = record.position();
        }
        let had_some = !left.is_empty();
        report(&reporter, at, &left);
        step(backlog, &mut left, trouble).await;
        report(&reporter, at, &left);
        let oldest = left.iter().map(|left| left.before).min_by_key(|place| place.stream_sequence);
        let done = oldest.unwrap_or(at);
        if saved.is_due(done) || had_some && done != saved.at && left.is_empty() {
            saved.save(done).await?;
        }
    }
}

fn report<T>(reporter: &ReactionReporter, at: Position, left: &VecDeque<Unprocessed<T>>) {
    let (waiting, waits_since) = (left.len() as u64, left.iter().map(|left| left.since).min());
    reporter.note(|progress| (progress.at, progress.waiting, progress.waits_since) = (at, waiting, waits_since));
}

async fn until(due: Option<Instant>) {
    if let Some(due) = due {
        sleep_until(due).await;
    }
}

/// Does a page of the first item that is due.
async fn step<B: Backlog>(backlog: &B, left: &mut VecDeque<Unprocessed<B::Item>>, trouble: &'static str) {
    let now = Instant::now();
    let first = left.iter().position(|left| left.due <= now);
    let Some(mut first) = first.and_then(|place| left.remove(place)) else { return };
    let next = backlog.step(&mut first.item).await.unwrap_or_else(|failure| {
        tracing::warn!(error = explain(&failure), item = B::name(&first.item), "{trouble}");
        AfterPage::Later(PAUSE)
    });
    let pause = match next {
        AfterPage::Done => return,
        AfterPage::More => Duration::ZERO,
        AfterPage::Later(pause) => pause,
    };
    first.due = Instant::now() + pause;
    left.push_back(first);
}
