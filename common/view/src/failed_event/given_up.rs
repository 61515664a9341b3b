//! Deliveries that were given up, as people find them among failed events. They are in the queue of deliveries; this is
//! a copy.

use deadpool_postgres::GenericClient;
use domain::failed_event::Filter;
use eventlog::record::AggregateKey;
use jiff::Timestamp;
use tokio_postgres::{Row, types::ToSql};

use super::{
    id, legible,
    retrying::{self, Retrying},
    search::{Parameters, condition},
};
use crate::{
    checkpoint::{signed, unsigned},
    database::{Database, DatabaseFailure},
};

/// A delivery that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Its place in the queue of its shard.
    pub place: u64,
    /// Its id, which the target receives.
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
    /// When the first of these tries failed.
    pub first_failed_at: Timestamp,
    /// When the last try failed.
    pub failed_at: Timestamp,
}

/// The id by which people name a delivery that was given up.
pub fn id_of(shard: u16, delivery_id: &str) -> u64 {
    id(&format!("{shard}/{delivery_id}"))
}

/// Stores deliveries that were given up.
///
/// # Errors
/// When Postgres does not answer.
pub async fn add(client: &impl GenericClient, shard: u16, all: &[GivenUp]) -> Result<(), DatabaseFailure> {
    // A different delivery at the same place is from a queue that was lost.
    let text = "insert into platform.given_up_deliveries as g select $1, * from unnest($2::bigint[], $3::bigint[], \
                $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::timestamptz[]) \
                on conflict (shard, place) do update set id = excluded.id, instance_id = excluded.instance_id, \
                aggregate_type = excluded.aggregate_type, aggregate_id = excluded.aggregate_id, \
                sequence = excluded.sequence, target_id = excluded.target_id, failure_count = excluded.failure_count, \
                error = excluded.error, last_failed = excluded.last_failed where g.id <> excluded.id";
    // A delivery that fails again waits for a decision again.
    let ids: Vec<u64> = all.iter().map(|one| id_of(shard, &one.delivery_id)).collect();
    retrying::unmark(client, &ids).await?;
    let statement = client.prepare_cached(text).await?;
    let numbers = |of: fn(&GivenUp) -> u64| all.iter().map(|one| signed(of(one))).collect::<Vec<_>>();
    let texts = |of: fn(&GivenUp) -> &str| all.iter().map(of).collect::<Vec<_>>();
    let ids: Vec<i64> = ids.into_iter().map(signed).collect();
    let errors: Vec<String> = all.iter().map(|one| legible(&one.error)).collect();
    let times: Vec<Timestamp> = all.iter().map(|one| one.failed_at).collect();
    let parameters: [&(dyn ToSql + Sync); 11] = [
        &i32::from(shard),
        &numbers(|one| one.place),
        &ids,
        &texts(|one| &one.key.instance_id),
        &texts(|one| &one.key.aggregate_type),
        &texts(|one| &one.key.id),
        &numbers(|one| one.sequence),
        &texts(|one| &one.target_id),
        &numbers(|one| one.tries.into()),
        &errors,
        &times,
    ];
    client.execute(&statement, &parameters).await?;
    let text = "insert into platform.first_failures as f select $1, * from unnest($2::bigint[], $3::timestamptz[]) \
                on conflict (shard, place) do update set first_failed = excluded.first_failed";
    let statement = client.prepare_cached(text).await?;
    let first: Vec<Timestamp> = all.iter().map(|one| one.first_failed_at).collect();
    client.execute(&statement, &[&i32::from(shard), &numbers(|one| one.place), &first]).await?;
    Ok(())
}

/// Deletes the deliveries at these places.
///
/// # Errors
/// When Postgres does not answer.
pub async fn remove(client: &impl GenericClient, shard: u16, places: &[u64]) -> Result<(), DatabaseFailure> {
    let text = "with gone as (delete from platform.given_up_deliveries where shard = $1 and place = any($2) returning id), \
                first as (delete from platform.first_failures where shard = $1 and place = any($2)) \
                delete from platform.retries r using gone where r.id = gone.id";
    let places: Vec<i64> = places.iter().copied().map(signed).collect();
    let statement = client.prepare_cached(text).await?;
    client.execute(&statement, &[&i32::from(shard), &places]).await?;
    Ok(())
}

/// Deletes all deliveries but those at these places.
///
/// # Errors
/// When Postgres does not answer.
pub async fn keep_only(client: &impl GenericClient, shard: u16, places: &[u64]) -> Result<(), DatabaseFailure> {
    let places: Vec<i64> = places.iter().copied().map(signed).collect();
    for table in ["given_up_deliveries", "first_failures"] {
        let text = format!(
            "delete from platform.{table} as t where shard = $1 \
             and not exists (select from unnest($2::bigint[]) as kept (place) where kept.place = t.place)"
        );
        let statement = client.prepare_cached(&text).await?;
        client.execute(&statement, &[&i32::from(shard), &places]).await?;
    }
    Ok(())
}

/// Returns the last place of a delivery that was given up; zero where there is none.
///
/// # Errors
/// When Postgres does not answer.
pub async fn last_place(database: &Database, shard: u16) -> Result<u64, DatabaseFailure> {
    let read = async {
        let connection = database.connection().await?;
        let text = "select coalesce(max(place), 0) from platform.given_up_deliveries where shard = $1";
        let statement = connection.prepare_cached(text).await?;
        Ok(unsigned(connection.query_one(&statement, &[&i32::from(shard)]).await?.get(0)))
    };
    database.within(read).await
}

/// Counts the deliveries that were given up.
///
/// # Errors
/// When Postgres does not answer.
pub async fn count(client: &impl GenericClient, shard: u16) -> Result<u64, DatabaseFailure> {
    let text = "select count(*) from platform.given_up_deliveries where shard = $1";
    let statement = client.prepare_cached(text).await?;
    Ok(unsigned(client.query_one(&statement, &[&i32::from(shard)]).await?.get(0)))
}

/// How many are marked at once.
const MARKED_AT_ONCE: u32 = 1000;

/// The position of a delivery in the order of events: the sequence of its event, and its place.
pub type Ordinal = (u64, u64);

/// The place and the id of a delivery that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// Its place in the queue.
    pub place: u64,
    /// The id by which people name it.
    pub id: u64,
}

/// A selection of deliveries.
#[derive(Debug, Clone, Copy)]
pub struct GivenUpSelection<'a> {
    /// The filters, all of which they match.
    pub filters: &'a [Filter],
    /// The last place of a selected delivery in the queue of its shard.
    pub until: u64,
}

/// Finds selected deliveries, in the order of their events.
///
/// # Errors
/// When Postgres does not answer.
pub async fn find(
    client: &impl GenericClient,
    shard: u16,
    GivenUpSelection { filters, until }: GivenUpSelection<'_>,
    limit: u32,
) -> Result<Vec<Noted>, DatabaseFailure> {
    let mut parameters = search_parameters(shard, until);
    let conditions: String = filters.iter().map(|filter| condition(filter, &mut parameters)).collect();
    let text = format!(
        "select place, id from ({ALL}) as f where shard = $1 and place <= $2{conditions} order by sequence, place limit {limit}"
    );
    let borrowed: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| &**parameter as _).collect();
    Ok(client.query(&text, &borrowed).await?.iter().map(noted).collect())
}

/// Finds deliveries that were given up so many seconds ago, by the clock of Postgres: what is forgotten stays so.
///
/// # Errors
/// When Postgres does not answer.
pub async fn find_old(
    client: &impl GenericClient,
    shard: u16,
    seconds: f64,
    limit: u32,
) -> Result<Vec<Noted>, DatabaseFailure> {
    let text = format!(
        "select place, id from platform.given_up_deliveries \
         where shard = $1 and last_failed < now() - make_interval(secs => $2) order by sequence, place limit {limit}"
    );
    Ok(client.query(&text, &[&i32::from(shard), &seconds]).await?.iter().map(noted).collect())
}

/// Marks a page of the selected deliveries as tried again. Returns the last of them in the order of their events, after
/// which the next page begins; `None` where there are none.
///
/// # Errors
/// When Postgres does not answer.
pub async fn mark(
    client: &impl GenericClient,
    shard: u16,
    GivenUpSelection { filters, until }: GivenUpSelection<'_>,
    after: Ordinal,
    retrying: &Retrying,
) -> Result<Option<Ordinal>, DatabaseFailure> {
    let mut parameters = search_parameters(shard, until);
    let conditions: String = filters.iter().map(|filter| condition(filter, &mut parameters)).collect();
    let count = parameters.len();
    let text = format!(
        "with those as (select id, sequence, place from ({ALL}) as f where shard = $1 and place <= $2{conditions} \
         and (sequence, place) > (${}, ${}) order by sequence, place limit {MARKED_AT_ONCE}), \
         marked as ({}) select sequence, place from those order by sequence desc, place desc limit 1",
        count + 1,
        count + 2,
        retrying::marking("select id from those", count + 3),
    );
    parameters.extend([Box::new(signed(after.0)) as _, Box::new(signed(after.1)) as _]);
    let given = parameters.iter().map(|parameter| &**parameter as &(dyn ToSql + Sync));
    let given: Vec<_> = given.chain(retrying::parameters(retrying)).collect();
    let last = client.query_opt(&text, &given).await?;
    Ok(last.map(|row| (unsigned(row.get(0)), unsigned(row.get(1)))))
}

/// All deliveries that were given up, with the columns that the conditions of a search use.
const ALL: &str = "select 'deliveries' as view, * from platform.given_up_deliveries";

/// The parameters of a search up to a place.
fn search_parameters(shard: u16, until: u64) -> Parameters {
    vec![Box::new(i32::from(shard)), Box::new(i64::try_from(until).unwrap_or(i64::MAX))]
}

fn noted(row: &Row) -> Noted {
    Noted { place: unsigned(row.get(0)), id: unsigned(row.get(1)) }
}
