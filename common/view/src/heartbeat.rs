//! When the read model of what has ended had all that was in the log. Who does not hear from NATS knows by it how old what
//! Postgres says may be.

use std::time::Duration;

use deadpool_postgres::GenericClient;

use crate::{failure::DatabaseFailure, projection::ENDED, read_model::ReadModel};

/// Notes, where the read model has a message of the log, that it had all until so long ago.
///
/// # Errors
/// When Postgres does not answer.
pub async fn beat(client: &impl GenericClient, shard: u16, end: u64, ago: Duration) -> Result<(), DatabaseFailure> {
    let checkpoint = ReadModel::new(&ENDED, shard).checkpoint(client).await?;
    if checkpoint.is_none_or(|checkpoint| checkpoint.position.stream_sequence < end) {
        return Ok(());
    }
    let statement = "insert into platform.heartbeats as h values ($1, clock_timestamp() - make_interval(secs => $2)) \
                     on conflict (shard) do update set heard_at = greatest(h.heard_at, excluded.heard_at)";
    let statement = client.prepare_cached(statement).await?;
    client.execute(&statement, &[&i32::from(shard), &ago.as_secs_f64()]).await?;
    Ok(())
}

/// How long ago that was; `None` where it never was.
pub(crate) async fn age(client: &impl GenericClient, shard: u16) -> Result<Option<Duration>, DatabaseFailure> {
    let statement = "select extract(epoch from clock_timestamp() - heard_at)::double precision from platform.heartbeats \
                     where shard = $1";
    let statement = client.prepare_cached(statement).await?;
    let row = client.query_opt(&statement, &[&i32::from(shard)]).await?;
    Ok(row.map(|row| Duration::try_from_secs_f64(row.get::<_, f64>(0).max(0.0)).unwrap_or(Duration::MAX)))
}
