//! The reads and repairs of the scrubber, which finds what Postgres has and the log does not say.
//!
//! A row follows from the events of one aggregate, which history has; history follows from the log. So events are
//! checked against the log, and rows against the events. A read takes no lock that workers wait for. A repair holds the
//! checkpoint of its projection for a moment, looks once more, and changes only what still deviates.

mod events;
mod note;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use deadpool_postgres::Transaction;
use domain::{column::Value, log_class::LogClass};
use eventlog::record::{AggregateKey, Recorded};
use jiff::Timestamp;
use serde_json::Value as Json;

pub use self::{
    events::{Wrong, deviating_events, rewrite},
    note::{Scrub, note_checked, scrubs},
};
use crate::{
    checkpoint::{Checkpoint, signed},
    database::{Database, DatabaseFailure, snapshot},
    failed_event::{Parking, decided::all_discarded},
    history::{
        columns,
        newest::{NewestEvents, newest},
    },
    projection::{OfHistories, PROJECTIONS, Projection, history_of, of_histories},
    read_model::{KnownKey, ReadModel},
    table::{Change, Row, Table, aged::forgotten_before},
};

/// How many keys of a table are read at once.
const KEYS: u32 = 1000;
/// How long a repair waits for a worker that moves the checkpoint, and what it may take itself, in milliseconds.
const LIMITS: &str = "set local lock_timeout = 1000; set local statement_timeout = 4000";

/// A table of a projection.
#[derive(Clone, Copy)]
pub struct Place {
    /// The projection.
    pub projection: &'static Projection,
    /// One of its tables.
    pub table: &'static Table,
}

/// A row that is not what the log says, or is missing, or should not be there.
#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    /// What the row should be.
    pub change: Change,
    /// The sequence up to which the events of the aggregate were considered.
    pub known: u64,
    /// The sequence of the last event in the row that is there.
    pub found: Option<u64>,
}

/// The sequences of the events that operators discarded in a projection.
#[derive(Debug, PartialEq, Eq)]
pub struct Discarded(HashSet<u64>);

/// What one table has of some aggregates, and the events that it should follow from, all from one snapshot.
pub struct Page {
    /// The table.
    pub place: Place,
    /// How far history is.
    history: u64,
    /// How far the projection is.
    at: Checkpoint,
    aggregates: Vec<CheckedAggregate>,
}

/// An aggregate with its row.
struct CheckedAggregate {
    key: AggregateKey,
    past: NewestEvents,
    row: Option<Row>,
}

/// Every table whose rows follow from events of a log.
pub fn places(class: LogClass) -> impl Iterator<Item = Place> {
    let of_log = PROJECTIONS.iter().filter(move |projection| projection.class == class);
    of_log.flat_map(|projection| projection.row_tables().iter().map(move |table| Place { projection, table }))
}

/// Returns what each table has of some aggregates of a log.
///
/// # Errors
/// When Postgres does not answer.
pub async fn pages(
    database: &Database,
    shard: u16,
    class: LogClass,
    keys: &[AggregateKey],
) -> Result<Vec<Page>, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let history = Checkpoint::read(&transaction, history_of(class), shard).await?;
        let Some(history) = history else { return Ok(vec![]) };
        let events = newest(&transaction, class, keys).await?;
        let mut pages = vec![];
        for place in places(class) {
            let of_table = keys.iter().filter(|key| key.aggregate_type == place.table.aggregate_type);
            let of_table: Vec<&AggregateKey> = of_table.collect();
            if let Some(at) = place.checkpoint(&transaction, shard).await?
                && !of_table.is_empty()
            {
                let rows = place.rows(&transaction, shard, &of_table).await?;
                let parked = place.parked(&transaction, shard).await?;
                let history = history.position.sequence;
                let mut page = Page { place, history, at, aggregates: vec![] };
                page.fill(of_table.into_iter().filter(|key| !parked.contains(key)), &events, rows);
                pages.push(page);
            }
        }
        transaction.commit().await?;
        Ok(pages)
    };
    database.within(read).await
}

impl Place {
    async fn checkpoint(self, client: &Transaction<'_>, shard: u16) -> Result<Option<Checkpoint>, DatabaseFailure> {
        Checkpoint::read(client, self.projection, shard).await
    }

    async fn rows(
        self,
        client: &Transaction<'_>,
        shard: u16,
        keys: &[&AggregateKey],
    ) -> Result<HashMap<AggregateKey, Row>, DatabaseFailure> {
        ReadModel::new(self.projection, shard).rows(client, self.table, keys).await
    }

    /// The aggregates whose rows lack events that failed.
    async fn parked(self, client: &Transaction<'_>, shard: u16) -> Result<HashSet<AggregateKey>, DatabaseFailure> {
        let Some(parking) = Parking::of(self.projection, shard) else { return Ok(HashSet::new()) };
        Ok(parking.parked(client).await?.into_iter().map(|parked| parked.key).collect())
    }
}

impl Page {
    fn fill<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a AggregateKey>,
        events: &HashMap<AggregateKey, NewestEvents>,
        mut rows: HashMap<AggregateKey, Row>,
    ) {
        for key in keys {
            let past = events.get(key).map(|past| past.until(self.at.position.sequence)).unwrap_or_default();
            self.aggregates.push(CheckedAggregate { key: key.clone(), past, row: rows.remove(key) });
        }
    }

    /// How many aggregates it is about.
    pub fn len(&self) -> u64 {
        self.aggregates.len() as u64
    }

    /// Whether it is about none.
    pub fn is_empty(&self) -> bool {
        self.aggregates.is_empty()
    }

    /// The events that its rows follow from, without those that operators discarded.
    pub fn events(&self, discarded: &Discarded) -> Vec<Arc<Recorded>> {
        let events = self.aggregates.iter().flat_map(|known| &known.past.events);
        events.filter(|recorded| !discarded.0.contains(&recorded.sequence)).cloned().collect()
    }

    /// Returns the rows that are not what these events were folded to.
    pub fn deviations(&self, folded: Vec<Change>) -> Vec<Deviation> {
        let mut folded: HashMap<AggregateKey, Option<Row>> =
            folded.into_iter().map(|change| (self.key_of(&change), change.row)).collect();
        let known = self.history.min(self.at.position.sequence);
        let deviations = self.aggregates.iter().filter_map(|aggregate| {
            let expected = match folded.remove(&aggregate.key) {
                Some(expected) => expected,
                None if aggregate.past.are_all => None,
                // Events that would say it were not read.
                None => return None,
            };
            let is_over = expected.as_ref().is_some_and(|row| self.has_ended(row));
            let is_other = !is_same(expected.as_ref(), aggregate.row.as_ref());
            let is_wrong = is_other && !is_over && !self.may_be_newer(aggregate.row.as_ref());
            let AggregateKey { instance_id, id, .. } = aggregate.key.clone();
            let found = aggregate.row.as_ref().map(|row| row.sequence);
            is_wrong.then_some(Deviation { change: Change { instance_id, id, row: expected }, known, found })
        });
        deviations.collect()
    }

    fn key_of(&self, change: &Change) -> AggregateKey {
        self.place.key_of(change)
    }

    /// Whether the row may follow from an event that history lacks. No row is ahead of its own checkpoint.
    fn may_be_newer(&self, row: Option<&Row>) -> bool {
        let at = self.at.position.sequence;
        match row {
            Some(row) => row.sequence > self.history && row.sequence <= at,
            None => at > self.history,
        }
    }

    /// Whether a row may be deleted already, since its resource has ended by itself.
    fn has_ended(&self, row: &Row) -> bool {
        let Some(ends_at) = (self.place.table.ends_at)() else { return false };
        let columns = (self.place.table.columns)();
        let value = columns.iter().zip(&row.values).find(|(column, _)| column.name == ends_at.name);
        let before = forgotten_before(Timestamp::UNIX_EPOCH, self.at.committed_at);
        matches!((value, before), (Some((_, Value::Integer(end))), Some(before)) if *end < before)
    }
}

impl NewestEvents {
    /// Those up to a sequence.
    fn until(&self, sequence: u64) -> Self {
        let events = self.events.iter().filter(|recorded| recorded.sequence <= sequence);
        Self { events: events.cloned().collect(), are_all: self.are_all }
    }
}

impl Place {
    /// The aggregate of a row.
    pub fn key_of(self, Change { instance_id, id, .. }: &Change) -> AggregateKey {
        let aggregate_type = self.table.aggregate_type.to_owned();
        AggregateKey { instance_id: instance_id.clone(), aggregate_type, id: id.clone() }
    }

    /// Names a row for people.
    fn name(self, Change { instance_id, id, .. }: &Change) -> String {
        format!("{} {id} of instance {instance_id}", (self.table.name)())
    }
}

/// Whether two rows say the same. The order of members in the state may be another one.
fn is_same(one: Option<&Row>, other: Option<&Row>) -> bool {
    let (one, other) = match (one, other) {
        (None, None) => return true,
        (Some(one), Some(other)) => (one, other),
        _ => return false,
    };
    let state = |row: &Row| serde_json::from_str::<Json>(&row.state).ok();
    one.state == other.state && one == other || {
        let with_state = Row { state: other.state.clone(), ..one.clone() };
        with_state == *other && state(one) == state(other)
    }
}

/// A page of the rows of a table.
pub struct Rows {
    /// The key of its last row; `None` at the end of the table.
    pub last: Option<AggregateKey>,
    /// How many rows it has.
    pub count: u64,
    /// The rows of which the log knows nothing.
    pub unknown: Vec<Deviation>,
}

/// Returns a page of the rows of a table after a key: those that no event of the log explains are found only here.
///
/// # Errors
/// When Postgres does not answer.
pub async fn rows_after(
    database: &Database,
    shard: u16,
    place: Place,
    last: &AggregateKey,
) -> Result<Rows, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let history = Checkpoint::read(&transaction, history_of(place.projection.class), shard).await?;
        let history = history.map(|history| history.position.sequence).unwrap_or_default();
        let at = place.checkpoint(&transaction, shard).await?;
        let at = at.map(|at| at.position.sequence).unwrap_or_default();
        let read_model = ReadModel::new(place.projection, shard);
        let found = read_model.keys_after(&transaction, place.table, last, KEYS).await?;
        transaction.commit().await?;
        // History may have forgotten an aggregate that ended long ago, where the rows lag.
        let may_forget = (place.table.ends_at)().is_some() && at < history;
        let may_be_newer = |row: &KnownKey| row.sequence > history && row.sequence <= at;
        let unknown = found.iter().filter(|row| !row.is_known && !may_be_newer(row) && !may_forget);
        let known = history.min(at);
        let gone = |KnownKey { key: AggregateKey { instance_id, id, .. }, sequence, .. }: &KnownKey| Deviation {
            change: Change { instance_id: instance_id.clone(), id: id.clone(), row: None },
            known,
            found: Some(*sequence),
        };
        Ok(Rows {
            last: found.last().map(|row| row.key.clone()),
            count: found.len() as u64,
            unknown: unknown.map(gone).collect(),
        })
    };
    database.within(read).await
}

/// Returns the events that operators discarded in a projection.
///
/// # Errors
/// When Postgres does not answer.
pub async fn discarded(database: &Database, projection: &Projection) -> Result<Discarded, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        Ok(Discarded(all_discarded(&transaction, projection).await?))
    };
    database.within(read).await
}

/// Repairs the rows of a table that still deviate, and returns their names. What has changed since it was read, or may
/// have, is left to the next round.
///
/// # Errors
/// When Postgres does not answer, or refuses a row.
pub async fn repair(
    database: &Database,
    shard: u16,
    place: Place,
    discarded: &Discarded,
    deviations: &[Deviation],
) -> Result<Vec<String>, DatabaseFailure> {
    let repaired = async {
        let mut connection = database.connection().await?;
        let transaction = connection.transaction().await?;
        transaction.batch_execute(LIMITS).await?;
        let Some(at) = Checkpoint::hold(&transaction, place.projection, shard).await? else { return Ok(vec![]) };
        let history = Checkpoint::read(&transaction, history_of(place.projection.class), shard).await?;
        let is_behind = history.is_none_or(|history| history.position.sequence < at.position.sequence);
        if is_behind || all_discarded(&transaction, place.projection).await? != discarded.0 {
            return Ok(vec![]);
        }
        let still = still_deviating(&transaction, shard, place, deviations).await?;
        if still.is_empty() {
            return Ok(vec![]);
        }
        let changes: Vec<Change> = still.into_iter().map(|deviation| deviation.change.clone()).collect();
        ReadModel::new(place.projection, shard).apply(&transaction, place.table, &changes).await?;
        let names: Vec<String> = changes.iter().map(|change| place.name(change)).collect();
        note::note_repaired(&transaction, shard, place.projection, &names).await?;
        transaction.commit().await?;
        Ok(names)
    };
    database.within(repaired).await
}

/// The deviations whose aggregates have not changed since, and are not parked.
async fn still_deviating<'a>(
    transaction: &Transaction<'_>,
    shard: u16,
    place: Place,
    deviations: &'a [Deviation],
) -> Result<Vec<&'a Deviation>, DatabaseFailure> {
    let keys: Vec<AggregateKey> = deviations.iter().map(|deviation| place.key_of(&deviation.change)).collect();
    let changed = changed_since(transaction, place.projection.class, deviations, &keys).await?;
    let parked = place.parked(transaction, shard).await?;
    let rows = place.rows(transaction, shard, &keys.iter().collect::<Vec<_>>()).await?;
    let is_still = |(deviation, key): &(&Deviation, &AggregateKey)| {
        let is_settled = !changed.contains(*key) && !parked.contains(*key);
        is_settled && !is_same(deviation.change.row.as_ref(), rows.get(*key))
    };
    Ok(deviations.iter().zip(&keys).filter(is_still).map(|(deviation, _)| deviation).collect())
}

/// The aggregates that have events that were not considered.
async fn changed_since(
    transaction: &Transaction<'_>,
    class: LogClass,
    deviations: &[Deviation],
    keys: &[AggregateKey],
) -> Result<HashSet<AggregateKey>, DatabaseFailure> {
    static SELECT: OfHistories = OfHistories::new(|| {
        of_histories(
            "select i, t, a from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as k (i, t, a, s) where exists \
             (select from {schema}.events where instance_id = i and aggregate_type = t and aggregate_id = a \
             and sequence > s)",
        )
    });
    let (instances, types, ids) = columns(keys);
    let known: Vec<i64> = deviations.iter().map(|deviation| signed(deviation.known)).collect();
    let statement = transaction.prepare_cached(&SELECT[class]).await?;
    let rows = transaction.query(&statement, &[&instances, &types, &ids, &known]).await?;
    let key = |row: &tokio_postgres::Row| AggregateKey {
        instance_id: row.get(0),
        aggregate_type: row.get(1),
        id: row.get(2),
    };
    Ok(rows.iter().map(key).collect())
}
