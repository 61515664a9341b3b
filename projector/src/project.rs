//! One transaction: the checkpoint and the rows of a batch.

use std::sync::Arc;

use base::fault;
use deadpool_postgres::{Client, Transaction};
use eventlog::record::{AggregateKey, Position, Recorded};
use jiff::Timestamp;
use view::{
    checkpoint::{Checkpoint, Expected, Fenced, Move},
    database::{Database, DatabaseFailure},
    failed_event::{ParkedAt, Parking},
    history,
    projection::{Kind, Projection},
    read_model::ReadModel,
    table::{Change, Table, aged::forgotten_before},
};

use crate::{
    Projector,
    batch::Batch,
    decision::decisions,
    failure::BatchFailure,
    parked::{Folded, Parked, Retry},
};

/// What has become of a batch.
pub(crate) struct Projected {
    /// The checkpoint at its end.
    pub(crate) checkpoint: Checkpoint,
    /// Whether rows changed, which somebody may wait for. Those of history always do.
    pub(crate) has_rows: bool,
}

/// Moves the checkpoint to the end of a batch and applies the batch, both or neither. Failures are parked.
pub(crate) async fn project(
    Projector { database, joint, shard, .. }: &Projector,
    read_model: ReadModel<'static>,
    checkpoint: Checkpoint,
    parked: &mut Parked,
    batch: &Batch,
) -> Result<Projected, BatchFailure> {
    let decisions = decisions(&batch.events)?;
    if !decisions.is_empty() {
        fault::point_of("retry.met", read_model.projection.name);
    }
    let folded = parked.fold(read_model.projection.row_tables(), &batch.events)?;
    let (end, committed_at) = (batch.end, batch.committed_at);
    let is_forgotten = forgotten_before(checkpoint.committed_at, committed_at)
        .is_some_and(|_| read_model.projection.row_tables().iter().any(|table| (table.ends_at)().is_some()));
    let is_nothing = folded.changes.is_empty() && folded.failed.is_empty() && !is_forgotten;
    let has_rows = !is_nothing || is_history(read_model.projection);
    let checkpoint = if has_rows {
        let retry = &Retry::default();
        let moving = Moving { read_model, checkpoint, end, committed_at, parked, batch: Some(batch), retry };
        let (moved, failed) = moving.apply(&mut *database.connection().await?, &folded).await?;
        parked.add(&failed);
        moved
    } else {
        // Most records concern few projections. The others move together, unless something is in the way of this one.
        fault::point("project.applied");
        let from = Expected { projection: read_model.projection, checkpoint };
        let to = Checkpoint { position: end, committed_at, ..checkpoint };
        if !joint.advance(database, *shard, Move { from, to }).await {
            let connection = database.connection().await?;
            let moved = read_model.advance(&*connection, checkpoint, end, committed_at).await?;
            // It may have moved before, if it is unknown what became of the statement.
            if moved.is_err() && read_model.checkpoint(&*connection).await? != Some(to) {
                return Err(BatchFailure::Fenced);
            }
        }
        to
    };
    parked.note_waiting(&batch.events);
    parked.obey(decisions);
    fault::point("project.committed");
    Ok(Projected { checkpoint, has_rows })
}

/// Tries some of the parked aggregates again; `false` if history has to proceed first.
pub(crate) async fn retry(
    database: &Database,
    read_model: ReadModel<'_>,
    checkpoint: Checkpoint,
    parked: &mut Parked,
) -> Result<bool, BatchFailure> {
    let Some(due) = parked.due(database, checkpoint.position.sequence).await? else { return Ok(false) };
    fault::point_of("retry.taken", read_model.projection.name);
    let due = parked.opened(due).await?;
    let (folded, retry) = parked.fold_waiting(read_model.projection.row_tables(), due)?;
    fault::point_of("retry.folded", read_model.projection.name);
    let Checkpoint { position: end, committed_at, .. } = checkpoint;
    let moving = Moving { read_model, checkpoint, end, committed_at, parked, batch: None, retry: &retry };
    let (_, failed) = moving.apply(&mut *database.connection().await?, &folded).await?;
    fault::point_of("retry.committed", read_model.projection.name);
    parked.note_retry(&retry, &failed);
    Ok(true)
}

/// A move of the checkpoint, with what belongs to it.
struct Moving<'a> {
    read_model: ReadModel<'a>,
    checkpoint: Checkpoint,
    end: Position,
    committed_at: Timestamp,
    parked: &'a Parked,
    /// The batch from the log.
    batch: Option<&'a Batch>,
    /// The retries.
    retry: &'a Retry,
}

impl Moving<'_> {
    /// Applies folded changes. If Postgres refuses values, it is found which, and the others are applied.
    async fn apply(
        &self,
        connection: &mut Client,
        folded: &Folded<'_>,
    ) -> Result<(Checkpoint, Vec<ParkedAt>), BatchFailure> {
        match self.attempt(connection, folded, false).await {
            Err(BatchFailure::Database(failure)) if self.parked.parking().is_some() && failure.is_of_values() => {
                self.attempt(connection, folded, true).await
            }
            applied => applied,
        }
    }

    async fn attempt(
        &self,
        connection: &mut Client,
        folded: &Folded<'_>,
        is_careful: bool,
    ) -> Result<(Checkpoint, Vec<ParkedAt>), BatchFailure> {
        let Self { read_model, checkpoint, end, committed_at, .. } = self;
        let mut transaction = connection.transaction().await?;
        let moved = read_model.advance(&transaction, *checkpoint, *end, *committed_at).await?;
        let moved = moved.map_err(|Fenced| BatchFailure::Fenced)?;
        if let Some(batch) = self.batch.filter(|_| is_history(read_model.projection)) {
            history::apply(&transaction, read_model.projection, &batch.records, &batch.events).await?;
            fault::point("history.applied");
        }
        let mut failed = folded.failed.clone();
        for (table, changes) in &folded.changes {
            if is_careful {
                let refused = apply_each(&mut transaction, *read_model, table, changes).await?;
                for (key, error) in refused {
                    if self.parked.parking().is_some_and(|parking| parking.needs(&key)) {
                        return Err(BatchFailure::Needed { key, error });
                    }
                    failed.push(self.refused(&key, error)?);
                }
            } else {
                read_model.apply(&transaction, table, changes).await?;
            }
        }
        if let Some(before) = forgotten_before(checkpoint.committed_at, *committed_at) {
            for table in read_model.projection.row_tables() {
                read_model.forget(&transaction, table, before).await?;
            }
        }
        if let Some(parking) = self.parked.parking() {
            self.parked.insist_on_few(&failed)?;
            take_away(&transaction, *read_model, parking, &failed).await?;
            parking.release(&transaction, &self.retry.healed(&failed)).await?;
            parking.park(&transaction, checkpoint.position, &failed).await?;
            parking.settle(&transaction, &self.retry.postponed()).await?;
        }
        if self.batch.is_none() {
            fault::point_of("retry.applied", read_model.projection.name);
        }
        fault::point("project.applied");
        transaction.commit().await.map_err(DatabaseFailure::from)?;
        Ok((moved, failed))
    }

    /// Parks an aggregate whose row is refused. None of its events was applied, so it is parked at the first one.
    fn refused(&self, key: &AggregateKey, error: String) -> Result<ParkedAt, BatchFailure> {
        // The preceding event comes last, or else it would be taken for the failed one.
        let waiting = self.retry.waiting.iter().flat_map(|waiting| waiting.events_from_failed().chain(&waiting.events));
        let mut events = self.batch.iter().flat_map(|batch| &batch.events).chain(waiting);
        let is_it = |event: &&Arc<Recorded>| event.key() == *key && !self.parked.leaves_out(event);
        let first = events.find(is_it).ok_or(BatchFailure::OfNothing)?;
        Ok(ParkedAt::now(first, error))
    }
}

/// Removes the rows of parked aggregates from tables that withhold them.
async fn take_away(
    transaction: &Transaction<'_>,
    read_model: ReadModel<'_>,
    parking: Parking,
    failed: &[ParkedAt],
) -> Result<(), BatchFailure> {
    for table in read_model.projection.row_tables().iter().filter(|table| parking.withholds(table)) {
        let of_table = failed.iter().filter(|failed| failed.key.aggregate_type == table.aggregate_type);
        let gone = of_table.map(|ParkedAt { key: AggregateKey { instance_id, id, .. }, .. }| Change {
            instance_id: instance_id.clone(),
            id: id.clone(),
            row: None,
        });
        read_model.apply(transaction, table, &gone.collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// Applies changes in halves, and halves of these, until all are applied except those that Postgres refuses alone.
/// Returns these, with the reasons.
async fn apply_each(
    transaction: &mut Transaction<'_>,
    read_model: ReadModel<'_>,
    table: &Table,
    changes: &[Change],
) -> Result<Vec<(AggregateKey, String)>, BatchFailure> {
    let (mut parts, mut refused) = (vec![changes], vec![]);
    while let Some(part) = parts.pop() {
        let savepoint = transaction.savepoint("part").await?;
        match (read_model.apply(&savepoint, table, part).await, part) {
            (Ok(()), _) => savepoint.commit().await?,
            (Err(failure), [Change { instance_id, id, .. }]) if failure.is_of_values() => {
                savepoint.rollback().await?;
                let aggregate_type = table.aggregate_type.to_owned();
                let key = AggregateKey { instance_id: instance_id.clone(), aggregate_type, id: id.clone() };
                refused.push((key, failure.without_values()));
            }
            (Err(failure), part) if failure.is_of_values() => {
                savepoint.rollback().await?;
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
            (Err(failure), _) => return Err(failure.into()),
        }
    }
    Ok(refused)
}

fn is_history(projection: &Projection) -> bool {
    matches!(projection.kind, Kind::History)
}
