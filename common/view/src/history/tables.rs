//! The tables of history.

use domain::log_class::LogClass;

/// The names of the tables.
pub(crate) const fn names(class: LogClass) -> &'static [&'static str] {
    match class {
        LogClass::Events => &["events", "claims", "referrers", "answers"],
        LogClass::Sessions => &["events", "answers"],
    }
}

/// The SQL that creates what is missing.
pub(crate) fn create(class: LogClass, schema: &str) -> String {
    let of_class = match class {
        LogClass::Events => names_of_others(schema),
        LogClass::Sessions => {
            format!("create index if not exists events_by_time on {schema}.events (aggregate_type, committed_at);\n\n")
        }
    };
    format!("{}{of_class}{}", events(schema), answers(schema))
}

fn events(schema: &str) -> String {
    format!(
        "create table if not exists {schema}.events (\n  instance_id text collate \"C\" not null,\n  \
         aggregate_type text collate \"C\" not null,\n  aggregate_id text collate \"C\" not null,\n  \
         version bigint not null,\n  sequence bigint not null,\n  event_id text not null,\n  type text not null,\n  \
         revision integer not null,\n  restores boolean not null,\n  owner_type smallint not null,\n  \
         owner_id text not null,\n  actor text not null,\n  committed_at timestamptz not null,\n  \
         created_at timestamptz not null,\n  payload bytea not null,\n  primary key (instance_id, aggregate_type, aggregate_id, version)\n);\n\
         create index if not exists events_by_sequence on {schema}.events (instance_id, sequence);\n\
         create index if not exists events_in_order on {schema}.events (sequence);\n\n"
    )
}

/// The tables of claims and of references.
fn names_of_others(schema: &str) -> String {
    format!(
        "create table if not exists {schema}.claims (\n  claim bytea primary key,\n  \
         instance_id text not null,\n  aggregate_type text not null,\n  aggregate_id text not null\n);\n\n\
         create table if not exists {schema}.referrers (\n  instance_id text collate \"C\" not null,\n  \
         referred_type text collate \"C\" not null,\n  referred_id text collate \"C\" not null,\n  \
         link text collate \"C\" not null,\n  aggregate_type text collate \"C\" not null,\n  \
         aggregate_id text collate \"C\" not null,\n  primary key (instance_id, referred_type, referred_id, link, \
         aggregate_type, aggregate_id)\n);\n\n"
    )
}

fn answers(schema: &str) -> String {
    format!(
        "create table if not exists {schema}.answers (\n  command_id bytea primary key,\n  \
         request_digest bytea not null,\n  answer bytea not null,\n  instance_id text not null,\n  \
         sequence bigint not null,\n  committed_at timestamptz not null\n);\n\
         create index if not exists answers_by_time on {schema}.answers (committed_at);\n"
    )
}
