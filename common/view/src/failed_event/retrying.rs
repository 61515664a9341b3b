//! Marks of failed events whose retry was requested, until it is done. They are for people to read, and decide nothing.

use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use super::decided::Decision;
use crate::{checkpoint::signed, database::DatabaseFailure, keyring::SYSTEM};

/// The request to try a failed event again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retrying {
    /// The instance in which that was decided, or the system.
    pub decided_in: String,
    /// Who decided it: the id of a user, or the name of a system user.
    pub by: String,
    /// When it was decided.
    pub at: Timestamp,
}

impl Retrying {
    /// Returns the mark that a decision to retry leaves on failed events.
    pub fn of(decision: &Decision) -> Self {
        let decided_in = decision.within.clone().unwrap_or_else(|| SYSTEM.to_owned());
        Self { decided_in, by: decision.by.clone(), at: decision.at }
    }
}

/// The statement that marks what another one finds, as `id`. Its parameters are [`parameters`], from this number on.
pub(super) fn marking(found: &str, from: usize) -> String {
    let (by, at) = (from + 1, from + 2);
    format!(
        "insert into platform.retries select distinct id, ${from}, ${by}, ${at}::timestamptz from ({found}) as found \
         on conflict (id) do update set decided_in = excluded.decided_in, actor = excluded.actor, decided_at = excluded.decided_at"
    )
}

/// The parameters of [`marking`].
pub(super) fn parameters(retrying: &Retrying) -> [&(dyn ToSql + Sync); 3] {
    [&retrying.decided_in, &retrying.by, &retrying.at]
}

/// Marks failed events.
///
/// # Errors
/// When Postgres does not answer.
pub async fn mark(client: &impl GenericClient, ids: &[u64], retrying: &Retrying) -> Result<(), DatabaseFailure> {
    let statement = client.prepare_cached(&marking("select unnest($4::bigint[]) as id", 1)).await?;
    let ids: Vec<i64> = ids.iter().copied().map(signed).collect();
    let [decided_in, by, at] = parameters(retrying);
    client.execute(&statement, &[decided_in, by, at, &ids]).await?;
    Ok(())
}

/// Removes the marks of failed events.
///
/// # Errors
/// When Postgres does not answer.
pub async fn unmark(client: &impl GenericClient, ids: &[u64]) -> Result<(), DatabaseFailure> {
    if ids.is_empty() {
        return Ok(());
    }
    let statement = client.prepare_cached("delete from platform.retries where id = any($1)").await?;
    let ids: Vec<i64> = ids.iter().copied().map(signed).collect();
    client.execute(&statement, &[&ids]).await?;
    Ok(())
}
