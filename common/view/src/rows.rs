//! Reading rows of resources, with the sequence that they were read at.

use domain::{context::Owner, standard::Resource};
use eventlog::record::owner_of;
use jiff::Timestamp;

use crate::{
    checkpoint::unsigned,
    database::{Database, Failure},
    projection::Projection,
};

/// An answer of a read model and how fresh it is, both from one snapshot.
#[derive(Debug)]
pub struct Fresh<T> {
    /// The sequence that the read model had processed.
    pub processed: u64,
    /// When the event of that sequence was committed.
    pub timestamp: Timestamp,
    /// What was asked for.
    pub answer: T,
}

/// A resource as the read model has it.
#[derive(Debug, Clone)]
pub struct Found<R> {
    /// The id.
    pub id: String,
    /// The context that it belongs to.
    pub owner: Owner,
    /// The sequence of its last event.
    pub sequence: u64,
    /// When its last event was committed.
    pub changed_at: Timestamp,
    /// The resource.
    pub state: R,
}

/// The resource with this id of an instance, which lives in this shard.
pub async fn get<R: Resource>(
    database: &Database,
    projection: &Projection,
    shard: u16,
    instance_id: &str,
    id: &str,
) -> Result<Fresh<Option<Found<R>>>, Failure> {
    // Postgres has no U+0000, so no id has one; an empty id is nobody's.
    let id = if id.contains('\0') { "" } else { id };
    database.within(read(database, projection, shard, instance_id, id)).await
}

async fn read<R: Resource>(
    database: &Database,
    projection: &Projection,
    shard: u16,
    instance_id: &str,
    id: &str,
) -> Result<Fresh<Option<Found<R>>>, Failure> {
    let (schema, table) = (projection.schema_name(), R::NAME);
    let text = format!(
        "select c.sequence as processed, c.committed_at, r.id, r.owner_type, r.owner_id, r.sequence, r.changed_at, \
         r.state::text from platform.checkpoints c left join {schema}.{table}s r on r.instance_id = $1 and r.id = $2 \
         where c.projection = $3 and c.version = $4 and c.shard = $5"
    );
    let connection = database.connection().await?;
    let statement = connection.prepare_cached(&text).await?;
    let Projection { name, version, .. } = projection;
    let row = connection.query_opt(&statement, &[&instance_id, &id, name, version, &i32::from(shard)]).await?;
    let Some(row) = row else {
        return Ok(Fresh { processed: 0, timestamp: Timestamp::UNIX_EPOCH, answer: None });
    };
    let found = row.get::<_, Option<String>>("id").map(|id| found(&row, id, instance_id)).transpose()?;
    Ok(Fresh { processed: unsigned(row.get("processed")), timestamp: row.get("committed_at"), answer: found })
}

fn found<R: Resource>(row: &tokio_postgres::Row, id: String, instance_id: &str) -> Result<Found<R>, Failure> {
    let owner = owner_of(i32::from(row.get::<_, i16>("owner_type")), row.get("owner_id"));
    let state = serde_json::from_str(row.get("state")).map_err(|_| Failure::Inconsistent {
        table: R::NAME,
        instance_id: instance_id.to_owned(),
        id: id.clone(),
    })?;
    Ok(Found { id, owner, sequence: unsigned(row.get("sequence")), changed_at: row.get("changed_at"), state })
}
