//! How far projections are, as operators see it.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use base::clock;
use deadpool_postgres::GenericClient;
use domain::log_class::{LogClass, OfEach};
use jiff::Timestamp;

use super::{
    delivery,
    search::{Indexed, Reached, projection},
    stopped::{Stopped, all},
};
use crate::{
    checkpoint::{signed, unsigned},
    database::{Database, DatabaseFailure, snapshot},
    projection::{HISTORY, PROJECTIONS, Projection, Sql, following, history_of},
    rows::Fresh,
};

/// How far a projection is, and how many events it could not process.
#[derive(Clone)]
pub struct Stand {
    /// The projection.
    pub projection: &'static Projection,
    /// Whether it is there at all.
    pub is_there: bool,
    /// The sequence of the last event that it has processed.
    pub sequence: u64,
    /// When that was committed.
    pub committed_at: Timestamp,
    /// How many events it could not process.
    pub failed: u64,
    /// Why and since when it stands still, where it does.
    pub stopped: Option<Stopped>,
    /// How many events it lacks.
    pub lag_events: u64,
    /// How old the first of them is.
    pub lag: Duration,
}

/// How far every projection is; the logs end at least at these sequences. It is as fresh as the one that is furthest behind.
///
/// # Errors
/// When Postgres does not answer.
pub async fn stands(
    database: &Database,
    (shard, indexed): (u16, &Indexed),
    ends: OfEach<u64>,
) -> Result<Fresh<Vec<Stand>>, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let reached = Reached::read(&transaction, shard, indexed).await?;
        let failed = counts(&transaction).await?;
        let mut stopped = all(&transaction, shard).await?;
        let next = next(&transaction, &reached).await?;
        transaction.commit().await?;
        let (processed, timestamp) = reached.furthest_behind();
        let end_of = |class| {
            let known: u64 = ends[class];
            reached.of(history_of(class)).map_or(known, |(sequence, _)| sequence.max(known))
        };
        let ends = OfEach { events: end_of(LogClass::Events), sessions: end_of(LogClass::Sessions) };
        let now = clock::now();
        let mut stand = |projection: &'static Projection| {
            let place = reached.of(projection);
            let (sequence, committed_at) = place.unwrap_or_default();
            let name = (projection.name.to_owned(), projection.version);
            let lag_events = ends[projection.class].saturating_sub(sequence);
            // History tells when the next event was committed, where it has that.
            let since = next.get(projection.name).copied().unwrap_or(committed_at);
            let lag =
                if lag_events == 0 { Duration::ZERO } else { Duration::try_from(now - since).unwrap_or_default() };
            let failed = failed.get(&name).copied().unwrap_or_default();
            let is_there = place.is_some_and(|(_, at)| at > Timestamp::UNIX_EPOCH);
            let stopped = stopped.remove(&name);
            Stand { projection, is_there, sequence, committed_at, failed, stopped, lag_events, lag }
        };
        let answer = PROJECTIONS.iter().map(&mut stand).collect();
        Ok(Fresh { processed, timestamp, parked_at: None, answer })
    };
    database.within(read).await
}

/// How many events projections could not process, by name and version.
async fn counts(client: &impl GenericClient) -> Result<HashMap<(String, i32), u64>, DatabaseFailure> {
    let text = "select projection, version, count(*) from platform.failed_events group by projection, version";
    let statement = client.prepare_cached(text).await?;
    let rows = client.query(&statement, &[]).await?;
    Ok(rows.iter().map(|row| ((row.get(0), row.get(1)), unsigned(row.get(2)))).collect())
}

/// When the event was committed that each projection lacks first, where history has one.
async fn next(
    client: &impl GenericClient,
    reached: &Reached,
) -> Result<HashMap<&'static str, Timestamp>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY.sql(
            "select p.name, e.committed_at from unnest($1::text[], $2::bigint[]) as p (name, sequence) cross join lateral \
             (select committed_at from {schema}.events where sequence > p.sequence order by sequence limit 1) e",
        )
    });
    let places =
        following(LogClass::Events).map(|projection| (projection.name, reached.of(projection).unwrap_or_default().0));
    let (names, sequences): (Vec<&str>, Vec<i64>) = places.map(|(name, sequence)| (name, signed(sequence))).unzip();
    let rows = client.query(&**SELECT, &[&names, &sequences]).await?;
    let known = |name: &str| PROJECTIONS.iter().find(|projection| projection.name == name).map(|known| known.name);
    Ok(rows.iter().filter_map(|row| Some((known(row.get(0))?, row.get(1)))).collect())
}

/// What a view could not process, and that it stands still.
#[derive(Debug, Clone, Default)]
pub struct Trouble {
    /// How many events it could not process.
    pub failed: u64,
    /// When the first of them failed for the first time.
    pub oldest: Option<Timestamp>,
    /// Why and since when it stands still, where it does.
    pub stopped: Option<Stopped>,
}

/// What is not well, by the name of the view, deliveries among them; nothing of others.
///
/// # Errors
/// When Postgres does not answer.
pub async fn troubles(client: &impl GenericClient, shard: u16) -> Result<BTreeMap<String, Trouble>, DatabaseFailure> {
    let text = "select projection, version, count(*), min(first_failed) from platform.failed_events \
                group by projection, version";
    let mut troubles: BTreeMap<String, Trouble> = BTreeMap::new();
    let is_known = |name: &str, version: i32| projection(name).is_some_and(|known| known.version == version);
    for row in client.query(text, &[]).await? {
        let (name, version): (String, i32) = (row.get(0), row.get(1));
        if is_known(&name, version) {
            let trouble = troubles.entry(name).or_default();
            (trouble.failed, trouble.oldest) = (unsigned(row.get(2)), row.get(3));
        }
    }
    let row = client.query_one("select count(*), min(last_failed) from platform.failed_deliveries", &[]).await?;
    let failed = unsigned(row.get(0));
    if failed > 0 {
        troubles.insert(delivery::VIEW.to_owned(), Trouble { failed, oldest: row.get(1), stopped: None });
    }
    for ((name, version), stopped) in all(client, shard).await? {
        if is_known(&name, version) {
            troubles.entry(name).or_default().stopped = Some(stopped);
        }
    }
    Ok(troubles)
}
