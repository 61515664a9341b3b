//! Failed events as a relation of SQL, and conditions on them.

use std::sync::LazyLock;

use domain::{
    aggregate::Aggregate,
    failed_event::{FailedEvent, Filter, Retried},
};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use super::delivery::VIEW;
use crate::{
    keyring::SYSTEM,
    projection::{HISTORY, PROJECTIONS},
};

/// The parameters of a statement.
#[derive(Default)]
pub(super) struct Parameters(Vec<Box<dyn ToSql + Sync + Send>>);

impl Parameters {
    /// Adds one, and returns how the statement names it.
    pub(super) fn add(&mut self, parameter: impl ToSql + Sync + Send + 'static) -> String {
        self.0.push(Box::new(parameter));
        format!("${}", self.0.len())
    }

    /// All of them.
    pub(super) fn borrowed(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.0.iter().map(|parameter| &**parameter as _).collect()
    }
}

/// What waits in the versions of views that this build knows, and the deliveries that were given up.
pub(super) fn waiting(parameters: &mut Parameters) -> String {
    let names: Vec<&str> = PROJECTIONS.iter().map(|projection| projection.name).collect();
    let versions: Vec<i32> = PROJECTIONS.iter().map(|projection| projection.version).collect();
    let (names, versions) = (parameters.add(names), parameters.add(versions));
    format!(
        "(select id, projection, instance_id, aggregate_type, aggregate_id, sequence, failure_count, error, last_failed, \
         '' as target_id from platform.failed_events where (projection, version) in \
         (select * from unnest({names}::text[], {versions}::int[])) union all \
         select id, '{VIEW}', instance_id, aggregate_type, aggregate_id, sequence, failure_count, error, last_failed, \
         target_id from platform.failed_deliveries) f"
    )
}

/// What operators had left out, as history has it.
pub(super) fn left_out() -> &'static str {
    static RELATION: LazyLock<String> = LazyLock::new(|| {
        // It is made of nothing but discards, however Postgres orders conditions.
        HISTORY.sql(&format!(
            "(with discards as materialized (select aggregate_id, actor, committed_at, convert_from(payload, 'UTF8') as text \
             from {{schema}}.events where instance_id = '{SYSTEM}' and aggregate_type = '{name}' \
             and type = '{name}.discarded'), \
             read as materialized (select aggregate_id::bigint as id, actor, committed_at, text::json as it from discards) \
             select id, it->>'view' as projection, it->>'instance_id' as instance_id, \
             it->>'aggregate_type' as aggregate_type, it->>'aggregate_id' as aggregate_id, \
             (it->>'sequence')::bigint as sequence, coalesce((it->>'tries')::bigint, 1) as failure_count, \
             coalesce(it->>'error', '') as error, \
             timestamptz 'epoch' + coalesce((it->>'last_failed')::bigint, 0) * interval '1 microsecond' as last_failed, \
             coalesce(it->>'target', '') as target_id, actor, committed_at, it->>'reason' as reason from read) f",
            name = FailedEvent::NAME
        ))
    });
    &RELATION
}

/// A condition on them.
pub(super) fn condition(filter: &Filter, parameters: &mut Parameters) -> String {
    let at = |microseconds: i64| Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::MAX);
    match filter {
        Filter::Id(id) => format!("f.id = {}", parameters.add(i64::try_from(*id).unwrap_or(-1))),
        Filter::View(name) => format!("f.projection = {}", parameters.add(name.clone())),
        Filter::InstanceId(id) => format!("f.instance_id = {}", parameters.add(id.clone())),
        Filter::AggregateType(name) => format!("f.aggregate_type = {}", parameters.add(name.clone())),
        Filter::AggregateId(id) => format!("f.aggregate_id = {}", parameters.add(id.clone())),
        // Of this collation only ASCII has two cases.
        Filter::Error(part) => {
            format!("position({}::text in lower(f.error collate \"C\")) > 0", parameters.add(part.to_ascii_lowercase()))
        }
        Filter::FailedFrom(time) => format!("f.last_failed >= {}", parameters.add(at(*time))),
        Filter::FailedUntil(time) => format!("f.last_failed < {}", parameters.add(at(*time))),
    }
}

/// The condition that a retry means them, in these views.
pub(super) fn meant(retried: &Retried, views: Vec<&'static str>, parameters: &mut Parameters) -> String {
    let until = i64::try_from(retried.until).unwrap_or(i64::MAX);
    let mut all =
        vec![format!("f.projection = any({}) and f.sequence <= {}", parameters.add(views), parameters.add(until))];
    all.extend(retried.filters.iter().map(|filter| condition(filter, parameters)));
    format!("({})", all.join(" and "))
}
