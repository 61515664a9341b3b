//! One transaction: the checkpoint and the rows of a batch.

use std::sync::Arc;

use base::fault;
use eventlog::record::{Recorded, Undecodable};
use view::{
    checkpoint::{Checkpoint, Fenced},
    database::{self, Database},
    history,
    projection::{Kind, Projection},
    read_model::ReadModel,
    table::{Change, Table},
};

use crate::batch::Batch;

/// A batch that was not applied. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchFailure {
    /// An event cannot be read.
    #[error(transparent)]
    Event(#[from] Undecodable),
    /// Postgres refused.
    #[error(transparent)]
    Database(#[from] database::DatabaseFailure),
    /// The checkpoint is not the one that this worker left.
    #[error("the checkpoint was moved by another worker, or Postgres lost its last commits")]
    Fenced,
}

impl From<tokio_postgres::Error> for BatchFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Moves the checkpoint to the end of a batch and applies that, both or neither.
pub(crate) async fn project(
    database: &Database,
    projection: &Projection,
    shard: u16,
    checkpoint: Checkpoint,
    batch: &Batch,
) -> Result<Checkpoint, BatchFailure> {
    let committed_at = batch.committed_at();
    let changes = changes(projection, &batch.events)?;
    let read_model = ReadModel::new(projection, shard);
    let mut connection = database.connection().await?;
    let moved = if changes.is_empty() && !matches!(projection.kind, Kind::History) {
        // Most records concern few projections; to the others one statement is transaction enough.
        fault::point("project.applied");
        read_model.advance(&connection, checkpoint, batch.end, committed_at).await?
    } else {
        let transaction = connection.transaction().await?;
        let moved = read_model.advance(&transaction, checkpoint, batch.end, committed_at).await?;
        if moved.is_ok() {
            if matches!(projection.kind, Kind::History) {
                history::apply(&transaction, &batch.records, &batch.events).await?;
                fault::point("history.applied");
            }
            for (table, changes) in changes {
                read_model.apply(&transaction, table, &changes).await?;
            }
            fault::point("project.applied");
            transaction.commit().await.map_err(database::DatabaseFailure::from)?;
        }
        moved
    };
    fault::point("project.committed");
    moved.map_err(|Fenced| BatchFailure::Fenced)
}

/// What the events change, by table; the tables that they do not concern are not among them.
fn changes<'a>(
    projection: &'a Projection,
    events: &[Arc<Recorded>],
) -> Result<Vec<(&'a Table, Vec<Change>)>, Undecodable> {
    // History has tables of its own, and indexes are kept in files.
    let Kind::Rows(tables) = &projection.kind else { return Ok(vec![]) };
    let folded = tables.iter().map(|table| Ok((table, table.fold(events)?)));
    folded.filter(|folded| !matches!(folded, Ok((_, changes)) if changes.is_empty())).collect()
}
