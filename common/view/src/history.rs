//! History in Postgres: what the writer decides on, without knowing what a payload means.
//!
//! Envelopes of all events by aggregate, who holds which claim, who refers to whom, and the answers to idempotent
//! commands.

mod answers;
pub mod audit;
mod claims;
mod counted;
mod followed;
pub(crate) mod newest;
pub mod past;
mod referrers;
pub(crate) mod tables;
pub mod waiting;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use deadpool_postgres::{GenericClient, Transaction};
use domain::{
    catalog::{OF_SESSIONS, class_of},
    log_class::{LogClass, OfEach},
};
use eventlog::record::{AggregateKey, Event, Record, Recorded};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::{Row, types::Type};

pub use self::{
    answers::{ANSWERS_KEPT, StoredAnswer},
    claims::{ClaimHash, fold_claims, hashes},
    counted::Counted,
    followed::Followed,
    referrers::{MOST_REFERRERS, ReferenceChange, Referred, Referrers, fold_references, reference_changes},
};
use crate::{
    checkpoint::{Checkpoint, signed, unsigned},
    database::{Database, DatabaseFailure, begin, limited},
    projection::{HISTORY, OfHistories, Projection, Sql, history_of, of_histories},
};

/// How long events of `SESSIONS` are retained: the longest life of a session, and a week.
pub const SESSIONS_KEPT: SignedDuration = SignedDuration::from_hours((90 + 7) * 24);

/// Writes a batch of records into the history, within the transaction that moves its checkpoint.
pub async fn apply(
    transaction: &Transaction<'_>,
    history: &Projection,
    records: &[Arc<Record>],
    events: &[Arc<Recorded>],
) -> Result<(), DatabaseFailure> {
    answers::apply(transaction, history, records).await?;
    match history.class {
        LogClass::Events => {
            copy_events(transaction, history, events).await?;
            claims::apply(transaction, history, fold_claims(events)).await?;
            referrers::apply(transaction, history, fold_references(events.iter().map(AsRef::as_ref))).await
        }
        LogClass::Sessions => {
            let events = without_aged(transaction, history, records, events).await?;
            copy_events(transaction, history, &events).await
        }
    }
}

/// Deletes what has aged out by the time of the newest record, and returns the events that have not, so that history is
/// the same from a purged log. It precedes the write: what has aged out may begin anew, with the first version.
async fn without_aged(
    transaction: &Transaction<'_>,
    history: &Projection,
    records: &[Arc<Record>],
    events: &[Arc<Recorded>],
) -> Result<Vec<Arc<Recorded>>, DatabaseFailure> {
    let Some(newest) = records.last() else { return Ok(vec![]) };
    let since = newest.committed_at() - SESSIONS_KEPT;
    let delete = history.sql("delete from {schema}.events where aggregate_type = any($1) and committed_at < $2");
    let statement = transaction.prepare_cached(&delete).await?;
    transaction.execute(&statement, &[&*OF_SESSIONS, &since]).await?;
    answers::forget(transaction, history, since).await?;
    Ok(events.iter().filter(|recorded| recorded.committed_at >= since).cloned().collect())
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

pub(crate) async fn copy_events(
    transaction: &Transaction<'_>,
    history: &Projection,
    events: &[Arc<Recorded>],
) -> Result<(), DatabaseFailure> {
    if events.is_empty() {
        return Ok(());
    }
    let copy = history.sql("copy {schema}.events from stdin (format binary)");
    let sink = transaction.copy_in(copy.as_str()).await?;
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

/// Splits keys into the arrays that statements take.
pub(crate) fn columns<'a>(
    keys: impl IntoIterator<Item = &'a AggregateKey>,
) -> (Vec<&'a str>, Vec<&'a str>, Vec<&'a str>) {
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
    /// Aggregates whose referrers are needed.
    pub referrers: Vec<Referred>,
    /// Objects whose number is needed.
    pub counts: Vec<Counted>,
    /// Idempotent commands.
    pub commands: Vec<Bytes>,
    /// The claims and referrers whose aggregates are read too. Reading them takes as long if none are found.
    pub followed: Followed,
}

/// What history knows of the [`Needs`], all from one snapshot.
#[derive(Debug)]
pub struct Snapshot {
    /// The checkpoint of the snapshot in each log.
    pub checkpoints: OfEach<Checkpoint>,
    /// The events of every requested aggregate, from the last one that restores its state.
    pub aggregates: HashMap<AggregateKey, Vec<Arc<Recorded>>>,
    /// The holder of every requested claim.
    pub claims: HashMap<ClaimHash, Option<AggregateKey>>,
    /// The referrers of every aggregate for which they were requested.
    pub referrers: HashMap<Referred, Referrers>,
    /// How many objects there are of those whose number was requested.
    pub counts: HashMap<Counted, u64>,
    /// The stored answer to every requested command.
    pub commands: HashMap<Bytes, Option<StoredAnswer>>,
}

impl Needs {
    /// Whether nothing is needed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many things are needed.
    pub fn len(&self) -> usize {
        let Self { aggregates, claims, referrers, counts, commands, followed: _ } = self;
        aggregates.len() + claims.len() + referrers.len() + counts.len() + commands.len()
    }

    /// Reads what is needed in one snapshot; `None` before history has a checkpoint. Postgres ends a statement that
    /// takes longer than the limit; where none is given, the limit of all reads applies.
    pub async fn load(
        self,
        database: &Database,
        shard: u16,
        limit: Option<Duration>,
    ) -> Result<Option<Snapshot>, DatabaseFailure> {
        let mut connection = database.connection().await?;
        let transaction = begin(&mut connection).await?;
        let checkpoint = |class| Checkpoint::read(&transaction, history_of(class), shard);
        let of_class = |class| {
            let keys = self.aggregates.iter().filter(|key| class_of(&key.aggregate_type) == class).cloned().collect();
            load_aggregates(&transaction, class, keys)
        };
        let ((), events, sessions, mut aggregates, of_sessions, claims, referrers, counts, commands) = futures::try_join!(
            // The lock is sent first, together with the reads.
            limited(&transaction, limit),
            checkpoint(LogClass::Events),
            checkpoint(LogClass::Sessions),
            of_class(LogClass::Events),
            of_class(LogClass::Sessions),
            claims::load(&transaction, self.claims),
            referrers::load(&transaction, self.referrers),
            counted::load(&transaction, self.counts),
            answers::load(&transaction, self.commands),
        )?;
        aggregates.extend(of_sessions);
        if !self.followed.is_empty() {
            let found = self.followed.aggregates(&claims, &referrers).filter(|key| !aggregates.contains_key(*key));
            let found = read_aggregates(&transaction, LogClass::Events, found.cloned().collect()).await?;
            aggregates.extend(found);
        }
        transaction.commit().await?;
        let checkpoints = OfEach { events, sessions }.both();
        Ok(checkpoints.map(|checkpoints| Snapshot { checkpoints, aggregates, claims, referrers, counts, commands }))
    }
}

async fn load_aggregates(
    transaction: &Transaction<'_>,
    class: LogClass,
    keys: Vec<AggregateKey>,
) -> Result<HashMap<AggregateKey, Vec<Arc<Recorded>>>, DatabaseFailure> {
    if keys.is_empty() { Ok(HashMap::new()) } else { read_aggregates(transaction, class, keys).await }
}

async fn read_aggregates(
    transaction: &Transaction<'_>,
    class: LogClass,
    keys: Vec<AggregateKey>,
) -> Result<HashMap<AggregateKey, Vec<Arc<Recorded>>>, DatabaseFailure> {
    static SELECT: OfHistories = OfHistories::new(|| {
        of_histories(
            "select e.* from unnest($1::text[], $2::text[], $3::text[]) as k (i, t, a) join lateral \
             (select * from {schema}.events where instance_id = k.i and aggregate_type = k.t and aggregate_id = k.a \
             and version >= coalesce((select version from {schema}.events where instance_id = k.i \
             and aggregate_type = k.t and aggregate_id = k.a and restores order by version desc limit 1), 0)) e \
             on true order by e.sequence",
        )
    });
    let statement = transaction.prepare_cached(&SELECT[class]).await?;
    let (instances, types, ids) = columns(&keys);
    let rows = transaction.query(&statement, &[&instances, &types, &ids]).await?;
    let mut found: HashMap<AggregateKey, Vec<Arc<Recorded>>> = keys.into_iter().map(|key| (key, vec![])).collect();
    for row in rows {
        let recorded = recorded(&row)?;
        found.entry(recorded.key()).or_default().push(Arc::new(recorded));
    }
    Ok(found)
}

/// Returns the aggregates with events in a log whose keys come after a key, in the order of their keys, at most `limit`.
pub async fn aggregates_after(
    client: &impl GenericClient,
    class: LogClass,
    key: &AggregateKey,
    limit: u32,
) -> Result<Vec<AggregateKey>, DatabaseFailure> {
    static SELECT: OfHistories = OfHistories::new(|| {
        of_histories(
            "select distinct instance_id, aggregate_type, aggregate_id from {schema}.events \
             where (instance_id, aggregate_type, aggregate_id) > ($1, $2, $3) \
             order by instance_id, aggregate_type, aggregate_id limit $4",
        )
    });
    let limit = i64::from(limit);
    let statement = client.prepare_cached(&SELECT[class]).await?;
    let rows = client.query(&statement, &[&key.instance_id, &key.aggregate_type, &key.id, &limit]).await?;
    rows.iter().map(aggregate_key).collect()
}

fn aggregate_key(row: &Row) -> Result<AggregateKey, DatabaseFailure> {
    let (instance_id, aggregate_type, id) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok(AggregateKey { instance_id, aggregate_type, id })
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

/// Reads an event from its row.
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
