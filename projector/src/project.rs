//! One transaction: the rows of a batch and the checkpoint.

use deadpool_postgres::Transaction;
use domain::field::Kind as FieldKind;
use jiff::Timestamp;
use serde_json::Value;
use store::{
    checkpoint::{Checkpoint, Fenced, signed},
    database::{self, Database},
    fault, history,
    projection::{Kind, Projection},
    record::{Undecodable, owner_type},
    table::{Change, Row, Table, sql_type},
};
use tokio_postgres::types::ToSql;

use crate::batch::Batch;

/// A batch that was not applied. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// An event cannot be read.
    #[error(transparent)]
    Event(#[from] Undecodable),
    /// Postgres refused.
    #[error(transparent)]
    Database(#[from] database::Failure),
    /// The checkpoint is not the one that this worker left.
    #[error("the checkpoint was moved by another worker, or Postgres lost its last commits")]
    Fenced,
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Applies a batch and moves the checkpoint behind it, both or neither.
pub(crate) async fn project(
    database: &Database,
    projection: &Projection,
    shard: u16,
    checkpoint: Checkpoint,
    batch: &Batch,
) -> Result<Checkpoint, Failure> {
    let mut connection = database.connection().await?;
    let transaction = connection.transaction().await?;
    match &projection.kind {
        Kind::History => {
            history::apply(&transaction, &batch.records, &batch.events).await?;
            fault::point("history.applied");
        }
        Kind::Rows(tables) => {
            for table in *tables {
                apply(&transaction, &projection.schema_name(), table, table.fold(&batch.events)?).await?;
            }
        }
        // Indexes have units of their own, and their checkpoint is in their files.
        Kind::Index(_) => {}
    }
    fault::point("project.applied");
    let committed_at = batch.records.last().map_or(checkpoint.committed_at, store::record::Record::committed_at);
    let moved = checkpoint.advance(&transaction, projection, shard, batch.end, committed_at).await?;
    let moved = moved.map_err(|Fenced| Failure::Fenced)?;
    transaction.commit().await.map_err(database::Failure::from)?;
    fault::point("project.committed");
    Ok(moved)
}

async fn apply(
    transaction: &Transaction<'_>,
    schema: &str,
    table: &Table,
    changes: Vec<Change>,
) -> Result<(), Failure> {
    let name = format!("{schema}.{}", (table.name)());
    let gone: Vec<&Change> = changes.iter().filter(|change| change.row.is_none()).collect();
    if !gone.is_empty() {
        let text = format!(
            "delete from {name} as t using unnest($1::text[], $2::text[]) as k (i, d) where t.instance_id = k.i and t.id = k.d"
        );
        let instances: Vec<&str> = gone.iter().map(|change| change.instance_id.as_str()).collect();
        let ids: Vec<&str> = gone.iter().map(|change| change.id.as_str()).collect();
        let statement = transaction.prepare_cached(&text).await?;
        transaction.execute(&statement, &[&instances, &ids]).await?;
    }
    let rows: Vec<(&Change, &Row)> =
        changes.iter().filter_map(|change| change.row.as_ref().map(|row| (change, row))).collect();
    if !rows.is_empty() {
        let parameters = parameters(table, &rows);
        let borrowed: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| &**parameter as _).collect();
        let statement = transaction.prepare_cached(&upsert(&name, table)).await?;
        transaction.execute(&statement, &borrowed).await?;
    }
    Ok(())
}

/// The columns that every table has, and their types in a parameter.
const COMMON: [(&str, &str); 8] = [
    ("instance_id", "text"),
    ("id", "text"),
    ("owner_type", "smallint"),
    ("owner_id", "text"),
    ("sequence", "bigint"),
    ("created_at", "timestamptz"),
    ("changed_at", "timestamptz"),
    ("state", "text"),
];

fn upsert(name: &str, table: &Table) -> String {
    let columns = (table.columns)();
    let own = columns.iter().map(|column| (column.name, sql_type(column.kind).split(' ').next().unwrap_or_default()));
    let all: Vec<(&str, &str)> = COMMON.into_iter().chain(own).collect();
    let names = all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let arrays: Vec<String> = (1..).zip(&all).map(|(number, (_, kind))| format!("${number}::{kind}[]")).collect();
    let values = names.replace(", state", ", state::json");
    // The first two are the key.
    let changed: Vec<String> = all.iter().skip(2).map(|(name, _)| format!("{name} = excluded.{name}")).collect();
    format!(
        "insert into {name} ({names}) select {values} from unnest({}) as u ({names}) \
         on conflict (instance_id, id) do update set {}",
        arrays.join(", "),
        changed.join(", ")
    )
}

type Parameter = Box<dyn ToSql + Sync + Send>;

fn parameters(table: &Table, rows: &[(&Change, &Row)]) -> Vec<Parameter> {
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
    for (index, wanted) in (table.columns)().iter().enumerate() {
        let value = |row: &Row| row.values.get(index).cloned().unwrap_or(Value::Null);
        parameters.push(match wanted.kind {
            FieldKind::Text => column(rows, |_, row| value(row).as_str().map(str::to_owned)),
            FieldKind::Integer => column(rows, |_, row| value(row).as_i64()),
            FieldKind::Bool => column(rows, |_, row| value(row).as_bool()),
        });
    }
    parameters
}

fn column<T: ToSql + Sync + Send + 'static>(rows: &[(&Change, &Row)], value: impl Fn(&Change, &Row) -> T) -> Parameter {
    Box::new(rows.iter().map(|(change, row)| value(change, row)).collect::<Vec<T>>())
}
