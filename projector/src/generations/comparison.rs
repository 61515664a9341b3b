//! Comparing a generation with the one that answers.

use std::{sync::Arc, time::Duration};

use ::index::{IndexFailure, Snapshot, SnapshotReceiver};
use base::explain::explain;
use tokio::{
    task::{JoinError, spawn_blocking},
    time::timeout,
};
use view::{
    database::DatabaseFailure,
    generation::{EXAMPLES, Generation, Verified, note_verified, now, verify},
    projection::Kind,
};

use super::IndexGenerations;
use crate::Projector;

/// How often documents that differ are compared again: what has just changed or was removed may be in one index only.
const ROUNDS: usize = 3;
/// How long to wait until an index has come as far as the other one was.
const CATCH_UP: Duration = Duration::from_secs(5);

/// Why generations cannot be compared.
#[derive(Debug, thiserror::Error)]
enum ComparisonFailure {
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    #[error(transparent)]
    Index(#[from] IndexFailure),
    #[error("the comparison ended early")]
    Task(#[from] JoinError),
}

/// Compares a generation with the one that answers, if both are equally far, and notes what was found. Returns whether
/// that worked.
pub(super) async fn compare(projector: &Projector, indexes: &IndexGenerations, generation: &Generation) -> bool {
    let (view, place) = (generation.projection.view, generation.place.name());
    let Projector { beside: database, shard, .. } = projector;
    let compared = match generation.projection.kind {
        Kind::Index(_) => compare_documents(projector, indexes, generation).await,
        Kind::History | Kind::Rows(_) => verify(database, *shard, generation).await.map_err(ComparisonFailure::from),
    };
    match compared {
        Ok(Some(verified)) => {
            let differing = verified.differing;
            tracing::info!(view, place, differing, "a generation was compared with the active one");
        }
        // The generation lags.
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(view, place, error = explain(&error), "a generation cannot be compared yet");
            return false;
        }
    }
    true
}

/// Compares the documents of two search indexes; `None` while one lags.
async fn compare_documents(
    Projector { beside: database, .. }: &Projector,
    indexes: &IndexGenerations,
    generation: &Generation,
) -> Result<Option<Verified>, ComparisonFailure> {
    let active = indexes.active.named(generation.projection.view);
    let Some((mut active, mut other)) = active.zip(indexes.of(generation.begun())) else { return Ok(None) };
    let at = now(&*database.connection().await?).await?;
    let mut differing: Option<Vec<String>> = None;
    for _ in 0..ROUNDS {
        let Some((one, another)) = equally_far(&mut active, &mut other).await else { return Ok(None) };
        let found = spawn_blocking(move || one.differences(&another)).await??;
        let mut still = differing.take().unwrap_or_else(|| found.clone());
        still.retain(|key| found.contains(key));
        let is_over = still.is_empty();
        differing = Some(still);
        if is_over {
            break;
        }
    }
    let differing = differing.unwrap_or_default();
    let verified = Verified { at, differing: differing.len() as u64, examples: named(&differing) };
    let is_noted = note_verified(&*database.connection().await?, generation, &verified).await?;
    Ok(is_noted.then_some(verified))
}

/// Waits until both have come as far as the other one was; `None` where that takes long.
async fn equally_far(
    active: &mut SnapshotReceiver,
    other: &mut SnapshotReceiver,
) -> Option<(Arc<Snapshot>, Arc<Snapshot>)> {
    let position =
        |index: &SnapshotReceiver| index.borrow().as_ref().map_or(0, |snapshot| snapshot.position.stream_sequence);
    let target = position(active).max(position(other));
    let reaches = |snapshot: &Option<Arc<Snapshot>>| {
        snapshot.as_ref().is_some_and(|snapshot| snapshot.position.stream_sequence >= target)
    };
    let both = async {
        let one = active.wait_for(reaches).await.ok()?.clone()?;
        let another = other.wait_for(reaches).await.ok()?.clone()?;
        Some((one, another))
    };
    timeout(CATCH_UP, both).await.ok().flatten()
}

/// Names some of the documents with these keys.
fn named(keys: &[String]) -> Vec<String> {
    let name = |key: &String| {
        let (instance, id) = key.split_once('/').unwrap_or_default();
        format!("document {id} of instance {instance}")
    };
    keys.iter().take(EXAMPLES).map(name).collect()
}
