//! How a table is laid out in Postgres: its columns, and the text of every statement that writes or reads full rows.
//!
//! Only [`crate::read_model`] runs the statements; it gives the parameters in the order of [`COMMON`].

use domain::column::{Definition, Kind, Lookup};

use super::Table;

/// The columns that every table has, with their types.
const COMMON: [(&str, &str); 8] = [
    ("instance_id", TEXT),
    ("id", TEXT),
    ("owner_type", "smallint"),
    ("owner_id", TEXT),
    ("sequence", "bigint"),
    ("created_at", "timestamptz"),
    ("changed_at", "timestamptz"),
    (STATE, "json"),
];
/// How many of these columns are the key.
const KEY: usize = 2;
const TEXT: &str = "text collate \"C\"";
/// The column that has the resource itself.
const STATE: &str = "state";

/// The columns that are read of a row, in addition to its instance.
const FOUND: [&str; 6] = ["id", "owner_type", "owner_id", "sequence", "changed_at", "state::text"];

/// One table in the schema of its projection, and the statements on its rows.
pub(crate) struct Layout {
    /// The aggregate whose rows it has.
    pub(crate) aggregate_type: &'static str,
    /// Its columns beyond those that every table has.
    pub(crate) columns: Vec<Definition>,
    /// Finds one row and the checkpoint of the table, in one statement.
    pub(crate) get: String,
    /// Reads every row.
    pub(crate) all: String,
    /// Reads rows with all of their columns, by their keys.
    pub(crate) complete: String,
    /// Reads a page of keys from one on, and whether history knows their aggregates.
    pub(crate) keys_with_events: String,
    /// Deletes rows by their keys.
    pub(crate) delete: String,
    /// Deletes rows that ended before a time, where rows end by themselves.
    pub(crate) forget: Option<String>,
    /// Writes rows, whether they are there already or not.
    pub(crate) upsert: String,
}

impl Layout {
    /// The layout of a table in a schema, given the schema of the history of its events.
    pub(crate) fn new(schema: &str, history: &str, table: &Table) -> Self {
        let (name, columns) = (qualified(schema, table), (table.columns)());
        Self {
            aggregate_type: table.aggregate_type,
            get: get(&name, table.aggregate_type),
            all: select(&name, ""),
            complete: complete(&name, &columns),
            keys_with_events: keys_with_events(&name, history, table.aggregate_type),
            delete: delete(&name),
            forget: (table.ends_at)().map(|column| format!("delete from {name} where {} < $1", column.name)),
            upsert: upsert(&name, &columns),
            columns,
        }
    }
}

/// The name of a table with its schema.
pub(crate) fn qualified(schema: &str, table: &Table) -> String {
    format!("{schema}.{}", (table.name)())
}

/// The SQL that creates a table and its indexes where they are missing; `deploy/schema.sql` is the reviewed output.
pub(crate) fn create(schema: &str, table: &Table) -> String {
    let columns = (table.columns)();
    let lines: String = typed(&columns).map(|(name, kind)| format!("  {name} {kind} not null,\n")).collect();
    let indexes: String = columns.iter().filter_map(|column| index(schema, table, column)).collect();
    let name = qualified(schema, table);
    format!("create table if not exists {name} (\n{lines}  primary key (instance_id, id)\n);\n{indexes}")
}

fn index(schema: &str, table: &Table, column: &Definition) -> Option<String> {
    let name = column.name;
    let columns = match column.lookup {
        Lookup::None => return None,
        Lookup::Instance => format!("instance_id, {name}"),
        Lookup::System => name.to_owned(),
    };
    let (index, table) = (format!("{}_by_{name}", (table.name)()), qualified(schema, table));
    Some(format!("create index if not exists {index} on {table} ({columns});\n"))
}

/// Every column with its type.
fn typed(own: &[Definition]) -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMON.into_iter().chain(own.iter().map(|column| (column.name, sql_type(column.kind))))
}

const fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => TEXT,
        Kind::Integer => "bigint",
        Kind::Bool => "boolean",
    }
}

/// A statement that reads complete rows of the table `name` under a condition.
pub(crate) fn select(name: &str, condition: &str) -> String {
    format!("select instance_id, {} from {name} {condition}", FOUND.join(", "))
}

/// Finds one row and the checkpoint. A parked resource counts as processed up to the event before the failed one.
fn get(name: &str, aggregate_type: &str) -> String {
    let found = FOUND.map(|column| format!("r.{column}")).join(", ");
    format!(
        "select least(c.sequence, f.sequence - 1) as processed, f.sequence is not null as is_parked, c.committed_at, {found} \
         from platform.checkpoints c left join {name} r on r.instance_id = $1 and r.id = $2 \
         left join platform.failed_events f on f.projection = c.projection and f.version = c.version and f.shard = c.shard \
         and f.instance_id = $1 and f.aggregate_type = '{aggregate_type}' and f.aggregate_id = $2 \
         where c.projection = $3 and c.version = $4 and c.shard = $5"
    )
}

/// Reads rows with all of their columns.
fn complete(name: &str, own: &[Definition]) -> String {
    let columns =
        typed(own).map(|(name, _)| if name == STATE { "t.state::text".to_owned() } else { format!("t.{name}") });
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!(
        "select {columns} from {name} t join unnest($1::text[], $2::text[]) as k (i, d) on t.instance_id = k.i and t.id = k.d"
    )
}

/// Reads a page of keys from one on, and whether history has an event of their aggregates.
fn keys_with_events(name: &str, history: &str, aggregate_type: &str) -> String {
    format!(
        "select instance_id, id, exists (select from {history}.events e where e.instance_id = t.instance_id \
         and e.aggregate_type = '{aggregate_type}' and e.aggregate_id = t.id) as is_known \
         from (select instance_id, id from {name} where (instance_id, id) >= ($1, $2) order by instance_id, id limit $3) t"
    )
}

fn delete(name: &str) -> String {
    format!(
        "delete from {name} as t using unnest($1::text[], $2::text[]) as k (i, d) where t.instance_id = k.i and t.id = k.d"
    )
}

fn upsert(name: &str, own: &[Definition]) -> String {
    let all: Vec<(&str, &str)> = typed(own).collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    // An array type has no collation, and JSON is passed as text.
    let parameters = all.iter().map(|(_, kind)| match *kind {
        TEXT | "json" => "text",
        kind => kind,
    });
    let arrays: Vec<String> = (1..).zip(parameters).map(|(number, kind)| format!("${number}::{kind}[]")).collect();
    let values: Vec<&str> = names.iter().map(|name| if *name == STATE { "state::json" } else { name }).collect();
    let changed: Vec<String> = names[KEY..].iter().map(|name| format!("{name} = excluded.{name}")).collect();
    let (names, arrays) = (names.join(", "), arrays.join(", "));
    format!(
        "insert into {name} ({names}) select {} from unnest({arrays}) as u ({names}) \
         on conflict (instance_id, id) do update set {}",
        values.join(", "),
        changed.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use domain::resource::data_key::DataKey;

    use super::{super::standard, *};

    #[test]
    fn a_row_is_written_whole_and_only_its_key_stays() {
        let text = upsert("s.data_keys", &(standard::<DataKey>().columns)());
        let columns = "instance_id, id, owner_type, owner_id, sequence, created_at, changed_at, state, purpose";
        assert_eq!(
            text,
            format!(
                "insert into s.data_keys ({columns}) select {} from unnest($1::text[], $2::text[], $3::smallint[], \
                 $4::text[], $5::bigint[], $6::timestamptz[], $7::timestamptz[], $8::text[], $9::text[]) as u ({columns}) \
                 on conflict (instance_id, id) do update set owner_type = excluded.owner_type, \
                 owner_id = excluded.owner_id, sequence = excluded.sequence, created_at = excluded.created_at, \
                 changed_at = excluded.changed_at, state = excluded.state, purpose = excluded.purpose",
                columns.replace(" state,", " state::json,")
            )
        );
    }
}
