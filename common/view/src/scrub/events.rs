//! Events in history, checked against the log.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use base::clock;
use deadpool_postgres::Transaction;
use domain::log_class::LogClass;
use eventlog::record::{AggregateKey, Event, Record, Recorded};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::types::ToSql;

use super::{LIMIT, LIMITS, note::note_repaired};
use crate::{
    checkpoint::{Checkpoint, signed, unsigned},
    database::{Database, DatabaseFailure, begin, limited},
    history::{SESSIONS_KEPT, columns, copy_events, recorded},
    projection::{OfHistories, history_of, of_histories},
};

/// How much longer than this events of `SESSIONS` are left to be forgotten, unchecked.
const MARGIN: SignedDuration = SignedDuration::from_hours(1);

/// What history has of some records of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// History does not have all of them yet.
    Lagging,
    /// The sequences of events that history lacks, has differently, or has though the log does not.
    Events(BTreeSet<u64>),
}

/// Returns what is wrong in history about records that follow one another in a log.
///
/// # Errors
/// When Postgres does not answer.
pub async fn deviating_events(
    database: &Database,
    shard: u16,
    class: LogClass,
    records: &[Arc<Record>],
) -> Result<Wrong, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = begin(&mut connection).await?;
        limited(&transaction, Some(LIMIT)).await?;
        let history = Checkpoint::read(&transaction, history_of(class), shard).await?;
        compare(&transaction, class, history, records).await
    };
    database.within(read).await
}

/// Writes events again that history still has wrong, and returns their names.
///
/// # Errors
/// When Postgres does not answer.
pub async fn rewrite(
    database: &Database,
    shard: u16,
    class: LogClass,
    records: &[Arc<Record>],
) -> Result<Vec<String>, DatabaseFailure> {
    let history = history_of(class);
    let repaired = async {
        let mut connection = database.connection().await?;
        let transaction = connection.transaction().await?;
        transaction.batch_execute(LIMITS).await?;
        let held = Checkpoint::hold(&transaction, history, shard).await?;
        let Wrong::Events(wrong) = compare(&transaction, class, held, records).await? else { return Ok(vec![]) };
        if wrong.is_empty() {
            return Ok(vec![]);
        }
        let sequences: Vec<i64> = wrong.iter().copied().map(signed).collect();
        let events = records.iter().flat_map(|record| &record.events);
        let right: Vec<_> = events.filter(|recorded| wrong.contains(&recorded.sequence)).cloned().collect();
        let keys: Vec<AggregateKey> = right.iter().map(|recorded| recorded.key()).collect();
        let (instances, types, ids) = columns(&keys);
        let versions: Vec<i64> = right.iter().map(|recorded| signed(recorded.event.version)).collect();
        let delete = history.sql("delete from {schema}.events where sequence = any($1)");
        transaction.execute(&delete, &[&sequences]).await?;
        // Others may be at their places.
        let delete = history.sql(
            "delete from {schema}.events e using unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as k (i, t, a, v) \
             where e.instance_id = i and e.aggregate_type = t and e.aggregate_id = a and e.version = v",
        );
        transaction.execute(&delete, &[&instances, &types, &ids, &versions]).await?;
        copy_events(&transaction, history, &right).await?;
        let names: Vec<String> = wrong.iter().map(|sequence| format!("event {sequence}")).collect();
        note_repaired(&transaction, shard, history, &names).await?;
        transaction.commit().await?;
        Ok(names)
    };
    database.within(repaired).await
}

/// Deletes events whose sequences no log can have, or which are before the first event that the log has or after the
/// last one that history has read, and returns their names.
///
/// # Errors
/// When Postgres does not answer.
pub async fn delete_strangers(
    database: &Database,
    shard: u16,
    class: LogClass,
    first: u64,
) -> Result<Vec<String>, DatabaseFailure> {
    let history = history_of(class);
    let deleted = async {
        let mut connection = database.connection().await?;
        let transaction = connection.transaction().await?;
        transaction.batch_execute(LIMITS).await?;
        let held = Checkpoint::hold(&transaction, history, shard).await?;
        // At the beginning its tables may be about to be emptied.
        let Some(held) = held.filter(|held| held.position.sequence > 0) else { return Ok(vec![]) };
        // What was purged from the log has aged out, and is forgotten with the next record.
        let delete = history.sql(
            "delete from {schema}.events where sequence <= 0 or sequence > $1 or sequence < $2 and committed_at >= $3 \
             returning sequence",
        );
        let kept_since = clock::now() - SESSIONS_KEPT + MARGIN;
        let parameters: [&(dyn ToSql + Sync); 3] = [&signed(held.position.sequence), &signed(first), &kept_since];
        let deleted = transaction.query(&delete, &parameters).await?;
        let names: Vec<String> = deleted.iter().map(|row| format!("event {}", row.get::<_, i64>(0))).collect();
        if !names.is_empty() {
            note_repaired(&transaction, shard, history, &names).await?;
            transaction.commit().await?;
        }
        Ok(names)
    };
    database.within(deleted).await
}

async fn compare(
    transaction: &Transaction<'_>,
    class: LogClass,
    history: Option<Checkpoint>,
    records: &[Arc<Record>],
) -> Result<Wrong, DatabaseFailure> {
    static SELECT: OfHistories =
        OfHistories::new(|| of_histories("select * from {schema}.events where sequence between $1 and $2"));
    let (Some(first), Some(last), Some(history)) = (records.first(), records.last(), history) else {
        return Ok(Wrong::Lagging);
    };
    let (from, to) = (first.before().sequence + 1, last.position().sequence);
    if history.position.sequence < to {
        return Ok(Wrong::Lagging);
    }
    let statement = transaction.prepare_cached(&SELECT[class]).await?;
    let rows = transaction.query(&statement, &[&signed(from), &signed(to)]).await?;
    let mut found: BTreeMap<u64, Vec<Option<Recorded>>> = BTreeMap::new();
    for row in &rows {
        // What cannot be read, such as a time `infinity`, is wrong.
        found.entry(unsigned(row.get("sequence"))).or_default().push(recorded(row).ok());
    }
    let kept_since = match class {
        LogClass::Events => Timestamp::MIN,
        LogClass::Sessions => history.committed_at - SESSIONS_KEPT + MARGIN,
    };
    let mut wrong = BTreeSet::new();
    for expected in records.iter().flat_map(|record| &record.events) {
        let stored = found.remove(&expected.sequence).unwrap_or_default();
        let is_right = matches!(stored.as_slice(), [Some(one)] if is_same(one, expected));
        if !is_right && expected.committed_at >= kept_since {
            wrong.insert(expected.sequence);
        }
    }
    // What is left is of no event of the log.
    wrong.extend(found.into_keys());
    Ok(Wrong::Events(wrong))
}

/// Whether history has all that it stores of an event.
fn is_same(stored: &Recorded, expected: &Recorded) -> bool {
    let created_at = expected.created_at().as_microsecond();
    let Event { id, instance_id, owner_type, owner_id, aggregate_type, aggregate_id, .. } = expected.event.clone();
    let Event { version, r#type, revision, payload, restores, actor, .. } = expected.event.clone();
    let of_context = Event { id, instance_id, owner_type, owner_id, aggregate_type, aggregate_id, ..Event::default() };
    let event = Event { version, r#type, revision, payload, restores, actor, created_at, ..of_context };
    stored.committed_at == expected.committed_at && stored.event == event
}
