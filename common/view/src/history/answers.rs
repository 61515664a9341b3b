//! The answers to idempotent commands.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use deadpool_postgres::Transaction;
use domain::log_class::OfEach;
use eventlog::record::{Answer, Record};
use jiff::{SignedDuration, Timestamp};

use crate::{
    checkpoint::{signed, unsigned},
    database::DatabaseFailure,
    projection::{Projection, Sql, of_histories},
};

/// How long the answer to an idempotent command is retained.
pub const ANSWERS_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// A stored answer.
#[derive(Debug, Clone)]
pub struct StoredAnswer {
    /// The answer.
    pub answer: Answer,
    /// When it was committed.
    pub committed_at: Timestamp,
}

/// Stores the answers of a batch, the last one where a command has several, and deletes those that are too old.
pub(super) async fn apply(
    transaction: &Transaction<'_>,
    history: &Projection,
    records: &[Arc<Record>],
) -> Result<(), DatabaseFailure> {
    let all =
        records.iter().flat_map(|record| record.commit.answers.iter().map(|answer| (answer, record.committed_at())));
    let last: HashMap<&Bytes, (&Answer, Timestamp)> =
        all.map(|(answer, at)| (&answer.command_id, (answer, at))).collect();
    let Some(newest) = last.values().map(|(_, committed_at)| *committed_at).max() else { return Ok(()) };
    let column = |part: fn(&Answer) -> &[u8]| last.values().map(|(answer, _)| part(answer)).collect::<Vec<_>>();
    let instances: Vec<&str> = last.values().map(|(answer, _)| answer.instance_id.as_str()).collect();
    let sequences: Vec<i64> = last.values().map(|(answer, _)| signed(answer.sequence)).collect();
    let times: Vec<Timestamp> = last.values().map(|(_, committed_at)| *committed_at).collect();
    let insert = history.sql(
        "insert into {schema}.answers \
         select * from unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::text[], $5::bigint[], $6::timestamptz[]) \
         on conflict (command_id) do update set request_digest = excluded.request_digest, \
         answer = excluded.answer, sequence = excluded.sequence, committed_at = excluded.committed_at",
    );
    let statement = transaction.prepare_cached(&insert).await?;
    transaction
        .execute(
            &statement,
            &[
                &column(|answer| &answer.command_id),
                &column(|answer| &answer.request_digest),
                &column(|answer| &answer.answer),
                &instances,
                &sequences,
                &times,
            ],
        )
        .await?;
    forget(transaction, history, newest - ANSWERS_KEPT).await
}

/// Deletes the answers that were committed before a time.
pub(super) async fn forget(
    transaction: &Transaction<'_>,
    history: &Projection,
    before: Timestamp,
) -> Result<(), DatabaseFailure> {
    let expire = history.sql("delete from {schema}.answers where committed_at < $1");
    let statement = transaction.prepare_cached(&expire).await?;
    transaction.execute(&statement, &[&before]).await?;
    Ok(())
}

/// Reads the answers to commands, whichever log they were about.
pub(super) async fn load(
    transaction: &Transaction<'_>,
    commands: Vec<Bytes>,
) -> Result<HashMap<Bytes, Option<StoredAnswer>>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        let OfEach { events, sessions } = of_histories("select * from {schema}.answers where command_id = any($1)");
        format!("{events} union all {sessions} order by committed_at")
    });
    if commands.is_empty() {
        return Ok(HashMap::new());
    }
    let asked: Vec<&[u8]> = commands.iter().map(AsRef::as_ref).collect();
    let statement = transaction.prepare_cached(&SELECT).await?;
    let rows = transaction.query(&statement, &[&asked]).await?;
    let mut found: HashMap<Bytes, Option<StoredAnswer>> = commands.into_iter().map(|command| (command, None)).collect();
    for row in rows {
        let command_id = Bytes::from(row.try_get::<_, Vec<u8>>("command_id")?);
        let answer = Answer {
            command_id: command_id.clone(),
            request_digest: row.try_get::<_, Vec<u8>>("request_digest")?.into(),
            answer: row.try_get::<_, Vec<u8>>("answer")?.into(),
            instance_id: row.try_get("instance_id")?,
            sequence: unsigned(row.try_get("sequence")?),
        };
        found.insert(command_id, Some(StoredAnswer { answer, committed_at: row.try_get("committed_at")? }));
    }
    Ok(found)
}
