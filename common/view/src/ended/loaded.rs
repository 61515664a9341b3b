//! Loads what has ended from the read model.

use std::time::Duration;

use base::clock;
use domain::log_class::LogClass;
use eventlog::record::AggregateKey;
use jiff::Timestamp;

use super::{
    End, Ends,
    kinds::{ENDS, is_context},
    note,
};
use crate::{
    completeness::REMEMBERED,
    database::{Database, DatabaseFailure, snapshot},
    failed_event::Baseline,
    heartbeat,
    projection::ENDED,
    read_model::ReadModel,
    rows::Stored,
};

/// What has ended, as the read model has it.
pub(super) struct Loaded {
    pub(super) ends: Ends,
    /// The events that the rows lack, and the position from which the log has to be read.
    pub(super) baseline: Baseline,
    /// How long ago the rows were known to hold everything in the log.
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
    let age = heartbeat::age(&transaction, LogClass::Events, shard, reached).await?;
    let baseline = Baseline::of(&transaction, *ENDED, shard, &ENDS.each_ref().map(|(kind, _)| *kind)).await?;
    let mut ends = Ends::new();
    for (kind, select) in &ENDS {
        // A read model may lag when a node starts: grants are loaded as far back as others, and forgotten soon.
        let since = if is_context(kind) { Timestamp::UNIX_EPOCH } else { clock::now() - REMEMBERED };
        for Stored { instance_id, found } in select.rows(&transaction, &[&since]).await? {
            let end = End { sequence: found.sequence, at: found.changed_at, is_removed: found.state.is_removed };
            note(&mut ends, instance_id, kind, found.id, end);
        }
    }
    transaction.commit().await?;
    Ok(Loaded { ends, baseline, age })
}

impl Loaded {
    /// Counts every parked aggregate as ended, for a node that has not read the log so far: it may have ended since.
    pub(super) fn without_log(mut self) -> Self {
        for AggregateKey { instance_id, aggregate_type, id } in self.baseline.parked.keys() {
            if let Some((kind, _)) = ENDS.iter().find(|(kind, _)| kind == aggregate_type) {
                let end = End { sequence: self.baseline.processed, at: clock::now(), is_removed: false };
                note(&mut self.ends, instance_id.clone(), kind, id.clone(), end);
            }
        }
        self
    }
}
