//! The schemas of the read models in Postgres: their SQL, and the creation of what is missing.

use deadpool_postgres::GenericClient;

use crate::{
    checkpoint::{Checkpoint, Expected, are_all},
    database::{Database, DatabaseFailure},
    generation,
    projection::{PROJECTIONS, Projection},
};

/// The tables that all projections share.
const OF_ALL: &str = "\
create schema if not exists platform;

create table if not exists platform.checkpoints (
  projection text collate \"C\" not null,
  version integer not null,
  shard integer not null,
  epoch bigint not null,
  sequence bigint not null,
  stream_sequence bigint not null,
  digest bytea not null,
  committed_at timestamptz not null,
  primary key (projection, version, shard)
);

create table if not exists platform.generations (
  projection text collate \"C\" not null,
  version integer not null,
  place text collate \"C\" not null,
  since timestamptz not null,
  asked_at timestamptz,
  verified_at timestamptz,
  differing bigint,
  examples text[],
  primary key (projection, version, place)
);

create table if not exists platform.scrubs (
  projection text collate \"C\" not null,
  version integer not null,
  shard integer not null,
  checked_at timestamptz,
  checked bigint not null,
  repaired_at timestamptz,
  repaired bigint not null,
  examples text[] not null,
  primary key (projection, version, shard)
);

create table if not exists platform.heartbeats (
  shard integer primary key,
  stream_sequence bigint not null,
  heard_at timestamptz not null
);

create table if not exists platform.session_heartbeats (
  shard integer primary key,
  stream_sequence bigint not null,
  heard_at timestamptz not null
);

create table if not exists platform.failed_events (
  projection text collate \"C\" not null,
  version integer not null,
  shard integer not null,
  instance_id text collate \"C\" not null,
  aggregate_type text collate \"C\" not null,
  aggregate_id text collate \"C\" not null,
  id bigint not null,
  sequence bigint not null,
  from_sequence bigint not null,
  from_stream_sequence bigint not null,
  from_digest bytea not null,
  failure_count bigint not null,
  error text not null,
  first_failed timestamptz not null,
  last_failed timestamptz not null,
  primary key (projection, version, shard, instance_id, aggregate_type, aggregate_id)
);

create table if not exists platform.given_up_deliveries (
  shard integer not null,
  place bigint not null,
  id bigint not null,
  instance_id text collate \"C\" not null,
  aggregate_type text collate \"C\" not null,
  aggregate_id text collate \"C\" not null,
  sequence bigint not null,
  target_id text collate \"C\" not null,
  failure_count bigint not null,
  error text not null,
  last_failed timestamptz not null,
  primary key (shard, place)
);
create index if not exists given_up_deliveries_by_id on platform.given_up_deliveries (id);
create index if not exists given_up_deliveries_by_time on platform.given_up_deliveries (instance_id, last_failed);
create index if not exists given_up_deliveries_in_order on platform.given_up_deliveries (shard, instance_id, sequence, place);
create index if not exists given_up_deliveries_of_all on platform.given_up_deliveries (shard, sequence, place);

create table if not exists platform.first_failures (
  shard integer not null,
  place bigint not null,
  first_failed timestamptz not null,
  primary key (shard, place)
);

do $outer$ begin if to_regprocedure('platform.discarded_1(text, bytea)') is null then
create function platform.discarded_1(named text, payload bytea)
returns table (id bigint, view text, instance_id text, aggregate_type text, aggregate_id text, sequence bigint, target_id text,
  failure_count bigint, error text, first_failed timestamptz, last_failed timestamptz, reason text)
language plpgsql immutable rows 1 as $$
declare
  d jsonb;
begin
  d := convert_from(payload, 'UTF8')::jsonb;
  if (d->>'view' || (d->>'instance_id') || (d->>'aggregate_type') || (d->>'aggregate_id') || (d->>'sequence')) is null then
    return;
  end if;
  return query select named::bigint, d->>'view', d->>'instance_id', d->>'aggregate_type', d->>'aggregate_id', (d->>'sequence')::bigint,
    coalesce(d->>'target_id', ''), coalesce((d->>'tries')::bigint, 0), coalesce(d->>'error', ''),
    to_timestamp((d->>'first_failed')::bigint / 1000000.0), to_timestamp((d->>'last_failed')::bigint / 1000000.0),
    coalesce(d->>'reason', '');
exception when data_exception or program_limit_exceeded then
  return;
end $$;
end if; end $outer$;

create table if not exists platform.retries (
  id bigint primary key,
  decided_in text collate \"C\" not null,
  actor text not null,
  decided_at timestamptz not null
);

create table if not exists platform.target_attempts (
  instance_id text collate \"C\" not null,
  target_id text collate \"C\" not null,
  attempts jsonb not null,
  noted_at timestamptz not null,
  primary key (instance_id, target_id)
);
";

/// The SQL of all schemas; `deploy/schema.sql` is its reviewed print.
pub fn sql() -> String {
    let projections = PROJECTIONS.iter().filter_map(Projection::schema);
    std::iter::once(OF_ALL.to_owned()).chain(projections).collect::<Vec<_>>().join("\n")
}

/// Creates what is missing of the schemas. Nodes that start at the same time wait for each other.
///
/// A projection that lacks a table begins again: its checkpoint counts rows that are gone. A complete one is left
/// alone: it may be at work, and even `if not exists` waits for its locks.
pub async fn prepare(database: &Database) -> Result<(), DatabaseFailure> {
    let mut connection = database.connection().await?;
    let transaction = connection.transaction().await?;
    transaction.batch_execute("set local statement_timeout = 0; select pg_advisory_xact_lock(7105771)").await?;
    transaction.batch_execute(OF_ALL).await?;
    for projection in PROJECTIONS.iter() {
        let Some(schema) = projection.schema() else { continue };
        let has_tables = has_all(&transaction, projection.tables()).await?;
        if !has_tables {
            Checkpoint::reset(&transaction, projection).await?;
            generation::begins(&transaction, projection).await?;
        }
        if !has_tables || !has_all(&transaction, projection.indexes()).await? {
            transaction.batch_execute(&schema).await?;
        }
    }
    Ok(transaction.commit().await?)
}

/// Whether no table of a projection is missing.
pub async fn is_complete(database: &Database, projection: &Projection) -> Result<bool, DatabaseFailure> {
    has_all(&*database.connection().await?, needed(projection).collect()).await
}

/// Whether no table of several projections is missing, and their checkpoints are where they are expected.
///
/// # Errors
/// When Postgres cannot be asked.
pub async fn are_intact(database: &Database, shard: u16, expected: &[Expected]) -> Result<bool, DatabaseFailure> {
    let connection = database.connection().await?;
    let tables = expected.iter().flat_map(|it| needed(it.projection)).collect();
    Ok(has_all(&*connection, tables).await? && are_all(&*connection, shard, expected).await?)
}

fn needed(projection: &Projection) -> impl Iterator<Item = String> {
    let of_all = ["checkpoints", "generations", "failed_events", "retries"].map(|name| format!("platform.{name}"));
    projection.tables().into_iter().chain(of_all)
}

async fn has_all(client: &impl GenericClient, tables: Vec<String>) -> Result<bool, DatabaseFailure> {
    let text = "select coalesce(bool_and(to_regclass(name) is not null), true) from unnest($1::text[]) as t (name)";
    let statement = client.prepare_cached(text).await?;
    Ok(client.query_one(&statement, &[&tables]).await?.get(0))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_reviewed_schema_is_the_one_in_use() {
        let reviewed = include_str!("../../../deploy/schema.sql");
        assert!(reviewed == super::sql(), "deploy/schema.sql is not what COLUMNS say; `make bless` rewrites it");
    }
}
