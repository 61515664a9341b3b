//! Decisions about failed events, as history has them.

use std::{borrow::Cow, collections::HashSet};

use base::explain::explain;
use deadpool_postgres::Transaction;
use domain::{
    aggregate::Aggregate,
    catalog::class_of,
    failed_event::{Event, FailedEvent, Filter},
};
use eventlog::record::{AggregateKey, Recorded, Undecodable, decode};
use jiff::Timestamp;
use serde::Deserialize;
use tokio_postgres::Row;

use super::admits;
use crate::{
    checkpoint::{signed, unsigned},
    database::{Database, DatabaseFailure, snapshot},
    history::recorded,
    keyring::SYSTEM,
    projection::{HISTORY, OfHistories, Projection, Sql, of_histories},
    read_model::ReadModel,
};

/// A decision about failed events, and which of them it can be about.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The id of the failed event, or of the retry of many.
    pub id: String,
    /// What was decided.
    pub event: Event,
    /// Who decided it: the id of a user, or the name of a system user.
    pub by: String,
    /// When it was decided.
    pub at: Timestamp,
    /// The instance to whose failed events it is limited, where an administrator of that instance decided.
    pub(super) within: Option<String>,
}

impl Decision {
    /// Returns the decision that an event of the log is; `None` where it decides nothing or is damaged.
    ///
    /// # Errors
    /// When a newer build wrote it.
    pub fn of(recorded: &Recorded) -> Result<Option<Self>, Undecodable> {
        if recorded.event.aggregate_type != FailedEvent::NAME {
            return Ok(None);
        }
        let (id, instance_id) = (recorded.event.aggregate_id.clone(), &recorded.event.instance_id);
        let within = (instance_id != SYSTEM).then(|| instance_id.clone());
        let (by, at) = (recorded.event.actor.clone(), recorded.committed_at);
        match decode::<FailedEvent>(recorded) {
            Ok(event) => Ok(Some(Self { id, event, by, at, within })),
            Err(failure) if failure.is_newer() => Err(failure),
            Err(failure) => {
                tracing::error!(error = explain(&failure), "a decision about a failed event cannot be read");
                Ok(None)
            }
        }
    }

    /// The sequence of the event that it leaves out of this view; `None` where it decides something else.
    pub fn left_out(&self, view: &str) -> Option<u64> {
        let Event::Discarded(discarded) = &self.event else { return None };
        let may = self.within.as_ref().is_none_or(|id| *id == discarded.instance_id && !admits(view));
        (discarded.view == view && may).then_some(discarded.sequence)
    }

    /// The filters that a failed event has to match to be tried again, all of them; `None` for other decisions.
    pub fn retried(&self) -> Option<Vec<Filter>> {
        let Event::Retried(retried) = &self.event else { return None };
        // The instance comes first, so that nothing else is compared for events of other instances.
        let within = self.within.clone().map(Filter::InstanceId);
        Some(within.into_iter().chain(retried.filters.iter().chain(&retried.further).cloned()).collect())
    }
}

/// Returns the sequences of the events that a projection leaves out; `None` if history lags this message of the log.
///
/// # Errors
/// When Postgres does not answer.
pub async fn discarded(
    database: &Database,
    projection: &Projection,
    shard: u16,
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

/// Returns the sequences of the events that a projection leaves out, as far as history is.
///
/// # Errors
/// When Postgres does not answer.
pub async fn all_discarded(
    transaction: &Transaction<'_>,
    projection: &Projection,
) -> Result<HashSet<u64>, DatabaseFailure> {
    // Only rows that name the view are read: there may be many of other views. Postgres does not parse the payload,
    // since one that is damaged would make all of them unreadable.
    static SELECT: Sql = Sql::new(|| {
        let condition = "type = 'failed_event.discarded' and position($1::bytea in payload) > 0";
        HISTORY.sql(&of_all("instance_id, payload", condition))
    });
    let view = serde_json::Value::from(projection.view).to_string();
    let rows = transaction.query(&**SELECT, &[&view.as_bytes()]).await?;
    let left_out = |row: &Row| left_out(projection.view, row.get("instance_id"), row.get("payload"));
    Ok(rows.iter().filter_map(left_out).collect())
}

/// The sequence of the event of a view that a payload leaves out, if it can be read, whatever its revision.
fn left_out(view: &str, decided_in: &str, payload: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct LeftOut<'a> {
        #[serde(borrow)]
        view: Cow<'a, str>,
        #[serde(borrow)]
        instance_id: Cow<'a, str>,
        sequence: u64,
    }
    let found: LeftOut = match serde_json::from_slice(payload) {
        Ok(found) => found,
        Err(error) => {
            let (kind, column) = (error.classify(), error.column());
            tracing::error!(view, decided_in, ?kind, column, "a decision to discard cannot be read and is ignored");
            return None;
        }
    };
    let may = decided_in == SYSTEM || found.instance_id == decided_in && !admits(view);
    (found.view == view && may).then_some(found.sequence)
}

/// A statement for these columns of all decisions that meet a condition. It finds each instance by the primary key.
pub(super) fn of_all(columns: &str, condition: &str) -> String {
    let all = "(select instance_id from {schema}.events order by instance_id limit 1) union all \
               select (select e.instance_id from {schema}.events e where e.instance_id > instances.id \
               order by e.instance_id limit 1) from instances where instances.id is not null";
    of(all, columns, condition)
}

/// A statement for these columns of the decisions that meet a condition, in the instances that another statement finds.
pub(super) fn of(instances: &str, columns: &str, condition: &str) -> String {
    format!(
        "with recursive instances (id) as ({instances}) select f.* from instances cross join lateral (select {columns} from {{schema}}.events \
         where instance_id = instances.id and aggregate_type = 'failed_event' and {condition} offset 0) as f"
    )
}

/// How many decisions are read at once.
const AT_ONCE: i64 = 1000;

/// Returns the next decisions after a sequence and how far they go, for followers of the other log, which has none.
///
/// # Errors
/// When Postgres does not answer.
pub async fn after(database: &Database, sequence: u64) -> Result<(Vec<Decision>, u64), DatabaseFailure> {
    static SELECT: Sql =
        Sql::new(|| HISTORY.sql(&format!("{} order by sequence limit $2", of_all("*", "sequence > $1"))));
    let read = async {
        let connection = database.connection().await?;
        let rows = connection.query(&**SELECT, &[&signed(sequence), &AT_ONCE]).await?;
        Ok(rows.iter().map(recorded).collect::<Result<Vec<_>, _>>()?)
    };
    let events = database.within(read).await?;
    let end = events.last().map_or(sequence, |last| last.sequence);
    Ok((events.iter().filter_map(readable_decision).collect(), end))
}

/// The decision that an event is, if this build can read it.
fn readable_decision(recorded: &Recorded) -> Option<Decision> {
    Decision::of(recorded).unwrap_or_else(|newer| {
        tracing::error!(error = explain(&newer), "a decision about a failed event cannot be read");
        None
    })
}

const OF_AGGREGATE: &str = "where instance_id = $1 and aggregate_type = $2 and aggregate_id = $3 and sequence";
static EVENT: OfHistories =
    OfHistories::new(|| of_histories(&format!("select * from {{schema}}.events {OF_AGGREGATE} = $4")));

/// An event of an aggregate.
///
/// # Errors
/// When Postgres does not answer.
pub async fn event(
    database: &Database,
    key: &AggregateKey,
    sequence: u64,
) -> Result<Option<Recorded>, DatabaseFailure> {
    let read = async {
        let connection = database.connection().await?;
        let AggregateKey { instance_id, aggregate_type, id } = key;
        let statement = connection.prepare_cached(&EVENT[class_of(aggregate_type)]).await?;
        let sequence = signed(sequence);
        let found = connection.query_opt(&statement, &[instance_id, aggregate_type, id, &sequence]).await?;
        Ok(found.as_ref().map(recorded).transpose()?)
    };
    database.within(read).await
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
    static AFTER: OfHistories =
        OfHistories::new(|| of_histories(&format!("select count(*) from {{schema}}.events {OF_AGGREGATE} > $4")));
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
    use std::slice::from_ref;

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
            first_failed: None,
            last_failed: 0,
            tries: 1,
        })
    }

    #[test]
    fn what_was_discarded_and_cannot_be_read_is_not_left_out() {
        let payload = |instance_id| encode::<FailedEvent>(&discarded(instance_id)).1;
        assert_eq!(left_out("targets", SYSTEM, &payload("1")), Some(7));
        assert_eq!(left_out("targets", "1", &payload("1")), Some(7));
        assert_eq!(left_out("targets", "2", &payload("1")), None);
        assert_eq!(left_out("users", SYSTEM, &payload("1")), None);
        let admitting = br#"{"view":"access","instance_id":"1","sequence":7}"#;
        assert_eq!([left_out("access", SYSTEM, admitting), left_out("access", "1", admitting)], [Some(7), None]);
        let of_newer = br#"{"view":"targets","instance_id":"1","sequence":7,"of_the_next_version":{}}"#;
        assert_eq!(left_out("targets", SYSTEM, of_newer), Some(7));
        for damaged in [&b"{"[..], b"", b"\"targets\"", b"{\"view\":\"targets\"}", b"\xff\0\"targets\""] {
            assert_eq!(left_out("targets", SYSTEM, damaged), None);
        }
    }

    #[test]
    fn who_administrates_an_instance_decides_about_that_alone() {
        assert_eq!(decided(SYSTEM, &discarded("1")).left_out("targets"), Some(7));
        assert_eq!(decided("1", &discarded("1")).left_out("targets"), Some(7));
        assert_eq!(decided("1", &discarded("1")).left_out("users"), None);
        assert_eq!(decided("1", &discarded("2")).left_out("targets"), None);

        let of = |filters: &[Filter]| Event::Retried(Retried { until: 9, ..Retried::of(filters.to_vec()) });
        let [own, other] = ["1", "2"].map(|id| Filter::InstanceId(id.to_owned()));
        let error = Filter::Error("x".into());
        assert_eq!(decided(SYSTEM, &of(&[])).retried(), Some(vec![]));
        assert_eq!(decided("1", &of(from_ref(&error))).retried(), Some(vec![own.clone(), error]));
        assert_eq!(decided("1", &of(from_ref(&other))).retried(), Some(vec![own, other]), "which nothing meets");
    }
}
