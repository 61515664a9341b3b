//! Comparing a generation with the one that answers, row by row, at a moment when both have come equally far; and what
//! was found by any comparison.

use deadpool_postgres::{Client, GenericClient};
use jiff::Timestamp;
use tokio::{runtime::Handle, time::sleep};
use tokio_postgres::{CancelToken, NoTls, types::ToSql};

use super::{GLANCE, Generation, LOOKS};
use crate::{
    checkpoint::{CHANGING, Checkpoint, signed, unsigned},
    database::{Database, DatabaseFailure, begin},
    projection::{GenerationSlot, Kind, PROJECTIONS, Projection},
};

/// How many of the rows that differ are named.
pub const EXAMPLES: usize = 10;

/// The result of comparing two generations that have come equally far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// When they were compared.
    pub at: Timestamp,
    /// How many rows are in one of them only, or differ.
    pub differing: u64,
    /// Some of those rows.
    pub examples: Vec<String>,
}

/// Requests that a projector compares the generation at a place with the one that answers; `false` where there is none.
///
/// # Errors
/// When Postgres does not answer.
pub async fn verify_again(
    database: &Database,
    projection: &Projection,
    place: GenerationSlot,
) -> Result<bool, DatabaseFailure> {
    let text = "update platform.generations set asked_at = now(), verified_at = null, differing = null, examples = null \
                where projection = $1 and version = $2 and place = $3";
    let update = async {
        let connection = database.connection().await?;
        Ok(connection.execute(text, &[&projection.view, &projection.version, &place.name()]).await? > 0)
    };
    database.within(update).await
}

/// Compares a generation with the one that answers, at a moment when both have come equally far, and notes what was
/// found; `None` where there was no such moment.
///
/// # Errors
/// When Postgres does not answer.
pub async fn verify(
    database: &Database,
    shard: u16,
    generation: &Generation,
) -> Result<Option<Verified>, DatabaseFailure> {
    let other = generation.projection;
    let Some(projection) = PROJECTIONS.iter().find(|known| known.name == other.view) else { return Ok(None) };
    let mut connection = database.connection().await?;
    for _ in 0..LOOKS * 5 {
        let compared = compare(&mut connection, projection, other, shard).await?;
        if let Some((at, differing, examples)) = compared {
            let verified = Verified { at, differing: unsigned(differing), examples };
            let is_noted = note_verified(&*connection, generation, &verified).await?;
            return Ok(is_noted.then_some(verified));
        }
        sleep(GLANCE).await;
    }
    Ok(None)
}

/// Notes the result of a comparison; `false` where the generation is gone, or another comparison was requested since.
///
/// # Errors
/// When Postgres does not answer.
pub async fn note_verified(
    client: &impl GenericClient,
    Generation { projection, place, since, .. }: &Generation,
    Verified { at, differing, examples }: &Verified,
) -> Result<bool, DatabaseFailure> {
    let text = "update platform.generations set verified_at = $7, differing = $4, examples = $5 where projection = $1 \
                and version = $2 and place = $3 and since = $6 and asked_at <= $7";
    let (place, differing) = (place.name(), signed(*differing));
    let parameters: [&(dyn ToSql + Sync); 7] =
        [&projection.view, &projection.version, &place, &differing, examples, since, at];
    Ok(client.execute(text, &parameters).await? > 0)
}

/// Returns the time of Postgres, by which comparisons are requested.
///
/// # Errors
/// When Postgres does not answer.
pub async fn now(client: &impl GenericClient) -> Result<Timestamp, DatabaseFailure> {
    Ok(client.query_one("select now()", &[]).await?.get(0))
}

/// When two generations were equally far, how many rows differ, and some of them.
type Difference = (Timestamp, i64, Vec<String>);

/// Runs [`read`], and cancels its statement if it is dropped: that would go on, and hold its connection and its lock.
async fn compare(
    connection: &mut Client,
    projection: &Projection,
    other: &Projection,
    shard: u16,
) -> Result<Option<Difference>, DatabaseFailure> {
    let mut ending = CancelOnDrop(Some(connection.cancel_token()));
    let found = read(connection, projection, other, shard).await;
    // The next user of the connection must not be cancelled.
    ending.0 = None;
    found
}

/// Compares two generations; `None` where they are not equally far, or somebody changes them.
async fn read(
    connection: &mut Client,
    projection: &Projection,
    other: &Projection,
    shard: u16,
) -> Result<Option<Difference>, DatabaseFailure> {
    let transaction = begin(connection).await?;
    let mut found = None;
    if are_equally_far(&transaction, projection, other, shard).await? {
        // Where they were exchanged after the snapshot was taken, the result is not stored.
        let lock = "select pg_try_advisory_xact_lock_shared($1, hashtext($2)), now()";
        let held = transaction.query_one(lock, &[&CHANGING, &other.view]).await?;
        if held.get(0) {
            found = Some((held.get(1), 0, vec![]));
        }
    }
    if let Some((_, differing, examples)) = &mut found {
        for compared in comparisons(projection, other) {
            let row = transaction.query_one(&compared, &[]).await?;
            *differing += row.get::<_, i64>(0);
            examples.extend(row.get::<_, Option<Vec<String>>>(1).unwrap_or_default());
        }
        examples.truncate(EXAMPLES);
    }
    transaction.commit().await?;
    Ok(found)
}

/// Cancels the statement that is under way when it is dropped with its token.
struct CancelOnDrop(Option<CancelToken>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let (Some(token), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move { token.cancel_query(NoTls).await });
        }
    }
}

/// Whether two generations have come equally far at the moment that a client reads.
async fn are_equally_far(
    client: &impl GenericClient,
    one: &Projection,
    other: &Projection,
    shard: u16,
) -> Result<bool, DatabaseFailure> {
    let here = Checkpoint::read(client, one, shard).await?;
    let there = Checkpoint::read(client, other, shard).await?;
    Ok(here.map(|here| here.position) == there.map(|there| there.position))
}

/// Statements that count the rows of a table that are in one of two generations only, or differ, and name some. Stored
/// answers to commands are not compared: they are forgotten after a day, and not at the same moment.
fn comparisons(one: &Projection, other: &Projection) -> Vec<String> {
    let tables = one.tables().into_iter().zip(other.tables()).filter(|(table, _)| !table.ends_with(".answers"));
    tables.map(|(here, there)| comparison(&one.kind, &here, &there)).collect()
}

fn comparison(kind: &Kind, one: &str, other: &str) -> String {
    let (_, name) = one.split_once('.').unwrap_or_default();
    if matches!(kind, Kind::Rows(_)) {
        return format!(
            "with differing as (select coalesce(a.instance_id, b.instance_id) as i, coalesce(a.id, b.id) as k \
             from {one} a full join {other} b on a.instance_id = b.instance_id and a.id = b.id \
             where a::text is distinct from b::text) \
             select count(*), (select array_agg('{name} ' || k || ' of instance ' || i) \
             from (select * from differing order by i, k limit {EXAMPLES}) as first) from differing"
        );
    }
    format!(
        "with differing as ((select t::text from {one} t except all select t::text from {other} t) union all \
         (select t::text from {other} t except all select t::text from {one} t)) \
         select count(*), case when count(*) > 0 then array['{name}'] end from differing"
    )
}
