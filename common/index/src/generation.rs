//! Exchanging generations of a search index: the manifest of another one is published in the place of the one that
//! answers.
//!
//! Nodes that search follow only the manifest that answers, so they need not know of generations. Its writer notices
//! that it was replaced, and goes on with the other files.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use view::{
    checkpoint::Checkpoint,
    database::{Database, DatabaseFailure},
    generation::{Exchanged, FileExchange},
    projection::{GenerationSlot, Projection},
    table::Table,
};

use crate::{
    failure::IndexFailure,
    layout::{generation_name, name},
    manifest::{Manifest, Omitted},
    moved::IndexProgress,
    remote::{Publication, Remote},
};

/// How long an exchange is tried again while the other generation lags a little, and the pause between two tries.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);
/// How often an exchange is tried again because the writer of the index has just published.
const TRIES: usize = 20;

/// Why generations could not be exchanged.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeFailure {
    /// Postgres failed, or others change or compare the generations.
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    /// What is published cannot be read or replaced.
    #[error(transparent)]
    Index(#[from] IndexFailure),
}

/// Lets the generation at a place answer instead of the one that does, which is retained at the opposite place. What
/// was there before is dropped.
///
/// No node goes back: one that lags has to wait, and a node shows the new files only once they are as far as those
/// before.
///
/// # Errors
/// When Postgres or NATS does not answer, or others change or compare the generations.
pub async fn exchange(
    database: &Database,
    remote: &Remote,
    projection: &Projection,
    table: &Table,
    exchange: Exchange,
) -> Result<Exchanged, ExchangeFailure> {
    let until = Instant::now() + PATIENCE;
    let name = name(projection, table, exchange.shard);
    loop {
        match attempt(database, remote, projection, &name, exchange).await {
            Ok(Exchanged::Lagging) if Instant::now() < until => {}
            Err(ExchangeFailure::Database(failure)) if failure.is_of_locks() && Instant::now() < until => {}
            done => return done,
        }
        sleep(PAUSE).await;
    }
}

/// What is exchanged.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    /// The place of the generation that is to answer.
    pub place: GenerationSlot,
    /// The shard.
    pub shard: u16,
    /// Whether it may omit what the one that answers does not.
    pub is_forced: bool,
}

async fn attempt(
    database: &Database,
    remote: &Remote,
    projection: &Projection,
    name: &str,
    Exchange { place, shard, is_forced }: Exchange,
) -> Result<Exchanged, ExchangeFailure> {
    let mut connection = database.connection().await?;
    let begun = FileExchange::begin(&mut connection, projection, place, shard).await?;
    let Some(begun) = begun else { return Ok(Exchanged::Absent) };
    let (other_name, kept_name) = (generation_name(name, begun.since), generation_name(name, begun.kept_since));
    let mut kept_revision = 0;
    for _ in 0..TRIES {
        let (answers, revision) = published(remote, name).await?;
        let (other, other_revision) = published(remote, &other_name).await?;
        let moved = begun.reached.filter(|reached| u64::try_from(reached.epoch) == Ok(other_revision));
        if lags(&other, moved, &answers) {
            return Ok(Exchanged::Lagging);
        }
        if other.packs == answers.packs && !other.packs.is_empty() {
            // An earlier try replaced the manifest, and its outcome was lost.
            begun.complete().await?;
            return Ok(Exchanged::Done);
        }
        if !is_forced && fails_more(&other, &answers) {
            return Ok(Exchanged::Fails);
        }
        // In this order, so that the one that answers now is never lost.
        let kept = Manifest { epoch: 0, ..answers.clone() };
        let Some(stored) = remote.replace(&kept_name, &kept, kept_revision).await? else { continue };
        kept_revision = stored;
        let manifest = Manifest { epoch: answers.epoch + 1, ..other };
        begun.confirm().await?;
        if let Some(revision) = remote.replace(name, &manifest, revision).await? {
            begun.complete().await?;
            // Its writer is told, or notices it at the next commit.
            IndexProgress::of(revision, &manifest).announce(&remote.client(), shard, name).await;
            return Ok(Exchanged::Done);
        }
    }
    Err(DatabaseFailure::Busy(projection.view).into())
}

/// Returns what is published of an index, and its revision.
async fn published(remote: &Remote, name: &str) -> Result<(Manifest, u64), IndexFailure> {
    let published = remote.newest(name).await?;
    match published.manifest {
        Publication::Manifest(manifest) => Ok((manifest, published.revision)),
        Publication::Nothing => Ok((Manifest::default(), published.revision)),
        Publication::Unreadable => Err(IndexFailure::Unreadable),
    }
}

/// Whether a generation lacks something that the files of the one that answers have, or those are not complete either.
/// Its position may have moved without a change of its files.
fn lags(other: &Manifest, moved: Option<Checkpoint>, answers: &Manifest) -> bool {
    let moved = moved.map_or(0, |moved| moved.position.stream_sequence);
    let reached = other.position().stream_sequence.max(moved);
    other.meta.is_empty() || answers.meta.is_empty() || reached < answers.position().stream_sequence
}

/// Whether a generation omits something that the one that answers does not, or from an earlier event on.
fn fails_more(other: &Manifest, answers: &Manifest) -> bool {
    let answers = answers.omitted();
    let is_omitted = |by_other: &Omitted| {
        answers.iter().any(|omitted| {
            (&omitted.instance_id, &omitted.id) == (&by_other.instance_id, &by_other.id)
                && omitted.sequence <= by_other.sequence
        })
    };
    !other.omitted().iter().all(is_omitted)
}
