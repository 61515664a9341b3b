//! One transaction: the checkpoint and the rows of a batch.

use std::sync::Arc;

use base::fault;
use deadpool_postgres::Transaction;
use domain::column::{Kind as ColumnKind, Value};
use eventlog::record::{Recorded, Undecodable, owner_type};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use view::{
    checkpoint::{Checkpoint, Fenced, signed},
    database::{self, Database},
    history,
    projection::{Kind, Projection},
    table::{Change, Row, Table, sql_type},
};

use crate::batch::Batch;

/// A batch that was not applied. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchFailure {
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

impl From<tokio_postgres::Error> for BatchFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Moves the checkpoint to the end of a batch and applies that, both or neither.
pub(crate) async fn project(
    database: &Database,
    projection: &Projection,
    shard: u16,
    checkpoint: Checkpoint,
    batch: &Batch,
) -> Result<Checkpoint, BatchFailure> {
    let committed_at = batch.committed_at();
    let changes = changes(projection, &batch.events)?;
    let mut connection = database.connection().await?;
    let moved = if changes.is_empty() && !matches!(projection.kind, Kind::History) {
        // Most records concern few projections; to the others one statement is transaction enough.
        fault::point("project.applied");
        checkpoint.advance(&connection, projection, shard, batch.end, committed_at).await?
    } else {
        let transaction = connection.transaction().await?;
        let moved = checkpoint.advance(&transaction, projection, shard, batch.end, committed_at).await?;
        if moved.is_ok() {
            if matches!(projection.kind, Kind::History) {
                history::apply(&transaction, &batch.records, &batch.events).await?;
                fault::point("history.applied");
            }
            for (table, changes) in changes {
                apply(&transaction, &projection.schema_name(), table, changes).await?;
            }
            fault::point("project.applied");
            transaction.commit().await.map_err(database::Failure::from)?;
        }
        moved
    };
    fault::point("project.committed");
    moved.map_err(|Fenced| BatchFailure::Fenced)
}

/// What the events change, by table; the tables that they do not concern are not among them.
fn changes<'a>(
    projection: &'a Projection,
    events: &[Arc<Recorded>],
) -> Result<Vec<(&'a Table, Vec<Change>)>, Undecodable> {
    // History has tables of its own, and indexes are kept in files.
    let Kind::Rows(tables) = &projection.kind else { return Ok(vec![]) };
    let folded = tables.iter().map(|table| Ok((table, table.fold(events)?)));
    folded.filter(|folded| !matches!(folded, Ok((_, changes)) if changes.is_empty())).collect()
}

async fn apply(
    transaction: &Transaction<'_>,
    schema: &str,
    table: &Table,
    changes: Vec<Change>,
) -> Result<(), BatchFailure> {
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
