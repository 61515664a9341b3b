//! Deliveries that were given up, as people find them among failed events. They are in the queue of deliveries; this is a copy.

use deadpool_postgres::GenericClient;
use domain::failed_event::Filter;
use eventlog::record::AggregateKey;
use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use super::{
    id, legible,
    search::{Parameters, condition},
};
use crate::{
    checkpoint::{signed, unsigned},
    database::DatabaseFailure,
};

/// A delivery that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Its place in the queue of its shard.
    pub place: u64,
    /// Its id, which targets are told.
    pub delivery_id: String,
    /// The aggregate of the event.
    pub key: AggregateKey,
    /// The sequence of the event.
    pub sequence: u64,
    /// The target.
    pub target_id: String,
    /// How often it was tried.
    pub tries: u32,
    /// Why the last try failed.
    pub error: String,
    /// When.
    pub failed_at: Timestamp,
}

/// Notes them, where they are not known.
///
/// # Errors
/// When Postgres does not answer.
pub async fn add(client: &impl GenericClient, shard: u16, all: &[GivenUp]) -> Result<(), DatabaseFailure> {
    let text = "insert into platform.given_up_deliveries values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
                on conflict (shard, place) do nothing";
    let statement = client.prepare_cached(text).await?;
    for GivenUp { place, delivery_id, key, sequence, target_id, tries, error, failed_at } in all {
        let AggregateKey { instance_id, aggregate_type, id: aggregate_id } = key;
        let (shard, tries, id) = (i32::from(shard), i64::from(*tries), signed(id(&format!("{shard}/{delivery_id}"))));
        let (place, sequence, error) = (signed(*place), signed(*sequence), legible(error));
        let parameters: [&(dyn ToSql + Sync); 11] = [
            &shard,
            &place,
            &id,
            instance_id,
            aggregate_type,
            aggregate_id,
            &sequence,
            target_id,
            &tries,
            &error,
            failed_at,
        ];
        client.execute(&statement, &parameters).await?;
    }
    Ok(())
}

/// Forgets those at these places.
///
/// # Errors
/// When Postgres does not answer.
pub async fn remove(client: &impl GenericClient, shard: u16, places: &[u64]) -> Result<(), DatabaseFailure> {
    let text = "delete from platform.given_up_deliveries where shard = $1 and place = any($2)";
    let places: Vec<i64> = places.iter().copied().map(signed).collect();
    let statement = client.prepare_cached(text).await?;
    client.execute(&statement, &[&i32::from(shard), &places]).await?;
    Ok(())
}

/// Forgets all but those at these places.
///
/// # Errors
/// When Postgres does not answer.
pub async fn keep_only(client: &impl GenericClient, shard: u16, places: &[u64]) -> Result<(), DatabaseFailure> {
    let text = "delete from platform.given_up_deliveries where shard = $1 and place <> all($2)";
    let places: Vec<i64> = places.iter().copied().map(signed).collect();
    let statement = client.prepare_cached(text).await?;
    client.execute(&statement, &[&i32::from(shard), &places]).await?;
    Ok(())
}

/// The places of those that meet all filters and were given up by a time, in the order of their events.
///
/// # Errors
/// When Postgres does not answer.
pub async fn places(
    client: &impl GenericClient,
    shard: u16,
    (filters, until): (&[Filter], Timestamp),
    limit: u32,
) -> Result<Vec<u64>, DatabaseFailure> {
    let mut parameters: Parameters = vec![Box::new(i32::from(shard)), Box::new(until)];
    let conditions: String = filters.iter().map(|filter| condition(filter, &mut parameters)).collect();
    let text = format!(
        "select place from (select 'deliveries' as view, * from platform.given_up_deliveries) as f \
         where shard = $1 and last_failed <= $2{conditions} order by sequence, place limit {limit}"
    );
    let borrowed: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| &**parameter as _).collect();
    let rows = client.query(&text, &borrowed).await?;
    Ok(rows.iter().map(|row| unsigned(row.get(0))).collect())
}
