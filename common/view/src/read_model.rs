//! The rows of a projection in Postgres: written in batches, and read one by one, all, or under a condition.
//!
//! Together with [`crate::table`] it is the one place that knows how a row is stored. Statements that join tables are
//! not here: they name their tables by [`Projection::sql`].

use std::{
    collections::HashMap,
    marker::PhantomData,
    sync::{LazyLock, OnceLock},
};

use deadpool_postgres::{Client, GenericClient, Transaction};
use domain::{
    column::{Definition, Kind as ColumnKind, Value},
    standard::Resource,
};
use eventlog::record::{AggregateKey, Position, owner_of, owner_type};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio_postgres::types::ToSql;

use crate::{
    checkpoint::{Checkpoint, Fenced, signed, unsigned},
    database::{Database, DatabaseFailure},
    projection::{Kind, Projection, ProjectionRef, history_of, with_beside},
    rows::{Fresh, Stored, StoredResource},
    table::{
        Change, Row, Table,
        layout::{self, Layout},
    },
};

/// The rows of a projection in Postgres, as one shard writes and reads them.
#[derive(Clone, Copy)]
pub struct ReadModel<'a> {
    /// The projection.
    pub projection: &'a Projection,
    shard: u16,
}

/// The key of a row.
#[derive(Debug, Clone, Copy)]
pub struct RowKey<'a> {
    /// The type of the aggregate.
    pub aggregate_type: &'static str,
    /// The instance.
    pub instance_id: &'a str,
    /// The id of the aggregate.
    pub id: &'a str,
}

impl<'a> ReadModel<'a> {
    /// The read model of a projection for a shard.
    pub const fn new(projection: &'a Projection, shard: u16) -> Self {
        Self { projection, shard }
    }

    /// Takes the projection over: earlier workers can change nothing from then on. A worker that begins at the
    /// beginning of the log begins with empty tables, whatever was left in them.
    pub async fn take_over(self, client: &mut Client) -> Result<Checkpoint, DatabaseFailure> {
        Checkpoint::take_over(client, self.projection, self.shard).await
    }

    /// The checkpoint as the snapshot of this client sees it; `None` before the projection first ran.
    pub async fn checkpoint(self, client: &impl GenericClient) -> Result<Option<Checkpoint>, DatabaseFailure> {
        Checkpoint::read(client, self.projection, self.shard).await
    }

    /// Moves the checkpoint, if it still is `from`. In a transaction this comes before the rows, so that a worker that
    /// takes over can find the transaction by its lock on the checkpoint.
    pub async fn advance(
        self,
        client: &impl GenericClient,
        from: Checkpoint,
        position: Position,
        committed_at: Timestamp,
    ) -> Result<Result<Checkpoint, Fenced>, DatabaseFailure> {
        from.advance(client, self.projection, self.shard, Checkpoint { position, committed_at, ..from }).await
    }

    /// Writes what has changed in one of the tables.
    pub async fn apply(
        self,
        transaction: &Transaction<'_>,
        table: &Table,
        changes: &[Change],
    ) -> Result<(), DatabaseFailure> {
        let layout = layout(self.projection, table.aggregate_type);
        let gone: Vec<&Change> = changes.iter().filter(|change| change.row.is_none()).collect();
        if !gone.is_empty() {
            let instances: Vec<&str> = gone.iter().map(|change| change.instance_id.as_str()).collect();
            let ids: Vec<&str> = gone.iter().map(|change| change.id.as_str()).collect();
            let statement = transaction.prepare_cached(&layout.delete).await?;
            transaction.execute(&statement, &[&instances, &ids]).await?;
        }
        let rows: Vec<(&Change, &Row)> =
            changes.iter().filter_map(|change| change.row.as_ref().map(|row| (change, row))).collect();
        if !rows.is_empty() {
            let parameters = parameters(layout, &rows);
            let borrowed: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| &**parameter as _).collect();
            let statement = transaction.prepare_cached(&layout.upsert).await?;
            transaction.execute(&statement, &borrowed).await?;
        }
        Ok(())
    }

    /// Deletes the rows of a table that ended before a time, in milliseconds since the Unix epoch.
    pub async fn forget(
        self,
        transaction: &Transaction<'_>,
        table: &Table,
        before: i64,
    ) -> Result<(), DatabaseFailure> {
        if let Some(forget) = &layout(self.projection, table.aggregate_type).forget {
            let statement = transaction.prepare_cached(forget).await?;
            transaction.execute(&statement, &[&before]).await?;
        }
        Ok(())
    }

    /// A row, and how fresh that is.
    pub async fn get(
        self,
        database: &Database,
        key: RowKey<'_>,
    ) -> Result<Fresh<Option<Stored<Box<RawValue>>>>, DatabaseFailure> {
        // Postgres cannot store U+0000, so no id has one; nothing has an empty id.
        let id = if key.id.contains('\0') { "" } else { key.id };
        database.within(self.read(database, RowKey { id, ..key })).await
    }

    async fn read(
        self,
        database: &Database,
        RowKey { aggregate_type, instance_id, id }: RowKey<'_>,
    ) -> Result<Fresh<Option<Stored<Box<RawValue>>>>, DatabaseFailure> {
        let connection = database.connection().await?;
        let statement = connection.prepare_cached(&layout(self.projection, aggregate_type).get).await?;
        let Projection { name, version, .. } = self.projection;
        let row = connection.query_opt(&statement, &[&instance_id, &id, name, version, &i32::from(self.shard)]).await?;
        let Some(row) = row else {
            return Ok(Fresh { processed: 0, timestamp: Timestamp::UNIX_EPOCH, is_parked: false, answer: None });
        };
        let id: Option<String> = row.get("id");
        let found = id.map(|id| decode(aggregate_type, instance_id, id, &row)).transpose()?;
        let answer = found.map(|found| Stored { instance_id: instance_id.to_owned(), found });
        let (processed, timestamp) = (unsigned(row.get("processed")), row.get("committed_at"));
        Ok(Fresh { processed, timestamp, is_parked: row.get("is_parked"), answer })
    }

    /// Every resource of a kind, of all instances.
    pub async fn all<R: Resource>(self, client: &impl GenericClient) -> Result<Vec<Stored<R>>, DatabaseFailure> {
        stored(client, R::NAME, &layout(self.projection, R::NAME).all, &[]).await
    }

    /// The rows with these keys, with all of their columns.
    pub async fn rows(
        self,
        client: &impl GenericClient,
        table: &Table,
        keys: &[&AggregateKey],
    ) -> Result<HashMap<AggregateKey, Row>, DatabaseFailure> {
        let layout = layout(self.projection, table.aggregate_type);
        let statement = client.prepare_cached(&layout.complete).await?;
        let instances: Vec<&str> = keys.iter().map(|key| key.instance_id.as_str()).collect();
        let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
        let found = client.query(&statement, &[&instances, &ids]).await?;
        Ok(found.iter().map(|row| (key(layout, row), complete_row(layout, row))).collect())
    }

    /// A page of the keys of a table from one on, in order, and whether history has events of their aggregates.
    pub(crate) async fn keys_from(
        self,
        client: &impl GenericClient,
        table: &Table,
        first: &AggregateKey,
        limit: u32,
    ) -> Result<Vec<(AggregateKey, bool)>, DatabaseFailure> {
        let layout = layout(self.projection, table.aggregate_type);
        let statement = client.prepare_cached(&layout.keys_with_events).await?;
        let found = client.query(&statement, &[&first.instance_id, &first.id, &i64::from(limit)]).await?;
        Ok(found.iter().map(|row| (key(layout, row), row.get("is_known"))).collect())
    }

    /// Every row of an aggregate's table, as JSON.
    pub(crate) async fn every(
        self,
        client: &impl GenericClient,
        aggregate_type: &'static str,
    ) -> Result<Vec<Stored<serde_json::Value>>, DatabaseFailure> {
        stored(client, aggregate_type, &layout(self.projection, aggregate_type).all, &[]).await
    }
}

/// A statement that finds rows of one table; its text is made when it is first needed.
pub struct Select<R> {
    projection: &'static ProjectionRef,
    aggregate_type: &'static str,
    condition: &'static str,
    text: OnceLock<String>,
    resource: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Select<R> {
    /// A statement for rows of an aggregate's table under a condition, which is all that follows the name of the table.
    pub const fn new(
        projection: &'static ProjectionRef,
        aggregate_type: &'static str,
        condition: &'static str,
    ) -> Self {
        Self { projection, aggregate_type, condition, text: OnceLock::new(), resource: PhantomData }
    }

    /// Returns the rows that the statement finds.
    pub async fn rows(
        &self,
        client: &impl GenericClient,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Stored<R>>, DatabaseFailure> {
        let name = format!("{{{}}}", self.aggregate_type);
        let text = self.text.get_or_init(|| self.projection.sql(&layout::select(&name, self.condition)));
        stored(client, self.aggregate_type, text, parameters).await
    }
}

/// The layout of an aggregate's table in a projection.
fn layout(projection: &Projection, aggregate_type: &str) -> &'static Layout {
    static LAYOUTS: LazyLock<Vec<(&'static Projection, Layout)>> = LazyLock::new(|| {
        let tables = with_beside().filter_map(|projection| match &projection.kind {
            Kind::Rows(tables) => Some((projection, tables)),
            Kind::History | Kind::Index(_) => None,
        });
        let laid_out = |(projection, tables): (&'static Projection, &'static Vec<Table>)| {
            let history = history_of(projection.class).schema_name();
            tables.iter().map(move |table| (projection, Layout::new(&projection.schema_name(), &history, table)))
        };
        tables.flat_map(laid_out).collect()
    });
    let is_wanted = |(of, layout): &&(&Projection, Layout)| {
        layout.aggregate_type == aggregate_type && of.name == projection.name && of.version == projection.version
    };
    let (_, layout) = LAYOUTS.iter().find(is_wanted).expect("a projection is asked for rows of its own tables");
    layout
}

async fn stored<R: DeserializeOwned>(
    client: &impl GenericClient,
    aggregate_type: &'static str,
    text: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Stored<R>>, DatabaseFailure> {
    let statement = client.prepare_cached(text).await?;
    let rows = client.query(&statement, parameters).await?;
    let stored = rows.iter().map(|row| {
        let instance_id: String = row.get("instance_id");
        let found = decode(aggregate_type, &instance_id, row.get("id"), row)?;
        Ok(Stored { instance_id, found })
    });
    stored.collect()
}

fn decode<R: DeserializeOwned>(
    aggregate_type: &'static str,
    instance_id: &str,
    id: String,
    row: &tokio_postgres::Row,
) -> Result<StoredResource<R>, DatabaseFailure> {
    let owner = owner_of(i32::from(row.get::<_, i16>("owner_type")), row.get("owner_id"));
    let Ok(state) = serde_json::from_str(row.get("state")) else {
        return Err(DatabaseFailure::Inconsistent { table: aggregate_type, instance_id: instance_id.to_owned(), id });
    };
    Ok(StoredResource { id, owner, sequence: unsigned(row.get("sequence")), changed_at: row.get("changed_at"), state })
}

/// The aggregate of a row.
fn key(layout: &Layout, row: &tokio_postgres::Row) -> AggregateKey {
    let (instance_id, id) = (row.get("instance_id"), row.get("id"));
    AggregateKey { instance_id, aggregate_type: layout.aggregate_type.to_owned(), id }
}

/// A row with all of its columns. A time that no event can have, such as `infinity`, is read as the earliest one.
fn complete_row(layout: &Layout, row: &tokio_postgres::Row) -> Row {
    let value = |column: &Definition| match column.kind {
        ColumnKind::Text => Value::Text(row.get(column.name)),
        ColumnKind::Integer => Value::Integer(row.get(column.name)),
        ColumnKind::Bool => Value::Bool(row.get(column.name)),
    };
    let time = |name: &str| row.try_get(name).unwrap_or(Timestamp::MIN);
    Row {
        owner: owner_of(i32::from(row.get::<_, i16>("owner_type")), row.get("owner_id")),
        sequence: unsigned(row.get("sequence")),
        created_at: time("created_at"),
        changed_at: time("changed_at"),
        state: row.get("state"),
        values: layout.columns.iter().map(value).collect(),
    }
}

type Parameter = Box<dyn ToSql + Sync + Send>;

/// The rows as an array for each column of the layout.
fn parameters(layout: &Layout, rows: &[(&Change, &Row)]) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = vec![
        column(rows, |change, _| change.instance_id.clone()),
        column(rows, |change, _| change.id.clone()),
        column(rows, |_, row| i16::try_from(owner_type(row.owner.kind)).unwrap_or_default()),
        column(rows, |_, row| row.owner.id.clone()),
        column(rows, |_, row| signed(row.sequence)),
        column::<Timestamp>(rows, |_, row| row.created_at),
        column::<Timestamp>(rows, |_, row| row.changed_at),
        column(rows, |_, row| row.state.clone()),
    ];
    for (index, wanted) in layout.columns.iter().enumerate() {
        let of = |row: &Row| row.values.get(index).cloned();
        parameters.push(match wanted.kind {
            ColumnKind::Text => {
                column(rows, |_, row| if let Some(Value::Text(text)) = of(row) { Some(text) } else { None })
            }
            ColumnKind::Integer => {
                column(rows, |_, row| if let Some(Value::Integer(number)) = of(row) { Some(number) } else { None })
            }
            ColumnKind::Bool => {
                column(rows, |_, row| if let Some(Value::Bool(bool)) = of(row) { Some(bool) } else { None })
            }
        });
    }
    parameters
}

fn column<T: ToSql + Sync + Send + 'static>(rows: &[(&Change, &Row)], value: impl Fn(&Change, &Row) -> T) -> Parameter {
    Box::new(rows.iter().map(|(change, row)| value(change, row)).collect::<Vec<T>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::ACCESS;

    #[test]
    fn a_table_is_found_by_its_aggregate_and_named_in_its_statements() {
        let text = &layout(&ACCESS, "membership").all;
        assert!(text.ends_with(&ACCESS.sql(" from {membership} ")), "{text}");
        assert_eq!(ACCESS.sql("{membership}"), format!("{}.memberships", ACCESS.schema_name()));
    }
}
