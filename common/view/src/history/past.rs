//! Questions to history about the past, which are asked once it has come far enough.

use std::{collections::HashSet, sync::Arc, time::Duration};

use deadpool_postgres::{Client, Transaction};
use domain::log_class::LogClass;
use eventlog::record::{AggregateKey, Recorded};
use tokio::time::sleep;

use super::{aggregate_key, columns, recorded, waiting::waiting};
use crate::{
    checkpoint::Checkpoint,
    database::{Database, DatabaseFailure, snapshot},
    projection::{HISTORY, Sql, history_of},
};

/// How often it is checked how far history is.
const BREATH: Duration = Duration::from_millis(50);

/// A question to history.
pub trait Question: Sync {
    /// The type of the answer.
    type Answer: Send;

    /// Asks history.
    fn query(&self, history: &Transaction<'_>) -> impl Future<Output = Result<Self::Answer, DatabaseFailure>> + Send;
}

/// Waits until history has reached a sequence of `EVENTS`, then asks a question, which is answered from one snapshot.
pub async fn ask_at<Q: Question>(
    database: &Database,
    shard: u16,
    sequence: u64,
    question: Q,
) -> Result<Q::Answer, DatabaseFailure> {
    loop {
        let attempt = async {
            let mut connection = database.connection().await?;
            let Some(history) = snapshot_at(&mut connection, LogClass::Events, shard, sequence).await? else {
                return Ok(None);
            };
            question.query(&history).await.map(Some)
        };
        if let Some(answer) = database.within(attempt).await? {
            return Ok(answer);
        }
        sleep(BREATH).await;
    }
}

/// Begins a snapshot of history if that of a log has reached a sequence; `None` before that.
async fn snapshot_at(
    connection: &mut Client,
    class: LogClass,
    shard: u16,
    sequence: u64,
) -> Result<Option<Transaction<'_>>, DatabaseFailure> {
    let (transaction, reached) = snapshot_now(connection, class, shard).await?;
    Ok((reached >= sequence).then_some(transaction))
}

/// Begins a snapshot of history, and returns the sequence of a log that it has reached.
pub async fn snapshot_now(
    connection: &mut Client,
    class: LogClass,
    shard: u16,
) -> Result<(Transaction<'_>, u64), DatabaseFailure> {
    let transaction = snapshot(connection).await?;
    let checkpoint = Checkpoint::read(&transaction, history_of(class), shard).await?;
    Ok((transaction, checkpoint.map(|checkpoint| checkpoint.position.sequence).unwrap_or_default()))
}

/// Asks for nothing but that history has come so far.
impl Question for () {
    type Answer = ();

    async fn query(&self, _: &Transaction<'_>) -> Result<(), DatabaseFailure> {
        Ok(())
    }
}

/// Asks which of these aggregates have an event of a type.
pub struct Having<'a> {
    /// The aggregates.
    pub keys: &'a [AggregateKey],
    /// The type.
    pub event_type: &'a str,
}

impl Question for Having<'_> {
    type Answer = HashSet<AggregateKey>;

    async fn query(&self, history: &Transaction<'_>) -> Result<Self::Answer, DatabaseFailure> {
        static SELECT: Sql = Sql::new(|| {
            HISTORY.sql(
                "select i, t, a from unnest($1::text[], $2::text[], $3::text[]) as k (i, t, a) where exists \
                 (select from {schema}.events where instance_id = k.i and aggregate_type = k.t and aggregate_id = k.a \
                 and type = $4)",
            )
        });
        let statement = history.prepare_cached(&SELECT).await?;
        let (instances, types, ids) = columns(self.keys);
        let rows = history.query(&statement, &[&instances, &types, &ids, &self.event_type]).await?;
        rows.iter().map(aggregate_key).collect()
    }
}

/// Asks for all events of the aggregates of one type in an instance, which must be few, in order for each aggregate.
pub struct OfType<'a> {
    /// The instance.
    pub instance_id: &'a str,
    /// The type.
    pub aggregate_type: &'a str,
}

impl Question for OfType<'_> {
    type Answer = Vec<Recorded>;

    async fn query(&self, history: &Transaction<'_>) -> Result<Self::Answer, DatabaseFailure> {
        static SELECT: Sql = Sql::new(|| {
            HISTORY.sql(
                "select * from {schema}.events where instance_id = $1 and aggregate_type = $2 \
                 order by aggregate_id, version",
            )
        });
        let rows = history.query(&**SELECT, &[&self.instance_id, &self.aggregate_type]).await?;
        Ok(rows.iter().map(recorded).collect::<Result<_, _>>()?)
    }
}

/// Asks for the first events of an aggregate from one sequence to another, and whether these are all; see [`waiting`].
pub struct Between<'a> {
    /// The aggregate.
    pub key: &'a AggregateKey,
    /// The first sequence and the last one.
    pub sequences: (u64, u64),
}

impl Question for Between<'_> {
    type Answer = (Vec<Arc<Recorded>>, bool);

    async fn query(&self, history: &Transaction<'_>) -> Result<Self::Answer, DatabaseFailure> {
        let (from, to) = self.sequences;
        waiting(history, self.key, from, to).await
    }
}
