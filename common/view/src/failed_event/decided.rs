//! What operators decided about failed events, as history has it.

use std::collections::HashSet;

use base::explain::explain;
use deadpool_postgres::Transaction;
use domain::{
    aggregate::Aggregate,
    catalog::class_of,
    failed_event::{Event, FailedEvent, Filter},
};
use eventlog::record::{AggregateKey, Recorded, Undecodable, decode};
use jiff::Timestamp;

use crate::{
    checkpoint::{signed, unsigned},
    database::{Database, DatabaseFailure, snapshot},
    history::recorded,
    keyring::SYSTEM,
    projection::{HISTORY, OfHistories, Projection, Sql, of_histories},
    read_model::ReadModel,
};

/// What somebody decided, and about which failed events that can be.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The id of the failed event, or of the retry of many.
    pub id: String,
    /// What was decided.
    pub event: Event,
    /// When.
    pub at: Timestamp,
    /// The instance of whose failed events it is, where its administrator decided.
    within: Option<String>,
}

impl Decision {
    /// What an event of the log decides; `None` where it decides nothing.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(recorded: &Recorded) -> Result<Option<Self>, Undecodable> {
        if recorded.event.aggregate_type != FailedEvent::NAME {
            return Ok(None);
        }
        let (id, instance_id) = (recorded.event.aggregate_id.clone(), &recorded.event.instance_id);
        let within = (instance_id != SYSTEM).then(|| instance_id.clone());
        let event = decode::<FailedEvent>(recorded)?;
        Ok(Some(Self { id, event, at: recorded.committed_at, within }))
    }

    /// The sequence of the event of this view that is left out; `None` where it decides something else.
    pub fn left_out(&self, view: &str) -> Option<u64> {
        let Event::Discarded(discarded) = &self.event else { return None };
        let is_within = self.within.as_ref().is_none_or(|id| *id == discarded.instance_id);
        (discarded.view == view && is_within).then_some(discarded.sequence)
    }

    /// What is tried again has to meet all of these; `None` where it decides something else.
    pub fn retried(&self) -> Option<Vec<Filter>> {
        let Event::Retried(retried) = &self.event else { return None };
        let within = self.within.clone().map(Filter::InstanceId);
        Some(retried.filters.iter().cloned().chain(within).collect())
    }
}

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
    static SELECT: Sql = Sql::new(|| HISTORY.sql(&format!("{OF_ALL} and type = $1")));
    let event_type = format!("{}.discarded", FailedEvent::NAME);
    let rows = transaction.query(&**SELECT, &[&event_type]).await?;
    let events = rows.iter().map(recorded).collect::<Result<Vec<_>, _>>()?;
    Ok(events.iter().filter_map(readable).filter_map(|decision| decision.left_out(projection.view)).collect())
}

/// What was decided in all instances, for which there is an index. It names the type in clear, as that does.
const OF_ALL: &str = "select * from {schema}.events where aggregate_type = 'failed_event'";

/// What was decided after a sequence, and up to which one this is. For who follows the other log, which does not have it.
///
/// # Errors
/// When Postgres does not answer.
pub async fn after(database: &Database, sequence: u64) -> Result<(Vec<Decision>, u64), DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| HISTORY.sql(&format!("{OF_ALL} and sequence > $1 order by sequence")));
    let read = async {
        let connection = database.connection().await?;
        let rows = connection.query(&**SELECT, &[&signed(sequence)]).await?;
        Ok(rows.iter().map(recorded).collect::<Result<Vec<_>, _>>()?)
    };
    let events = database.within(read).await?;
    let end = events.last().map_or(sequence, |last| last.sequence);
    Ok((events.iter().filter_map(readable).collect(), end))
}

/// What was decided, where this build can read it.
fn readable(recorded: &Recorded) -> Option<Decision> {
    Decision::of(recorded).unwrap_or_else(|error| {
        tracing::error!(error = explain(&error), "what an operator decided cannot be read");
        None
    })
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

#[cfg(test)]
mod tests {
    use domain::failed_event::{Discarded, Retried};
    use eventlog::record::encode;

    use super::*;

    fn decided(instance_id: &str, event: &Event) -> Decision {
        let (r#type, payload) = encode::<FailedEvent>(event);
        let (instance_id, aggregate_type) = (instance_id.to_owned(), FailedEvent::NAME.to_owned());
        let event = eventlog::record::Event { r#type, payload, instance_id, aggregate_type, ..Default::default() };
        let recorded = Recorded { sequence: 9, committed_at: Timestamp::UNIX_EPOCH, event };
        Decision::of(&recorded).expect("it can be read").expect("it decides something")
    }

    fn discarded(instance_id: &str) -> Event {
        let [view, log, reason] = ["targets", "EVENTS", "known"].map(str::to_owned);
        let [aggregate_type, aggregate_id, target_id] = ["target", "2", ""].map(str::to_owned);
        let instance_id = instance_id.to_owned();
        Event::Discarded(Discarded {
            view,
            log,
            sequence: 7,
            reason,
            instance_id,
            aggregate_type,
            aggregate_id,
            target_id,
            error: String::new(),
            last_failed: 0,
            tries: 1,
        })
    }

    #[test]
    fn who_administrates_an_instance_decides_about_that_alone() {
        assert_eq!(decided(SYSTEM, &discarded("1")).left_out("targets"), Some(7));
        assert_eq!(decided("1", &discarded("1")).left_out("targets"), Some(7));
        assert_eq!(decided("1", &discarded("1")).left_out("users"), None);
        assert_eq!(decided("1", &discarded("2")).left_out("targets"), None);

        let (until, until_of_sessions, of_deliveries) = (9, 9, true);
        let filters = vec![Filter::InstanceId("2".into())];
        let all = Event::Retried(Retried { filters: vec![], until, until_of_sessions, of_deliveries });
        let other = Event::Retried(Retried { filters: filters.clone(), until, until_of_sessions, of_deliveries });
        assert_eq!(decided(SYSTEM, &all).retried(), Some(vec![]));
        assert_eq!(decided("1", &all).retried(), Some(vec![Filter::InstanceId("1".into())]));
        let both = filters.into_iter().chain([Filter::InstanceId("1".into())]).collect();
        assert_eq!(decided("1", &other).retried(), Some(both), "which nothing meets");
    }
}
