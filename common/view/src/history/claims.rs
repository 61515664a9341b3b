//! Claims in history: who holds which unique value.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use deadpool_postgres::Transaction;
use eventlog::record::{AggregateKey, Recorded};

use super::columns;
use crate::{
    database::DatabaseFailure,
    projection::{HISTORY, Projection, Sql},
};

/// A keyed hash of a value that only one aggregate may hold.
pub type ClaimHash = [u8; 32];

/// Folds a batch of events to the holder of each claim after it; `None` for a claim that was released.
pub fn fold_claims(events: &[Arc<Recorded>]) -> HashMap<ClaimHash, Option<AggregateKey>> {
    let mut claims = HashMap::new();
    for recorded in events {
        for released in hashes(&recorded.event.claims_released) {
            claims.insert(released, None);
        }
        for taken in hashes(&recorded.event.claims_taken) {
            claims.insert(taken, Some(recorded.key()));
        }
    }
    claims
}

/// Parses the claims of an event, and skips what is not a hash.
pub fn hashes(claims: &[Bytes]) -> impl Iterator<Item = ClaimHash> {
    claims.iter().filter_map(|claim| claim.as_ref().try_into().ok())
}

pub(super) async fn apply(
    transaction: &Transaction<'_>,
    history: &Projection,
    claims: HashMap<ClaimHash, Option<AggregateKey>>,
) -> Result<(), DatabaseFailure> {
    let (taken, released): (Vec<_>, Vec<_>) = claims.iter().partition(|(_, holder)| holder.is_some());
    if !released.is_empty() {
        let delete = history.sql("delete from {schema}.claims where claim = any($1)");
        let released: Vec<&[u8]> = released.iter().map(|(claim, _)| claim.as_slice()).collect();
        let statement = transaction.prepare_cached(&delete).await?;
        transaction.execute(&statement, &[&released]).await?;
    }
    if !taken.is_empty() {
        let insert = history.sql(
            "insert into {schema}.claims select * from unnest($1::bytea[], $2::text[], $3::text[], $4::text[]) \
             on conflict (claim) do update set instance_id = excluded.instance_id, \
             aggregate_type = excluded.aggregate_type, aggregate_id = excluded.aggregate_id",
        );
        let claims: Vec<&[u8]> = taken.iter().map(|(claim, _)| claim.as_slice()).collect();
        let holders = taken.iter().filter_map(|(_, holder)| holder.as_ref());
        let statement = transaction.prepare_cached(&insert).await?;
        let (instances, types, ids) = columns(holders);
        transaction.execute(&statement, &[&claims, &instances, &types, &ids]).await?;
    }
    Ok(())
}

pub(super) async fn load(
    transaction: &Transaction<'_>,
    claims: Vec<ClaimHash>,
) -> Result<HashMap<ClaimHash, Option<AggregateKey>>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY
            .sql("select claim, instance_id, aggregate_type, aggregate_id from {schema}.claims where claim = any($1)")
    });
    if claims.is_empty() {
        return Ok(HashMap::new());
    }
    let asked: Vec<&[u8]> = claims.iter().map(<[u8; 32]>::as_slice).collect();
    let statement = transaction.prepare_cached(&SELECT).await?;
    let rows = transaction.query(&statement, &[&asked]).await?;
    let mut found: HashMap<ClaimHash, Option<AggregateKey>> = claims.into_iter().map(|claim| (claim, None)).collect();
    for row in rows {
        let key = AggregateKey { instance_id: row.try_get(1)?, aggregate_type: row.try_get(2)?, id: row.try_get(3)? };
        if let Ok(claim) = row.try_get::<_, &[u8]>(0)?.try_into() {
            found.insert(claim, Some(key));
        }
    }
    Ok(found)
}
