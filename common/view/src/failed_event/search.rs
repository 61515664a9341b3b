//! Failed events, and how far projections are, as operators search them.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use domain::{failed_event::Filter, log_class::LogClass};
use jiff::Timestamp;
use tokio_postgres::{Row, types::ToSql};

use super::{ParkedAt, parked_at};
use crate::{
    checkpoint::{Checkpoint, checkpoints, unsigned},
    database::{Database, DatabaseFailure, snapshot},
    projection::{PROJECTIONS, Projection},
    rows::{Fresh, Room},
};

/// A failed event as it is kept.
#[derive(Clone)]
pub struct FailedEvent {
    /// The id by which operators name it.
    pub id: u64,
    /// The projection.
    pub projection: &'static Projection,
    /// At which event which aggregate is parked, and why.
    pub parked: ParkedAt,
    /// How often.
    pub failure_count: u64,
}

/// A part of a list of failed events.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// All of them hold.
    pub filters: Vec<Filter>,
    /// Whether those come first that failed longest ago.
    pub ascending: bool,
    /// How many come before.
    pub offset: u64,
    /// How many there are at most.
    pub limit: u32,
}

/// The failed events that are asked for, and how many there are in all. It is as fresh as the projection in Postgres that is furthest
/// behind: of what came before, those that they could not process are told of here.
///
/// # Errors
/// When Postgres does not answer.
pub async fn search(
    database: &Database,
    shard: u16,
    page: &Page,
) -> Result<Fresh<(Vec<FailedEvent>, u64)>, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let (processed, timestamp) = furthest_behind(&checkpoints(&transaction, shard).await?);
        let answer = read(&transaction, page).await?;
        transaction.commit().await?;
        Ok(Fresh { processed, timestamp, answer })
    };
    database.within(read).await
}

/// How far a projection is, and how many events it could not process.
#[derive(Clone)]
pub struct Stand {
    /// The projection.
    pub projection: &'static Projection,
    /// The sequence of the last event that it has processed; zero for one that is not kept in Postgres.
    pub sequence: u64,
    /// When that was committed.
    pub committed_at: Timestamp,
    /// How many events it could not process.
    pub failed: u64,
}

/// How far every projection is. It is as fresh as the one that is furthest behind.
///
/// # Errors
/// When Postgres does not answer.
pub async fn stands(database: &Database, shard: u16) -> Result<Fresh<Vec<Stand>>, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let found = checkpoints(&transaction, shard).await?;
        let failed = counts(&transaction).await?;
        transaction.commit().await?;
        let (processed, timestamp) = furthest_behind(&found);
        let stand = |projection: &'static Projection| {
            let of = found.iter().find(|(known, _)| known.name == projection.name);
            let (sequence, committed_at) = of.map(|(_, checkpoint)| reached(*checkpoint)).unwrap_or_default();
            let name = (projection.name.to_owned(), projection.version);
            Stand { projection, sequence, committed_at, failed: failed.get(&name).copied().unwrap_or_default() }
        };
        Ok(Fresh { processed, timestamp, answer: PROJECTIONS.iter().map(stand).collect() })
    };
    database.within(read).await
}

fn reached(checkpoint: Option<Checkpoint>) -> (u64, Timestamp) {
    checkpoint.map_or_else(Default::default, |checkpoint| (checkpoint.position.sequence, checkpoint.committed_at))
}

/// Of those that follow the log that is kept for ever: sequences of the other one say nothing beside them.
fn furthest_behind(found: &[(&Projection, Option<Checkpoint>)]) -> (u64, Timestamp) {
    let following = found.iter().filter(|(projection, _)| projection.class == LogClass::Events);
    following.map(|(_, checkpoint)| reached(*checkpoint)).min().unwrap_or_default()
}

async fn read(client: &impl GenericClient, page: &Page) -> Result<(Vec<FailedEvent>, u64), DatabaseFailure> {
    let names: Vec<&str> = PROJECTIONS.iter().map(|projection| projection.name).collect();
    let versions: Vec<i32> = PROJECTIONS.iter().map(|projection| projection.version).collect();
    let mut parameters: Vec<Box<dyn ToSql + Sync + Send>> = vec![];
    let conditions: String = page.filters.iter().map(|filter| condition(filter, &mut parameters)).collect();
    let (names, versions): (Box<dyn ToSql + Sync + Send>, _) = (Box::new(names), Box::new(versions));
    let parameters: Vec<_> = [names, versions].into_iter().chain(parameters).collect();
    let borrowed: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| &**parameter as _).collect();
    let found = format!(
        "from platform.failed_events f join unnest($1::text[], $2::int[]) as p (name, number) \
         on f.projection = p.name and f.version = p.number where true{conditions}"
    );
    let direction = if page.ascending { "asc" } else { "desc" };
    let (limit, offset) = (page.limit, page.offset.min(i64::MAX.unsigned_abs()));
    let listed =
        format!("select f.* {found} order by last_failed {direction}, id {direction} limit {limit} offset {offset}");
    let rows = client.query(&listed, &borrowed).await?;
    let mut room = Room::default();
    let events = rows.iter().filter_map(failed_event);
    let events = events.take_while(|event| room.takes(event.parked.error.len() + 1000)).collect();
    let total = client.query_one(&format!("select count(*) {found}"), &borrowed).await?;
    Ok((events, unsigned(total.get(0))))
}

fn failed_event(row: &Row) -> Option<FailedEvent> {
    let (name, version): (&str, i32) = (row.get("projection"), row.get("version"));
    let projection = PROJECTIONS.iter().find(|known| known.name == name && known.version == version)?;
    let (id, failure_count) = (unsigned(row.get("id")), unsigned(row.get("failure_count")));
    Some(FailedEvent { id, projection, parked: parked_at(row), failure_count })
}

/// A condition of a statement that has two parameters of its own before.
fn condition(filter: &Filter, parameters: &mut Vec<Box<dyn ToSql + Sync + Send>>) -> String {
    let (column, parameter): (_, Box<dyn ToSql + Sync + Send>) = match filter {
        Filter::Id(id) => ("id", Box::new(i64::try_from(*id).unwrap_or(-1))),
        Filter::View(name) => ("projection", Box::new(name.clone())),
        Filter::InstanceId(id) => ("instance_id", Box::new(id.clone())),
        Filter::AggregateType(name) => ("aggregate_type", Box::new(name.clone())),
        Filter::AggregateId(id) => ("aggregate_id", Box::new(id.clone())),
    };
    parameters.push(parameter);
    format!(" and f.{column} = ${}", parameters.len() + 2)
}

/// How many events projections could not process, by name and version.
async fn counts(client: &impl GenericClient) -> Result<HashMap<(String, i32), u64>, DatabaseFailure> {
    let text = "select projection, version, count(*) from platform.failed_events group by projection, version";
    let statement = client.prepare_cached(text).await?;
    let rows = client.query(&statement, &[]).await?;
    Ok(rows.iter().map(|row| ((row.get(0), row.get(1)), unsigned(row.get(2)))).collect())
}
