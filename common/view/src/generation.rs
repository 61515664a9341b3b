//! Generations: a projection is built anew beside the one that answers, is compared with it, and takes its place.
//!
//! In Postgres, each place has its own schema and checkpoint. A generation that takes over is renamed in one
//! transaction, so that readers and statements need not know of it. The one that answered before is kept up to date, to
//! go back to. Of a search index, only the list of its generations is here: see [`FileExchange`].

mod comparison;
mod files;
mod first;

use std::time::Duration;

use deadpool_postgres::{Client, GenericClient, Transaction};
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

pub(crate) use self::first::begins;
pub use self::{
    comparison::{EXAMPLES, Verified, note_verified, now, verify, verify_again},
    files::{FileExchange, note_progress},
    first::{incomplete, note_complete},
};
use crate::{
    checkpoint::{CHANGING, Checkpoint, unsigned},
    database::{Database, DatabaseFailure},
    projection::{GenerationSlot, PROJECTIONS, Projection, generation_at},
};

/// How long an exchange is tried again while the other generation lags a little or others hold locks, and the pause
/// between two tries. Postgres ends a wait for a lock that takes longer than [`LIMIT`].
const PATIENCE: Duration = Duration::from_secs(5);
const BREATH: Duration = Duration::from_millis(20);
/// How often it is checked whether two generations have come equally far, and the pause before the next check.
const LOOKS: usize = 100;
const GLANCE: Duration = Duration::from_millis(2);
/// How long a change of generations waits for index builds and vacuums, in milliseconds: nobody has to wait meanwhile.
const LIMIT: u32 = 2000;
/// How long a change may idle in its transaction, in milliseconds: everybody waits if a node stops amid one.
const STANDSTILL: u32 = 1000;
/// How long an exchange waits for readers and workers, in milliseconds: others have to wait meanwhile.
const ALONE_WITHIN: u32 = 50;

/// A generation beside the one that answers.
#[derive(Clone)]
pub struct Generation {
    /// The projection that keeps it up to date.
    pub projection: &'static Projection,
    /// Its place.
    pub place: GenerationSlot,
    /// Since when it is at that place.
    pub since: Timestamp,
    /// Its checkpoint; `None` before it began.
    pub checkpoint: Option<Checkpoint>,
    /// How many events it could not process.
    pub failed: u64,
    /// How it compares with the one that answers, once they were compared.
    pub verified: Option<Verified>,
    /// Whether a comparison was requested and is not done yet.
    pub is_due: bool,
}

impl Generation {
    /// Its name, and since when it is at its place, which distinguishes it from all others that ever were.
    pub fn begun(&self) -> (&'static str, Timestamp) {
        (self.projection.name, self.since)
    }
}

/// The outcome of an attempt to exchange generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchanged {
    /// The generation has taken over.
    Done,
    /// There is no generation at that place.
    Absent,
    /// The generation lags the one that answers.
    Lagging,
    /// The generation has failed at events that the one that answers could process.
    Fails,
}

/// Returns every generation beside those that answer.
///
/// # Errors
/// When Postgres does not answer.
pub async fn generations(database: &Database, shard: u16) -> Result<Vec<Generation>, DatabaseFailure> {
    let text = "select g.*, asked_at is not null and verified_at is null as is_due, (select count(*) from platform.failed_events f where f.version = g.version \
                and f.projection = g.projection || '_' || g.place) as failed from platform.generations g";
    let read = async {
        let connection = database.connection().await?;
        let statement = connection.prepare_cached(text).await?;
        let mut found = vec![];
        for row in connection.query(&statement, &[]).await? {
            let (name, version): (&str, i32) = (row.get("projection"), row.get("version"));
            let known = PROJECTIONS.iter().find(|known| known.name == name && known.version == version);
            let place = GenerationSlot::ALL.into_iter().find(|place| place.name() == row.get::<_, &str>("place"));
            let Some((known, place)) = known.zip(place) else { continue };
            let projection = generation_at(known, place);
            let verified = row.get::<_, Option<Timestamp>>("verified_at").map(|at| Verified {
                at,
                differing: row.get::<_, Option<i64>>("differing").map(unsigned).unwrap_or_default(),
                examples: row.get::<_, Option<Vec<String>>>("examples").unwrap_or_default(),
            });
            let checkpoint = Checkpoint::read(&*connection, projection, shard).await?;
            let (since, failed, is_due) = (row.get("since"), unsigned(row.get("failed")), row.get("is_due"));
            found.push(Generation { projection, place, since, checkpoint, failed, verified, is_due });
        }
        Ok(found)
    };
    database.within(read).await
}

/// Prepares a generation that projectors build beside the one that answers. If one is being built already, that goes
/// on, and the result is `false`.
///
/// # Errors
/// When Postgres does not answer, or others hold the required locks.
pub async fn replay(database: &Database, projection: &Projection) -> Result<bool, DatabaseFailure> {
    let next = generation_at(projection, GenerationSlot::Next);
    patiently(|| database.within(try_replay(database, projection, next))).await
}

async fn try_replay(database: &Database, projection: &Projection, next: &Projection) -> Result<bool, DatabaseFailure> {
    let mut connection = database.connection().await?;
    let transaction = change(&mut connection, projection).await?;
    let is_new = note(&transaction, projection, GenerationSlot::Next).await?;
    if is_new {
        forget(&transaction, next).await?;
    }
    if is_new && let Some(schema) = next.schema() {
        transaction.batch_execute(&schema).await?;
        // A leftover worker of an earlier generation must not pass for a worker of this one, so the epoch is higher.
        let begin = "insert into platform.checkpoints select $3, version, shard, \
                     (extract(epoch from clock_timestamp()) * 1000)::bigint, 0, 0, decode(repeat('00', 32), 'hex'), 'epoch' \
                     from platform.checkpoints where projection = $1 and version = $2";
        transaction.execute(begin, &[&projection.name, &projection.version, &next.name]).await?;
    }
    transaction.commit().await?;
    Ok(is_new)
}

/// Tries a change again while others hold the required locks.
async fn patiently<T, F: Future<Output = Result<T, DatabaseFailure>> + Send>(
    change: impl Fn() -> F,
) -> Result<T, DatabaseFailure> {
    let until = Instant::now() + PATIENCE;
    loop {
        match change().await {
            Err(failure) if failure.is_of_locks() && Instant::now() < until => sleep(BREATH).await,
            done => return done,
        }
    }
}

/// Lets the generation at a place answer instead of the one that does, which is retained at the opposite place: as the
/// previous one if the next one takes over, and the other way round. What was there before is dropped.
///
/// Nobody reads a mixture of both. A reader of several things at one moment holds a lock on the checkpoints, see
/// [`crate::database::snapshot`], as does a single statement that returns how fresh its answer is; any other locks its
/// table, and Postgres plans it anew. And no answer is older than those before: a generation that lags has to wait.
///
/// # Errors
/// When Postgres does not answer, or others hold the required locks.
pub async fn exchange(
    database: &Database,
    projection: &Projection,
    place: GenerationSlot,
    is_forced: bool,
) -> Result<Exchanged, DatabaseFailure> {
    let until = Instant::now() + PATIENCE;
    patiently(|| database.within(attempt(database, projection, place, is_forced, until))).await
}

async fn attempt(
    database: &Database,
    projection: &Projection,
    place: GenerationSlot,
    is_forced: bool,
    until: Instant,
) -> Result<Exchanged, DatabaseFailure> {
    let (other, kept_at) = (generation_at(projection, place), place.opposite());
    let kept = generation_at(projection, kept_at);
    let mut connection = database.connection().await?;
    let transaction = change(&mut connection, projection).await?;
    if !is_there(&transaction, projection, place).await? {
        return Ok(Exchanged::Absent);
    }
    // First wait for maintenance by Postgres, which may take a second and blocks nobody; then lock all, briefly.
    let mut tables = [projection.tables(), other.tables()].concat();
    if is_there(&transaction, projection, kept_at).await? {
        tables.extend(kept.tables());
    }
    let tables = tables.join(", ");
    transaction.batch_execute(&format!("lock table {tables} in share update exclusive mode")).await?;
    for _ in 0..LOOKS {
        if !is_behind(&transaction, projection, other).await? {
            break;
        }
        sleep(GLANCE).await;
    }
    let alone = format!(
        "set local lock_timeout = {ALONE_WITHIN}; lock table platform.checkpoints in access exclusive mode; \
         lock table {tables} in access exclusive mode"
    );
    transaction.batch_execute(&alone).await?;
    if is_behind(&transaction, projection, other).await? {
        let is_late = Instant::now() > until;
        return if is_late { Ok(Exchanged::Lagging) } else { Err(DatabaseFailure::Busy(projection.view)) };
    }
    if !is_forced && fails_more(&transaction, projection, other).await? {
        return Ok(Exchanged::Fails);
    }
    forget(&transaction, kept).await?;
    for (from, to) in [(projection.name, kept.name), (other.name, projection.name)] {
        rename(&transaction, projection.version, from, to).await?;
    }
    fence(&transaction, projection, kept).await?;
    note_exchange(&transaction, projection, kept_at).await?;
    transaction.commit().await?;
    Ok(Exchanged::Done)
}

/// Notes that the generation that answered is at this place now, and nothing at the other one.
async fn note_exchange(
    transaction: &Transaction<'_>,
    projection: &Projection,
    kept_at: GenerationSlot,
) -> Result<(), DatabaseFailure> {
    let text = "delete from platform.generations where projection = $1 and version = $2 and place = any($3)";
    let changed = GenerationSlot::ALL.map(GenerationSlot::name);
    transaction.execute(text, &[&projection.view, &projection.version, &changed.as_slice()]).await?;
    note(transaction, projection, kept_at).await?;
    Ok(())
}

/// Drops the generation at a place; `false` where there is none.
///
/// # Errors
/// When Postgres does not answer, or others hold the required locks.
pub async fn drop_at(
    database: &Database,
    projection: &Projection,
    place: GenerationSlot,
) -> Result<bool, DatabaseFailure> {
    let other = generation_at(projection, place);
    patiently(|| database.within(try_drop(database, projection, other, place))).await
}

async fn try_drop(
    database: &Database,
    projection: &Projection,
    other: &Projection,
    place: GenerationSlot,
) -> Result<bool, DatabaseFailure> {
    let mut connection = database.connection().await?;
    let transaction = change(&mut connection, projection).await?;
    let places = "delete from platform.generations where projection = $1 and version = $2 and place = $3";
    let was_there = transaction.execute(places, &[&projection.view, &projection.version, &place.name()]).await? > 0;
    forget(&transaction, other).await?;
    transaction.commit().await?;
    Ok(was_there)
}

/// Begins a change of the generations of a projection. Only one is made at a time; it cancels a comparison.
async fn change<'a>(connection: &'a mut Client, projection: &Projection) -> Result<Transaction<'a>, DatabaseFailure> {
    let transaction = connection.transaction().await?;
    let limits = format!(
        "set local lock_timeout = {LIMIT}; set local statement_timeout = {}; \
         set local idle_in_transaction_session_timeout = {STANDSTILL}",
        LIMIT * 2
    );
    transaction.batch_execute(&limits).await?;
    let alone = "select pg_try_advisory_xact_lock($1, hashtext($2))";
    let is_alone: bool = transaction.query_one(alone, &[&CHANGING, &projection.view]).await?.get(0);
    if is_alone {
        return Ok(transaction);
    }
    let end = "select pg_cancel_backend(pid) from pg_locks where locktype = 'advisory' and mode = 'ShareLock' and granted \
               and classid = $1::int::oid and objid = hashtext($2)::oid and objsubid = 2";
    transaction.execute(end, &[&CHANGING, &projection.view]).await?;
    Err(DatabaseFailure::Busy(projection.view))
}

async fn note(
    transaction: &Transaction<'_>,
    projection: &Projection,
    place: GenerationSlot,
) -> Result<bool, DatabaseFailure> {
    // A previous generation is compared only on request.
    let text = "insert into platform.generations values ($1, $2, $3, now(), case when $4 then now() end) on conflict do nothing";
    let is_compared = place == GenerationSlot::Next;
    Ok(transaction.execute(text, &[&projection.view, &projection.version, &place.name(), &is_compared]).await? > 0)
}

async fn is_there(
    client: &impl GenericClient,
    projection: &Projection,
    place: GenerationSlot,
) -> Result<bool, DatabaseFailure> {
    let text = "select from platform.generations where projection = $1 and version = $2 and place = $3";
    Ok(client.query_opt(text, &[&projection.view, &projection.version, &place.name()]).await?.is_some())
}

/// Whether there is a shard in which the other generation lags the one that answers.
async fn is_behind(
    client: &impl GenericClient,
    projection: &Projection,
    other: &Projection,
) -> Result<bool, DatabaseFailure> {
    let text = "select from platform.checkpoints c where projection = $1 and version = $2 and not exists \
                (select from platform.checkpoints o where o.projection = $3 and o.version = c.version \
                and o.shard = c.shard and o.stream_sequence >= c.stream_sequence) limit 1";
    let lagging = client.query_opt(text, &[&projection.name, &projection.version, &other.name]).await?;
    Ok(lagging.is_some())
}

/// Whether the other generation has parked an aggregate that the one that answers has not, or only at a later event.
async fn fails_more(
    client: &impl GenericClient,
    projection: &Projection,
    other: &Projection,
) -> Result<bool, DatabaseFailure> {
    let text = "select from platform.failed_events o where o.projection = $3 and o.version = $2 and not exists \
                (select from platform.failed_events f where f.projection = $1 and f.version = o.version \
                and f.shard = o.shard and f.instance_id = o.instance_id and f.aggregate_type = o.aggregate_type \
                and f.aggregate_id = o.aggregate_id and f.sequence <= o.sequence) limit 1";
    let more = client.query_opt(text, &[&projection.name, &projection.version, &other.name]).await?;
    Ok(more.is_some())
}

/// Removes everything of a generation. The checkpoint comes first, as it does for its worker.
async fn forget(transaction: &Transaction<'_>, other: &Projection) -> Result<(), DatabaseFailure> {
    for table in ["checkpoints", "failed_events"] {
        let text = format!("delete from platform.{table} where projection = $1 and version = $2");
        transaction.execute(&text, &[&other.name, &other.version]).await?;
    }
    if other.schema().is_some() {
        transaction.batch_execute(&format!("drop schema if exists {} cascade", other.schema_name())).await?;
    }
    Ok(())
}

/// Renames a generation: its schema, its checkpoints and its failed events.
async fn rename(transaction: &Transaction<'_>, version: i32, from: &str, to: &str) -> Result<(), DatabaseFailure> {
    transaction.batch_execute(&format!("alter schema {from}_{version} rename to {to}_{version}")).await?;
    for table in ["checkpoints", "failed_events"] {
        let text = format!("update platform.{table} set projection = $2 where projection = $1 and version = $3");
        transaction.execute(&text, &[&from, &to, &version]).await?;
    }
    Ok(())
}

/// Fences the workers of both generations, which begin anew: each has the checkpoint of the other one.
async fn fence(transaction: &Transaction<'_>, one: &Projection, other: &Projection) -> Result<(), DatabaseFailure> {
    let text = "update platform.checkpoints set epoch = 1 + (select max(epoch) from platform.checkpoints \
                where version = $3 and projection in ($1, $2)) where version = $3 and projection in ($1, $2)";
    transaction.execute(text, &[&one.name, &other.name, &one.version]).await?;
    Ok(())
}
