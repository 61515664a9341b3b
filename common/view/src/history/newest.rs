//! The newest events of aggregates, by which their rows are checked.

use std::{collections::HashMap, sync::Arc};

use deadpool_postgres::Transaction;
use domain::log_class::LogClass;
use eventlog::record::{AggregateKey, Recorded};

use super::{columns, recorded};
use crate::{
    database::DatabaseFailure,
    projection::{OfHistories, of_histories},
};

/// How many events are read of each aggregate. Most rows follow from the last one.
const NEWEST: usize = 20;

/// The newest events of an aggregate, in order.
#[derive(Debug, Default)]
pub(crate) struct NewestEvents {
    /// The events.
    pub events: Vec<Arc<Recorded>>,
    /// Whether these are all that history has.
    pub are_all: bool,
}

/// Returns the newest events of each of these aggregates of a log.
pub(crate) async fn newest(
    transaction: &Transaction<'_>,
    class: LogClass,
    keys: &[AggregateKey],
) -> Result<HashMap<AggregateKey, NewestEvents>, DatabaseFailure> {
    static SELECT: OfHistories = OfHistories::new(|| {
        of_histories(
            "select e.* from unnest($1::text[], $2::text[], $3::text[]) as k (i, t, a) join lateral \
             (select * from {schema}.events where instance_id = k.i and aggregate_type = k.t and aggregate_id = k.a \
             order by version desc limit $4) e on true order by e.sequence",
        )
    });
    let statement = transaction.prepare_cached(&SELECT[class]).await?;
    let (instances, types, ids) = columns(keys);
    let limit = i64::try_from(NEWEST + 1).unwrap_or(i64::MAX);
    let mut found: HashMap<AggregateKey, NewestEvents> = HashMap::new();
    for row in transaction.query(&statement, &[&instances, &types, &ids, &limit]).await? {
        let recorded = recorded(&row)?;
        found.entry(recorded.key()).or_default().events.push(Arc::new(recorded));
    }
    for newest in found.values_mut() {
        newest.are_all = newest.events.len() <= NEWEST;
        let oldest = newest.events.len().saturating_sub(NEWEST);
        newest.events.drain(..oldest);
    }
    Ok(found)
}
