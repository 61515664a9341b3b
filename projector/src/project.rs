//! One transaction: the checkpoint and the rows of a batch.

use std::sync::Arc;

use base::{
    fault,
    panic::{Panicked, caught},
};
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
    Event(#[from] EventFailure),
    /// Postgres refused.
    #[error(transparent)]
    Database(#[from] database::DatabaseFailure),
    /// The checkpoint is not the one that this worker left.
    #[error("the checkpoint was moved by another worker, or Postgres lost its last commits")]
    Fenced,
}

/// An event with which the projection cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventFailure {
    /// It cannot be read.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// It is read, and the code that takes it up panics.
    #[error("event {sequence}, {event_type} of {aggregate_id}, cannot be taken up")]
    Panicked {
        /// Its sequence.
        sequence: u64,
        /// Its type.
        event_type: String,
        /// Its aggregate.
        aggregate_id: String,
        /// What the panic said.
        #[source]
        panicked: Panicked,
    },
}

impl EventFailure {
    fn of(recorded: &Recorded, panicked: Panicked) -> Self {
        let (event_type, aggregate_id) = (recorded.event.r#type.clone(), recorded.event.aggregate_id.clone());
        Self::Panicked { sequence: recorded.sequence, event_type, aggregate_id, panicked }
    }

    /// Whether only a newer build can go on.
    pub(crate) fn is_newer(&self) -> bool {
        matches!(self, Self::Undecodable(event) if event.is_newer())
    }
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
) -> Result<Vec<(&'a Table, Vec<Change>)>, EventFailure> {
    // History has tables of its own, and indexes are kept in files.
    let Kind::Rows(tables) = &projection.kind else { return Ok(vec![]) };
    let folded = tables.iter().map(|table| Ok((table, fold(table, events)?)));
    folded.filter(|folded| !matches!(folded, Ok((_, changes)) if changes.is_empty())).collect()
}

/// Folds events to the changes of a table. One that makes the code panic is a failing event, like one that cannot be read.
pub(crate) fn fold(table: &Table, events: &[Arc<Recorded>]) -> Result<Vec<Change>, EventFailure> {
    // It changes nothing that it borrows, and what it has made so far goes with its panic.
    let fold = |events| caught(|| table.fold(events));
    match (fold(events), events.last()) {
        (Ok(folded), _) => Ok(folded?),
        (Err(panicked), Some(last)) => {
            // Which one it is. An event that is folded alone may pass; then it is the last, before which the others stand.
            let guilty = events.iter().find(|event| fold(std::slice::from_ref(*event)).is_err());
            Err(EventFailure::of(guilty.unwrap_or(last), panicked))
        }
        (Err(_), None) => Ok(vec![]),
    }
}
