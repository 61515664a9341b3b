//! What others ask history about the past, once it has come so far.

use std::collections::HashSet;

use deadpool_postgres::{Client, GenericClient, Transaction};
use eventlog::record::{AggregateKey, Recorded};

use super::{aggregate_key, columns, recorded};
use crate::{
    checkpoint::Checkpoint,
    database::{DatabaseFailure, snapshot},
    projection::{HISTORY, Sql},
};

/// History as it is once it has come to a sequence; `None` before that.
pub async fn snapshot_at(
    connection: &mut Client,
    shard: u16,
    sequence: u64,
) -> Result<Option<Transaction<'_>>, DatabaseFailure> {
    let transaction = snapshot(connection).await?;
    let checkpoint = Checkpoint::read(&transaction, &HISTORY, shard).await?;
    Ok(checkpoint.filter(|checkpoint| checkpoint.position.sequence >= sequence).map(|_| transaction))
}

/// Those of these aggregates that have an event of a type.
pub async fn that_have(
    client: &impl GenericClient,
    keys: &[AggregateKey],
    event_type: &str,
) -> Result<HashSet<AggregateKey>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY.sql(
            "select i, t, a from unnest($1::text[], $2::text[], $3::text[]) as k (i, t, a) where exists (select from \
             {schema}.events where instance_id = k.i and aggregate_type = k.t and aggregate_id = k.a and type = $4)",
        )
    });
    let statement = client.prepare_cached(&SELECT).await?;
    let (instances, types, ids) = columns(keys);
    let rows = client.query(&statement, &[&instances, &types, &ids, &event_type]).await?;
    rows.iter().map(aggregate_key).collect()
}

/// All events of the aggregates of one type in an instance, in their order. There must be few of them.
pub async fn events_of_type(
    client: &impl GenericClient,
    instance_id: &str,
    aggregate_type: &str,
) -> Result<Vec<Recorded>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY.sql(
            "select * from {schema}.events where instance_id = $1 and aggregate_type = $2 order by aggregate_id, version",
        )
    });
    let rows = client.query(&**SELECT, &[&instance_id, &aggregate_type]).await?;
    Ok(rows.iter().map(recorded).collect::<Result<_, _>>()?)
}
