//! What has ended, as the read model has it.

use std::time::Duration;

use base::clock;
use domain::log_class::LogClass;
use eventlog::record::{AggregateKey, Position};
use jiff::Timestamp;

use super::{ENDS, End, Ends, is_context, note};
use crate::{
    database::{Database, DatabaseFailure, snapshot},
    failed_event::Baseline,
    hearing::REMEMBERED,
    heartbeat,
    projection::ENDED,
    read_model::ReadModel,
    rows::Stored,
};

/// What the read model has.
pub(super) struct Loaded {
    pub(super) ends: Ends,
    /// From where on the log is read: they lack something after that.
    pub(super) at: Position,
    /// How long ago that was all that was in the log.
    pub(super) age: Option<Duration>,
}

pub(super) async fn load(database: &Database, shard: u16) -> Result<Loaded, DatabaseFailure> {
    database.within(read(database, shard)).await
}

async fn read(database: &Database, shard: u16) -> Result<Loaded, DatabaseFailure> {
    let mut connection = database.connection().await?;
    let transaction = snapshot(&mut connection).await?;
    let checkpoint = ReadModel::new(&ENDED, shard).checkpoint(&transaction).await?;
    let reached = checkpoint.map(|checkpoint| checkpoint.position).unwrap_or_default();
    let age = heartbeat::age(&transaction, (LogClass::Events, shard), reached).await?;
    let Baseline { position: at, processed, parked } = Baseline::of(&transaction, &ENDED, shard).await?;
    let mut ends = Ends::new();
    for (kind, select) in &ENDS {
        // A read model may be behind when a node starts: of grants as much is loaded as of others, and forgotten soon.
        let since = if is_context(kind) { Timestamp::UNIX_EPOCH } else { clock::now() - REMEMBERED };
        for Stored { instance_id, found } in select.rows(&transaction, &[&since]).await? {
            let end = End { sequence: found.sequence, at: found.changed_at, is_removed: found.state.is_removed };
            note(&mut ends, instance_id, (kind, found.id), end);
        }
        // What is parked may have ended at any time up to now. What it was indeed is read from the log.
        for AggregateKey { instance_id, id, .. } in parked.iter().filter(|parked| parked.aggregate_type == *kind) {
            let end = End { sequence: processed, at: clock::now(), is_removed: false };
            note(&mut ends, instance_id.clone(), (kind, id.clone()), end);
        }
    }
    transaction.commit().await?;
    Ok(Loaded { ends, at, age })
}
