//! What records leave to be done afterwards, a page at a time: each lets the others go first, and what cannot be done now keeps only
//! itself waiting. It begins again after a saved place, before which nothing is left; what was done already is found to be done.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use base::explain::explain;
use eventlog::{
    log::{Log, LogFailure},
    record::{Position, Record, Undecodable},
};
use futures::StreamExt;
use tokio::time::{Instant, sleep, sleep_until};
use view::reaction::Telling;

use super::{
    place::{Place, PlaceFailure, SavedPlace},
    steps::PAUSE,
};

/// How much may be left before no more is taken from the log.
const MOST: usize = 10_000;

/// Why nothing more is taken from the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum BacklogFailure {
    #[error(transparent)]
    Place(#[from] PlaceFailure),
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
    /// When it is tried again.
    due: Instant,
}

/// Does what the records of a log leave, in their order as far as that can be, until the log fails. `trouble` is told where something is
/// not done.
pub(super) async fn work_off<B: Backlog>(
    backlog: &B,
    (log, place, shard): (&Log, Place, u16),
    trouble: &'static str,
) -> Result<Infallible, BacklogFailure> {
    let mut telling = Telling::new(log, shard, place.name);
    let mut saved = SavedPlace::begin(place, log).await?;
    let (mut at, mut left) = (saved.at, VecDeque::new());
    let mut records = log.follow(at).await?;
    loop {
        let due = left.iter().map(|left: &Left<B::Item>| left.due).min();
        let record = tokio::select! {
            record = records.next(), if left.len() < MOST => Some(record),
            () = until(due), if due.is_some() => None,
            () = sleep(telling.within()) => None,
        };
        if let Some(record) = record {
            let record = record.ok_or(BacklogFailure::LogEnded)??;
            let items = backlog.left(&record).await?.into_iter();
            left.extend(items.map(|item| Left { item, before: at, due: Instant::now() }));
            at = record.position();
        }
        if telling.is_due() {
            telling.tell(at, left.len() as u64).await;
        }
        let had_some = !left.is_empty();
        step(backlog, &mut left, trouble).await;
        let oldest = left.iter().map(|left| left.before).min_by_key(|place| place.stream_sequence);
        let done = oldest.unwrap_or(at);
        if saved.is_due(done) || had_some && done != saved.at && left.is_empty() {
            saved.save(done).await?;
        }
    }
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
