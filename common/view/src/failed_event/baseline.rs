//! The baseline of a state in memory that is loaded from rows, of which some lack events.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use eventlog::record::{AggregateKey, Position, Recorded};

use super::key;
use crate::{
    checkpoint::{position, unsigned},
    database::DatabaseFailure,
    projection::Projection,
    read_model::ReadModel,
};

/// How a state in memory begins that is loaded from rows and then follows the log, although some rows lack events.
#[derive(Debug, Clone, Default)]
pub struct Baseline {
    /// The position before the first event that the rows lack.
    pub position: Position,
    /// The sequence up to which the rows have all other events.
    pub processed: u64,
    /// The parked aggregates, with the sequences of their failed events; rows have earlier events, or omit them.
    pub parked: HashMap<AggregateKey, u64>,
}

impl Baseline {
    /// Reads the baseline of some aggregate types of a projection in Postgres.
    pub async fn of(
        client: &impl GenericClient,
        projection: &'static Projection,
        shard: u16,
        aggregate_types: &[&str],
    ) -> Result<Self, DatabaseFailure> {
        let checkpoint = ReadModel::new(projection, shard).checkpoint(client).await?;
        let end = checkpoint.map(|checkpoint| checkpoint.position).unwrap_or_default();
        let text = "select instance_id, aggregate_type, aggregate_id, from_sequence as sequence, \
                    from_stream_sequence as stream_sequence, from_digest as digest, sequence as failed \
                    from platform.failed_events \
                    where projection = $1 and version = $2 and shard = $3 \
                    and aggregate_type = any($4)";
        let statement = client.prepare_cached(text).await?;
        let Projection { name, version, .. } = projection;
        let rows = client.query(&statement, &[name, version, &i32::from(shard), &aggregate_types]).await?;
        let first = rows.iter().map(position).min_by_key(|from| from.stream_sequence);
        let position = first.into_iter().chain([end]).min_by_key(|at| at.stream_sequence).unwrap_or_default();
        let parked = rows.iter().map(|row| (key(row), unsigned(row.get("failed")))).collect();
        Ok(Self { position, processed: end.sequence, parked })
    }

    /// Whether the rows lack an event.
    pub fn lacks(&self, recorded: &Recorded) -> bool {
        recorded.sequence > self.processed
            || self.parked.get(&recorded.key()).is_some_and(|failed| *failed <= recorded.sequence)
    }
}

#[cfg(test)]
mod tests {
    use eventlog::record::Event;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn what_is_before_the_event_that_is_parked_is_in_the_rows_or_left_out() {
        let of = |id: &str| AggregateKey { instance_id: "1".into(), aggregate_type: "user".into(), id: id.into() };
        let event = |id: &str, sequence| {
            let AggregateKey { instance_id, aggregate_type, id } = of(id);
            let event = Event { instance_id, aggregate_type, aggregate_id: id, ..Event::default() };
            Recorded { sequence, committed_at: Timestamp::UNIX_EPOCH, event }
        };
        let baseline = Baseline { processed: 9, parked: [(of("3"), 5)].into(), ..Baseline::default() };
        let lacks = [("3", 4), ("3", 5), ("3", 8), ("4", 8), ("4", 10)].map(|(id, at)| baseline.lacks(&event(id, at)));
        assert_eq!(lacks, [false, true, true, false, true]);
    }
}
