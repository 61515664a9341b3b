//! Projections that stand still, and why. Their units say so here, for people to read; it decides nothing.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use jiff::Timestamp;

use super::legible;
use crate::{database::DatabaseFailure, projection::Projection};

/// That a projection stands still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Why.
    pub error: String,
    /// Since when.
    pub since: Timestamp,
}

/// Notes that a projection stands still.
///
/// # Errors
/// When Postgres does not answer.
pub async fn note(
    client: &impl GenericClient,
    (projection, shard): (&Projection, u16),
    error: &str,
) -> Result<(), DatabaseFailure> {
    let text = "insert into platform.stopped_views as v values ($1, $2, $3, $4, now()) \
                on conflict (projection, version, shard) do update set error = excluded.error \
                where v.error <> excluded.error";
    let statement = client.prepare_cached(text).await?;
    let Projection { name, version, .. } = projection;
    client.execute(&statement, &[name, version, &i32::from(shard), &legible(error)]).await?;
    Ok(())
}

/// Notes that it goes on.
///
/// # Errors
/// When Postgres does not answer.
pub async fn clear(
    client: &impl GenericClient,
    (projection, shard): (&Projection, u16),
) -> Result<(), DatabaseFailure> {
    let text = "delete from platform.stopped_views where projection = $1 and version = $2 and shard = $3";
    let statement = client.prepare_cached(text).await?;
    client.execute(&statement, &[&projection.name, &projection.version, &i32::from(shard)]).await?;
    Ok(())
}

/// All that stand still, by name and version.
///
/// # Errors
/// When Postgres does not answer.
pub async fn all(client: &impl GenericClient, shard: u16) -> Result<HashMap<(String, i32), Stopped>, DatabaseFailure> {
    let text = "select projection, version, error, since from platform.stopped_views where shard = $1";
    let statement = client.prepare_cached(text).await?;
    let rows = client.query(&statement, &[&i32::from(shard)]).await?;
    let stopped = |row: &tokio_postgres::Row| Stopped { error: row.get("error"), since: row.get("since") };
    Ok(rows.iter().map(|row| ((row.get("projection"), row.get("version")), stopped(row))).collect())
}
