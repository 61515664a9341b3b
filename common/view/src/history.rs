//! History in Postgres: what the write node decides on, without knowing what a payload means.
//!
//! Envelopes of all events by aggregate, who holds which claim, who refers to whom, and the answers to idempotent commands.

pub mod audit;
mod referrers;
pub(crate) mod tables;
pub mod waiting;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use deadpool_postgres::{GenericClient, Transaction};
use eventlog::record::{AggregateKey, Answer, Event, Record, Recorded};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::{Row, types::Type};

pub use self::referrers::{MOST_REFERRERS, ReferenceChange, Referred, Referrers, fold_references, reference_changes};
use crate::{
    checkpoint::{Checkpoint, signed, unsigned},
    database::{Database, DatabaseFailure, limited, snapshot},
    projection::{HISTORY, Sql},
};

/// How long the answer to an idempotent command is kept.
pub const ANSWERS_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// A keyed hash of a value that only one aggregate may hold.
pub type ClaimHash = [u8; 32];

/// What a batch of records does to the claims: the last word on each.
pub fn fold_claims(events: &[Arc<Recorded>]) -> HashMap<ClaimHash, Option<AggregateKey>> {
    let mut claims = HashMap::new();
    for recorded in events {
        for released in hashes(&recorded.event.claims_released) {
            claims.insert(released, None);
        }
        for taken in hashes(&recorded.event.claims_taken) {
            claims.insert(taken, Some(recorded.key()));
        }
    }
    claims
}

/// The claims of an event; what is no hash is no claim.
pub fn hashes(claims: &[Bytes]) -> impl Iterator<Item = ClaimHash> {
    claims.iter().filter_map(|claim| claim.as_ref().try_into().ok())
}

/// Writes a batch of records into the history, within the transaction that moves its checkpoint.
pub async fn apply(
    transaction: &Transaction<'_>,
    records: &[Arc<Record>],
    events: &[Arc<Recorded>],
) -> Result<(), DatabaseFailure> {
    copy_events(transaction, events).await?;
    apply_claims(transaction, fold_claims(events)).await?;
    referrers::apply(transaction, fold_references(events.iter().map(AsRef::as_ref))).await?;
    apply_answers(transaction, records).await
}

const EVENT_COLUMNS: &[Type] = &[
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::INT4,
    Type::BOOL,
    Type::INT2,
    Type::TEXT,
    Type::TEXT,
    Type::TIMESTAMPTZ,
    Type::TIMESTAMPTZ,
    Type::BYTEA,
];

async fn copy_events(transaction: &Transaction<'_>, events: &[Arc<Recorded>]) -> Result<(), DatabaseFailure> {
    static COPY: Sql = Sql::new(|| HISTORY.sql("copy {schema}.events from stdin (format binary)"));
    if events.is_empty() {
        return Ok(());
    }
    let sink = transaction.copy_in(&**COPY).await?;
    let writer = tokio_postgres::binary_copy::BinaryCopyInWriter::new(sink, EVENT_COLUMNS);
    let mut writer = std::pin::pin!(writer);
    for recorded in events {
        let Event { instance_id, aggregate_type, aggregate_id, id, r#type, owner_id, actor, payload, .. } =
            &recorded.event;
        let (version, sequence) = (signed(recorded.event.version), signed(recorded.sequence));
        let revision = i32::try_from(recorded.event.revision).unwrap_or(i32::MAX);
        let owner_type = i16::try_from(recorded.event.owner_type).unwrap_or_default();
        writer
            .as_mut()
            .write(&[
                instance_id,
                aggregate_type,
                aggregate_id,
                &version,
                &sequence,
                id,
                r#type,
                &revision,
                &recorded.event.restores,
                &owner_type,
                owner_id,
                actor,
                &recorded.committed_at,
                &recorded.created_at(),
                &payload.as_ref(),
            ])
            .await?;
    }
    writer.finish().await?;
    Ok(())
}

async fn apply_claims(
    transaction: &Transaction<'_>,
    claims: HashMap<ClaimHash, Option<AggregateKey>>,
) -> Result<(), DatabaseFailure> {
    let (taken, released): (Vec<_>, Vec<_>) = claims.iter().partition(|(_, holder)| holder.is_some());
    if !released.is_empty() {
        static DELETE: Sql = Sql::new(|| HISTORY.sql("delete from {schema}.claims where claim = any($1)"));
        let released: Vec<&[u8]> = released.iter().map(|(claim, _)| claim.as_slice()).collect();
        let statement = transaction.prepare_cached(&DELETE).await?;
        transaction.execute(&statement, &[&released]).await?;
    }
    if !taken.is_empty() {
        static INSERT: Sql = Sql::new(|| {
            HISTORY.sql(
                "insert into {schema}.claims select * from unnest($1::bytea[], $2::text[], $3::text[], $4::text[]) \
                 on conflict (claim) do update set instance_id = excluded.instance_id, \
                 aggregate_type = excluded.aggregate_type, aggregate_id = excluded.aggregate_id",
            )
        });
        let claims: Vec<&[u8]> = taken.iter().map(|(claim, _)| claim.as_slice()).collect();
        let holders = taken.iter().filter_map(|(_, holder)| holder.as_ref());
        let statement = transaction.prepare_cached(&INSERT).await?;
        let (instances, types, ids) = columns(holders);
        transaction.execute(&statement, &[&claims, &instances, &types, &ids]).await?;
    }
    Ok(())
}

/// Keeps the answers of the batch, the last one where a command has several, and forgets those that are too old.
async fn apply_answers(transaction: &Transaction<'_>, records: &[Arc<Record>]) -> Result<(), DatabaseFailure> {
    static INSERT: Sql = Sql::new(|| {
        HISTORY.sql(
            "insert into {schema}.answers \
             select * from unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::text[], $5::bigint[], $6::timestamptz[]) \
             on conflict (command_id) do update set request_digest = excluded.request_digest, \
             answer = excluded.answer, sequence = excluded.sequence, committed_at = excluded.committed_at",
        )
    });
    static EXPIRE: Sql = Sql::new(|| HISTORY.sql("delete from {schema}.answers where committed_at < $1"));
    let all =
        records.iter().flat_map(|record| record.commit.answers.iter().map(|answer| (answer, record.committed_at())));
    let last: HashMap<&Bytes, (&Answer, Timestamp)> =
        all.map(|(answer, at)| (&answer.command_id, (answer, at))).collect();
    let Some(newest) = last.values().map(|(_, committed_at)| *committed_at).max() else { return Ok(()) };
    let column = |part: fn(&Answer) -> &[u8]| last.values().map(|(answer, _)| part(answer)).collect::<Vec<_>>();
    let instances: Vec<&str> = last.values().map(|(answer, _)| answer.instance_id.as_str()).collect();
    let sequences: Vec<i64> = last.values().map(|(answer, _)| signed(answer.sequence)).collect();
    let times: Vec<Timestamp> = last.values().map(|(_, committed_at)| *committed_at).collect();
    let statement = transaction.prepare_cached(&INSERT).await?;
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
    let statement = transaction.prepare_cached(&EXPIRE).await?;
    transaction.execute(&statement, &[&(newest - ANSWERS_KEPT)]).await?;
    Ok(())
}

/// Keys as the arrays that statements take.
fn columns<'a>(keys: impl IntoIterator<Item = &'a AggregateKey>) -> (Vec<&'a str>, Vec<&'a str>, Vec<&'a str>) {
    let part = |key: &'a AggregateKey| (key.instance_id.as_str(), (key.aggregate_type.as_str(), key.id.as_str()));
    let (instances, (types, ids)): (Vec<_>, (Vec<_>, Vec<_>)) = keys.into_iter().map(part).unzip();
    (instances, types, ids)
}

/// What a command needs to know of the past.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Aggregates.
    pub aggregates: Vec<AggregateKey>,
    /// Claims.
    pub claims: Vec<ClaimHash>,
    /// Who refers to something.
    pub referrers: Vec<Referred>,
    /// Idempotent commands.
    pub commands: Vec<Bytes>,
}

/// What history knows of it, all from one snapshot.
#[derive(Debug)]
pub struct Snapshot {
    /// Where the snapshot stands in the log.
    pub checkpoint: Checkpoint,
    /// The events of every aggregate that was asked for, from the last one that restores its state.
    pub aggregates: HashMap<AggregateKey, Vec<Arc<Recorded>>>,
    /// The holder of every claim that was asked for.
    pub claims: HashMap<ClaimHash, Option<AggregateKey>>,
    /// Who refers to everything for which that was asked.
    pub referrers: HashMap<Referred, Referrers>,
    /// The answer of every command that was asked for.
    pub commands: HashMap<Bytes, Option<Answered>>,
}

/// A stored answer.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// When it was committed.
    pub committed_at: Timestamp,
}

impl Needs {
    /// Whether nothing is needed.
    pub fn is_empty(&self) -> bool {
        self.aggregates.is_empty() && self.claims.is_empty() && self.referrers.is_empty() && self.commands.is_empty()
    }

    /// How many things are needed.
    pub fn len(&self) -> usize {
        self.aggregates.len() + self.claims.len() + self.referrers.len() + self.commands.len()
    }

    /// Reads what is needed in one snapshot; `None` before history has a checkpoint. Postgres ends a statement that takes
    /// longer than the limit, which is that of all reads where none is given.
    pub async fn load(
        self,
        database: &Database,
        shard: u16,
        limit: Option<Duration>,
    ) -> Result<Option<Snapshot>, DatabaseFailure> {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let ((), checkpoint, aggregates, claims, referrers, commands) = futures::try_join!(
            // It is sent first, together with the others.
            limited(&transaction, limit),
            Checkpoint::read(&transaction, &HISTORY, shard),
            load_aggregates(&transaction, self.aggregates),
            load_claims(&transaction, self.claims),
            referrers::load(&transaction, self.referrers),
            load_answers(&transaction, self.commands),
        )?;
        transaction.commit().await?;
        Ok(checkpoint.map(|checkpoint| Snapshot { checkpoint, aggregates, claims, referrers, commands }))
    }
}

async fn load_aggregates(
    transaction: &Transaction<'_>,
    keys: Vec<AggregateKey>,
) -> Result<HashMap<AggregateKey, Vec<Arc<Recorded>>>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY.sql(
            "select e.* from unnest($1::text[], $2::text[], $3::text[]) as k (i, t, a) join lateral \
             (select * from {schema}.events where instance_id = k.i and aggregate_type = k.t and aggregate_id = k.a \
             and version >= coalesce((select version from {schema}.events where instance_id = k.i \
             and aggregate_type = k.t and aggregate_id = k.a and restores order by version desc limit 1), 0)) e \
             on true order by e.sequence",
        )
    });
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let statement = transaction.prepare_cached(&SELECT).await?;
    let (instances, types, ids) = columns(&keys);
    let rows = transaction.query(&statement, &[&instances, &types, &ids]).await?;
    let mut found: HashMap<AggregateKey, Vec<Arc<Recorded>>> = keys.into_iter().map(|key| (key, vec![])).collect();
    for row in rows {
        let recorded = recorded(&row)?;
        found.entry(recorded.key()).or_default().push(Arc::new(recorded));
    }
    Ok(found)
}

/// The aggregates that have events, in the order of their keys after one of them, at most so many.
pub async fn aggregates_after(
    client: &impl GenericClient,
    key: &AggregateKey,
    limit: u32,
) -> Result<Vec<AggregateKey>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY.sql(
            "select distinct instance_id, aggregate_type, aggregate_id from {schema}.events \
             where (instance_id, aggregate_type, aggregate_id) > ($1, $2, $3) \
             order by instance_id, aggregate_type, aggregate_id limit $4",
        )
    });
    let limit = i64::from(limit);
    let rows = client.query(&**SELECT, &[&key.instance_id, &key.aggregate_type, &key.id, &limit]).await?;
    let key = |row: &Row| {
        let (instance_id, aggregate_type, id) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        Ok(AggregateKey { instance_id, aggregate_type, id })
    };
    rows.iter().map(key).collect()
}

/// The last event of an aggregate up to a sequence.
pub async fn last_event(
    client: &impl GenericClient,
    key: &AggregateKey,
    sequence: u64,
) -> Result<Option<Recorded>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY.sql(
            "select * from {schema}.events where instance_id = $1 and aggregate_type = $2 and aggregate_id = $3 \
             and sequence <= $4 order by version desc limit 1",
        )
    });
    let row = client.query_opt(&**SELECT, &[&key.instance_id, &key.aggregate_type, &key.id, &signed(sequence)]).await?;
    Ok(row.as_ref().map(recorded).transpose()?)
}

/// An event as it is stored.
pub(crate) fn recorded(row: &Row) -> Result<Recorded, tokio_postgres::Error> {
    let event = Event {
        id: row.try_get("event_id")?,
        instance_id: row.try_get("instance_id")?,
        owner_type: i32::from(row.try_get::<_, i16>("owner_type")?),
        owner_id: row.try_get("owner_id")?,
        aggregate_type: row.try_get("aggregate_type")?,
        aggregate_id: row.try_get("aggregate_id")?,
        version: unsigned(row.try_get("version")?),
        r#type: row.try_get("type")?,
        revision: u32::try_from(row.try_get::<_, i32>("revision")?).unwrap_or_default(),
        payload: row.try_get::<_, Vec<u8>>("payload")?.into(),
        restores: row.try_get("restores")?,
        actor: row.try_get("actor")?,
        created_at: row.try_get::<_, Timestamp>("created_at")?.as_microsecond(),
        ..Event::default()
    };
    Ok(Recorded { sequence: unsigned(row.try_get("sequence")?), committed_at: row.try_get("committed_at")?, event })
}

async fn load_claims(
    transaction: &Transaction<'_>,
    claims: Vec<ClaimHash>,
) -> Result<HashMap<ClaimHash, Option<AggregateKey>>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY
            .sql("select claim, instance_id, aggregate_type, aggregate_id from {schema}.claims where claim = any($1)")
    });
    if claims.is_empty() {
        return Ok(HashMap::new());
    }
    let asked: Vec<&[u8]> = claims.iter().map(<[u8; 32]>::as_slice).collect();
    let statement = transaction.prepare_cached(&SELECT).await?;
    let rows = transaction.query(&statement, &[&asked]).await?;
    let mut found: HashMap<ClaimHash, Option<AggregateKey>> = claims.into_iter().map(|claim| (claim, None)).collect();
    for row in rows {
        let key = AggregateKey { instance_id: row.try_get(1)?, aggregate_type: row.try_get(2)?, id: row.try_get(3)? };
        if let Ok(claim) = row.try_get::<_, &[u8]>(0)?.try_into() {
            found.insert(claim, Some(key));
        }
    }
    Ok(found)
}

async fn load_answers(
    transaction: &Transaction<'_>,
    commands: Vec<Bytes>,
) -> Result<HashMap<Bytes, Option<Answered>>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| HISTORY.sql("select * from {schema}.answers where command_id = any($1)"));
    if commands.is_empty() {
        return Ok(HashMap::new());
    }
    let asked: Vec<&[u8]> = commands.iter().map(AsRef::as_ref).collect();
    let statement = transaction.prepare_cached(&SELECT).await?;
    let rows = transaction.query(&statement, &[&asked]).await?;
    let mut found: HashMap<Bytes, Option<Answered>> = commands.into_iter().map(|command| (command, None)).collect();
    for row in rows {
        let command_id = Bytes::from(row.try_get::<_, Vec<u8>>("command_id")?);
        let answer = Answer {
            command_id: command_id.clone(),
            request_digest: row.try_get::<_, Vec<u8>>("request_digest")?.into(),
            answer: row.try_get::<_, Vec<u8>>("answer")?.into(),
            instance_id: row.try_get("instance_id")?,
            sequence: unsigned(row.try_get("sequence")?),
        };
        found.insert(command_id, Some(Answered { answer, committed_at: row.try_get("committed_at")? }));
    }
    Ok(found)
}
