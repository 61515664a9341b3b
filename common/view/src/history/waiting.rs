//! The events of an aggregate that wait for one of them, as history has them.

use std::{pin::pin, sync::Arc};

use deadpool_postgres::Transaction;
use domain::catalog::class_of;
use eventlog::record::{AggregateKey, Recorded};
use futures::TryStreamExt;
use tokio_postgres::types::ToSql;

use super::recorded;
use crate::{
    checkpoint::signed,
    database::DatabaseFailure,
    projection::{OfHistories, of_histories},
};

/// How many events are read at once.
const MOST: usize = 1000;
/// About how many bytes they have, without the last one.
const LARGEST: usize = 1 << 20;

/// Returns the last event of an aggregate before a sequence, without those that are left out.
pub async fn last_before(
    transaction: &Transaction<'_>,
    key: &AggregateKey,
    sequence: u64,
    left_out: impl Iterator<Item = u64>,
) -> Result<Option<Arc<Recorded>>, DatabaseFailure> {
    static SELECT: OfHistories = OfHistories::new(|| {
        of_histories(
            "select * from {schema}.events where instance_id = $1 and aggregate_type = $2 and aggregate_id = $3 \
             and sequence < $4 and not sequence = any($5) order by version desc limit 1",
        )
    });
    let AggregateKey { instance_id, aggregate_type, id } = key;
    let (sequence, left_out): (_, Vec<i64>) = (signed(sequence), left_out.map(signed).collect());
    let statement = transaction.prepare_cached(&SELECT[class_of(&key.aggregate_type)]).await?;
    let found = transaction.query_opt(&statement, &[instance_id, aggregate_type, id, &sequence, &left_out]).await?;
    Ok(found.as_ref().map(recorded).transpose()?.map(Arc::new))
}

/// Returns the first events of an aggregate from one sequence to another, and whether these are all. The caller must
/// know that history has come that far.
pub async fn waiting(
    transaction: &Transaction<'_>,
    key: &AggregateKey,
    from: u64,
    to: u64,
) -> Result<(Vec<Arc<Recorded>>, bool), DatabaseFailure> {
    static SELECT: OfHistories = OfHistories::new(|| {
        of_histories(
            "select * from {schema}.events where instance_id = $1 and aggregate_type = $2 and aggregate_id = $3 \
             and sequence between $4 and $5 order by version limit $6",
        )
    });
    let AggregateKey { instance_id, aggregate_type, id } = key;
    let (from, to, limit) = (signed(from), signed(to), signed(MOST as u64 + 1));
    let parameters: [&(dyn ToSql + Sync); 6] = [instance_id, aggregate_type, id, &from, &to, &limit];
    let statement = transaction.prepare_cached(&SELECT[class_of(&key.aggregate_type)]).await?;
    let rows = transaction.query_raw(&statement, parameters).await?;
    let (mut rows, mut events, mut size) = (pin!(rows), vec![], 0);
    while let Some(row) = rows.try_next().await? {
        if events.len() == MOST || size >= LARGEST {
            return Ok((events, false));
        }
        let found = recorded(&row)?;
        size += found.event.payload.len();
        events.push(Arc::new(found));
    }
    Ok((events, true))
}
