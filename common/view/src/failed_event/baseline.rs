//! What memory begins with that is made of rows, of which some lack events.

use std::collections::HashSet;

use deadpool_postgres::GenericClient;
use eventlog::record::{AggregateKey, Position, Recorded};

use super::key;
use crate::{checkpoint::position, database::DatabaseFailure, projection::Projection, read_model::ReadModel};

/// What memory begins with that is made of rows and then follows the log: from where on, and which events rows lack.
#[derive(Debug, Clone, Default)]
pub struct Baseline {
    /// Before the first event that they lack.
    pub position: Position,
    /// Up to which sequence they have all of the others.
    pub processed: u64,
    /// What is parked.
    pub parked: HashSet<AggregateKey>,
}

impl Baseline {
    /// That of some aggregate types of a projection in Postgres.
    pub async fn of(
        client: &impl GenericClient,
        (projection, shard): (&'static Projection, u16),
        aggregate_types: &[&str],
    ) -> Result<Self, DatabaseFailure> {
        let checkpoint = ReadModel::new(projection, shard).checkpoint(client).await?;
        let end = checkpoint.map(|checkpoint| checkpoint.position).unwrap_or_default();
        let text = "select instance_id, aggregate_type, aggregate_id, from_sequence as sequence, \
                    from_stream_sequence as stream_sequence, from_digest as digest from platform.failed_events \
                    where projection = $1 and version = $2 and shard = $3 \
                    and aggregate_type = any($4)";
        let statement = client.prepare_cached(text).await?;
        let Projection { name, version, .. } = projection;
        let rows = client.query(&statement, &[name, version, &i32::from(shard), &aggregate_types]).await?;
        let first = rows.iter().map(position).min_by_key(|from| from.stream_sequence);
        let position = first.into_iter().chain([end]).min_by_key(|at| at.stream_sequence).unwrap_or_default();
        Ok(Self { position, processed: end.sequence, parked: rows.iter().map(key).collect() })
    }

    /// Whether rows lack an event.
    pub fn lacks(&self, recorded: &Recorded) -> bool {
        recorded.sequence > self.processed || self.parked.contains(&recorded.key())
    }
}
