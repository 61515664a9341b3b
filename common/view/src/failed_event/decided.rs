//! What operators decided about failed events, as history has it.

use std::collections::HashSet;

use base::explain::explain;
use deadpool_postgres::Transaction;
use domain::{
    aggregate::Aggregate,
    catalog::class_of,
    failed_event::{Event, FailedEvent},
};
use eventlog::record::{AggregateKey, Recorded, decode};

use crate::{
    checkpoint::{signed, unsigned},
    database::{Database, DatabaseFailure, snapshot},
    history::recorded,
    keyring::SYSTEM,
    projection::{HISTORY, OfHistories, Projection, Sql, of_histories},
    read_model::ReadModel,
};

/// The sequences of the events that a projection leaves out; `None` where history has not come as far as a message of the log.
///
/// # Errors
/// When Postgres does not answer.
pub async fn discarded(
    database: &Database,
    (projection, shard): (&Projection, u16),
    stream_sequence: u64,
) -> Result<Option<HashSet<u64>>, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let history = ReadModel::new(&HISTORY, shard).checkpoint(&transaction).await?;
        let reached = history.map(|history| history.position.stream_sequence).unwrap_or_default();
        if reached < stream_sequence {
            return Ok(None);
        }
        let found = all_discarded(&transaction, projection).await?;
        transaction.commit().await?;
        Ok(Some(found))
    };
    database.within(read).await
}

/// The same of all that history has.
///
/// # Errors
/// When Postgres does not answer.
pub async fn all_discarded(
    transaction: &Transaction<'_>,
    projection: &Projection,
) -> Result<HashSet<u64>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY.sql("select * from {schema}.events where instance_id = $1 and aggregate_type = $2 and type = $3")
    });
    let event_type = format!("{}.discarded", FailedEvent::NAME);
    let rows = transaction.query(&**SELECT, &[&SYSTEM, &FailedEvent::NAME, &event_type]).await?;
    let events = rows.iter().map(recorded).collect::<Result<Vec<_>, _>>()?;
    Ok(events.iter().filter_map(|event| left_out(event, projection)).collect())
}

/// What was decided after a sequence, and up to which one this is. For who follows the other log, which does not have it.
///
/// # Errors
/// When Postgres does not answer.
pub async fn after(database: &Database, sequence: u64) -> Result<(Vec<Event>, u64), DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY.sql(
            "select * from {schema}.events where instance_id = $1 and aggregate_type = $2 and sequence > $3 \
             order by sequence",
        )
    });
    let read = async {
        let connection = database.connection().await?;
        let rows = connection.query(&**SELECT, &[&SYSTEM, &FailedEvent::NAME, &signed(sequence)]).await?;
        Ok(rows.iter().map(recorded).collect::<Result<Vec<_>, _>>()?)
    };
    let events = database.within(read).await?;
    let end = events.last().map_or(sequence, |last| last.sequence);
    Ok((events.iter().filter_map(readable).collect(), end))
}

/// What was decided, where this build can read it.
fn readable(recorded: &Recorded) -> Option<Event> {
    let read = decode::<FailedEvent>(recorded);
    read.inspect_err(|error| tracing::error!(error = explain(error), "what an operator decided cannot be read")).ok()
}

fn left_out(recorded: &Recorded, projection: &Projection) -> Option<u64> {
    match readable(recorded)? {
        Event::Discarded(discarded) => (discarded.view == projection.view).then_some(discarded.sequence),
        Event::Retried(_) => None,
    }
}

/// An event of an aggregate, and how many come after it.
///
/// # Errors
/// When Postgres does not answer.
pub async fn with_followers(
    database: &Database,
    key: &AggregateKey,
    sequence: u64,
) -> Result<(Option<Recorded>, u64), DatabaseFailure> {
    static EVENT: OfHistories =
        OfHistories::new(|| of_histories(&format!("select * from {{schema}}.events {OF_AGGREGATE} = $4")));
    static AFTER: OfHistories =
        OfHistories::new(|| of_histories(&format!("select count(*) from {{schema}}.events {OF_AGGREGATE} > $4")));
    const OF_AGGREGATE: &str = "where instance_id = $1 and aggregate_type = $2 and aggregate_id = $3 and sequence";
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let (AggregateKey { instance_id, aggregate_type, id }, sequence) = (key, signed(sequence));
        let class = class_of(aggregate_type);
        let found = transaction.query_opt(&EVENT[class], &[instance_id, aggregate_type, id, &sequence]).await?;
        let after = transaction.query_one(&AFTER[class], &[instance_id, aggregate_type, id, &sequence]).await?;
        transaction.commit().await?;
        Ok((found.as_ref().map(recorded).transpose()?, unsigned(after.get(0))))
    };
    database.within(read).await
}
