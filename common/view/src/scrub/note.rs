//! What the scrubber has found, for operators.

use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;

use crate::{
    checkpoint::{signed, unsigned},
    database::{Database, DatabaseFailure},
    projection::{PROJECTIONS, Projection},
};

/// How many of the rows that were repaired last are named.
const EXAMPLES: usize = 10;

/// What the scrubber has found in a projection.
#[derive(Clone)]
pub struct Scrub {
    /// The projection.
    pub projection: &'static Projection,
    /// When all of it was last checked; `None` before the first time.
    pub checked_at: Option<Timestamp>,
    /// How many rows were checked then; events, of a history.
    pub checked: u64,
    /// When something in it was last repaired.
    pub repaired_at: Option<Timestamp>,
    /// How many rows were ever repaired.
    pub repaired: u64,
    /// Some of those that were repaired last.
    pub examples: Vec<String>,
}

/// Returns what the scrubber has found in each projection where it was.
///
/// # Errors
/// When Postgres does not answer.
pub async fn scrubs(database: &Database, shard: u16) -> Result<Vec<Scrub>, DatabaseFailure> {
    let read = async {
        let connection = database.connection().await?;
        let statement = connection.prepare_cached("select * from platform.scrubs where shard = $1").await?;
        let rows = connection.query(&statement, &[&i32::from(shard)]).await?;
        let found = rows.iter().filter_map(|row| {
            let (name, version): (&str, i32) = (row.get("projection"), row.get("version"));
            let projection = PROJECTIONS.iter().find(|known| known.name == name && known.version == version)?;
            Some(Scrub {
                projection,
                checked_at: row.try_get("checked_at").ok().flatten(),
                checked: unsigned(row.get("checked")),
                repaired_at: row.try_get("repaired_at").ok().flatten(),
                repaired: unsigned(row.get("repaired")),
                examples: row.try_get("examples").unwrap_or_default(),
            })
        });
        Ok(found.collect())
    };
    database.within(read).await
}

/// Notes that all of a projection was checked.
///
/// # Errors
/// When Postgres does not answer.
pub async fn note_checked(
    client: &impl GenericClient,
    shard: u16,
    projection: &Projection,
    checked: u64,
) -> Result<(), DatabaseFailure> {
    let text = "insert into platform.scrubs values ($1, $2, $3, now(), $4, null, 0, '{}') \
                on conflict (projection, version, shard) do update set checked_at = now(), checked = excluded.checked";
    let Projection { name, version, .. } = projection;
    client.execute(text, &[name, version, &i32::from(shard), &signed(checked)]).await?;
    Ok(())
}

/// Notes which documents of a search index were written anew.
///
/// # Errors
/// When Postgres does not answer.
pub async fn note_written(
    database: &Database,
    shard: u16,
    projection: &Projection,
    names: &[String],
) -> Result<(), DatabaseFailure> {
    let note = async {
        let mut connection = database.connection().await?;
        let transaction = connection.transaction().await?;
        note_repaired(&transaction, shard, projection, names).await?;
        Ok(transaction.commit().await?)
    };
    database.within(note).await
}

/// Notes what is repaired, in the transaction that repairs it.
pub(super) async fn note_repaired(
    transaction: &Transaction<'_>,
    shard: u16,
    projection: &Projection,
    names: &[String],
) -> Result<(), DatabaseFailure> {
    let text = "insert into platform.scrubs as s values ($1, $2, $3, null, 0, now(), $4, $5) \
                on conflict (projection, version, shard) do update \
                set repaired_at = now(), repaired = s.repaired + excluded.repaired, examples = excluded.examples";
    let Projection { name, version, .. } = projection;
    let examples = &names[..names.len().min(EXAMPLES)];
    transaction.execute(text, &[name, version, &i32::from(shard), &signed(names.len() as u64), &examples]).await?;
    Ok(())
}
