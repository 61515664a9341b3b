//! The last attempts to deliver events to each target, for whoever operates the target. They are written to Postgres at
//! intervals and stored nowhere else, so a process that dies loses some of them.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::database::{Database, DatabaseFailure};

/// How many attempts are retained for each target.
pub const KEPT: usize = 20;

/// An attempt to deliver an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The id of the delivery, which is the same for all of its attempts.
    pub delivery_id: String,
    /// The type of the event.
    pub event_type: String,
    /// Type and id of its aggregate.
    pub aggregate: String,
    /// The sequence of the event.
    pub sequence: u64,
    /// The number of the attempt for this delivery, from 1 on.
    pub number: u32,
    /// When it ended.
    pub at: Timestamp,
    /// Its outcome.
    pub outcome: Outcome,
    /// Why it failed; empty where it did not.
    pub error: String,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The event was delivered.
    Delivered,
    /// The attempt failed, and there will be another one.
    Failed,
    /// The attempt failed, and the delivery was given up.
    GivenUp,
}

/// Attempts of one target.
#[derive(Debug)]
pub struct OfTarget {
    /// The instance.
    pub instance_id: String,
    /// The target.
    pub target_id: String,
    /// The attempts, the last one first.
    pub attempts: Vec<Attempt>,
}

/// Stores attempts before those that are stored already, and drops the oldest beyond the limit.
///
/// # Errors
/// When Postgres does not answer.
pub async fn note(client: &impl GenericClient, all: &[OfTarget]) -> Result<(), DatabaseFailure> {
    let text = format!(
        "insert into platform.target_attempts as t select i, d, a::jsonb, now() \
         from unnest($1::text[], $2::text[], $3::text[]) as u (i, d, a) \
         on conflict (instance_id, target_id) do update set noted_at = now(), attempts = (\
         select jsonb_agg(value order by ordinality) from (\
         select value, ordinality from jsonb_array_elements(excluded.attempts || t.attempts) with ordinality \
         order by ordinality limit {KEPT}) as kept)"
    );
    let statement = client.prepare_cached(&text).await?;
    let instances: Vec<&str> = all.iter().map(|of| of.instance_id.as_str()).collect();
    let targets: Vec<&str> = all.iter().map(|of| of.target_id.as_str()).collect();
    let attempts: Vec<String> = all.iter().map(|of| serde_json::json!(of.attempts).to_string()).collect();
    client.execute(&statement, &[&instances, &targets, &attempts]).await?;
    Ok(())
}

/// Deletes the attempts of targets for which none was stored for so many days.
///
/// # Errors
/// When Postgres does not answer.
pub async fn forget(client: &impl GenericClient, days: i32) -> Result<(), DatabaseFailure> {
    let text = "delete from platform.target_attempts where noted_at < now() - make_interval(days => $1)";
    client.execute(text, &[&days]).await?;
    Ok(())
}

/// The last attempts of a target, the last one first.
///
/// # Errors
/// When Postgres does not answer.
pub async fn of_target(
    database: &Database,
    instance_id: &str,
    target_id: &str,
) -> Result<Vec<Attempt>, DatabaseFailure> {
    let read = async {
        let connection = database.connection().await?;
        let text = "select attempts::text from platform.target_attempts where instance_id = $1 and target_id = $2";
        let statement = connection.prepare_cached(text).await?;
        Ok(connection.query_opt(&statement, &[&instance_id, &target_id]).await?)
    };
    let row = database.within(read).await?;
    // Attempts that a newer build stored in another form are ignored.
    Ok(row.and_then(|row| serde_json::from_str(row.get(0)).ok()).unwrap_or_default())
}
