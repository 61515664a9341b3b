//! The repair of rows.

use std::{collections::HashSet, time::Duration};

use deadpool_postgres::{GenericClient, Transaction};
use domain::{aggregate::Aggregate, failed_event::FailedEvent, log_class::LogClass};
use eventlog::record::AggregateKey;
use tokio::time::sleep;

use super::{LIMITS, Page, note::note_repaired, page::is_same};
use crate::{
    checkpoint::{Checkpoint, signed},
    database::{Database, DatabaseFailure},
    history::columns,
    projection::{HISTORY, OfHistories, Projection, Sql, history_of, of_histories},
    read_model::ReadModel,
    table::Change,
};

/// How often it is checked whether history is as far as the projection, and the pause before the next check.
const LOOKS: u32 = 50;
const GLANCE: Duration = Duration::from_millis(20);

/// Repairs the rows of a page that still deviate, and returns their names; `None` if that cannot be decided now, since
/// history lags, or others have worked on the projection or decided about its failed events meanwhile.
///
/// # Errors
/// When Postgres does not answer, or refuses a row.
pub async fn repair(
    database: &Database,
    shard: u16,
    page: &Page,
    deviations: &[Change],
) -> Result<Option<Vec<String>>, DatabaseFailure> {
    let projection = page.place.projection;
    let repaired = async {
        let mut connection = database.connection().await?;
        let transaction = connection.transaction().await?;
        transaction.batch_execute(LIMITS).await?;
        let held = Checkpoint::hold(&transaction, projection, shard).await?;
        // Another worker, or one that Postgres has set back, may have other rows.
        let is_it =
            |held: &Checkpoint| held.epoch == page.at.epoch && held.position.sequence >= page.at.position.sequence;
        let Some(held) = held.filter(is_it) else { return Ok(None) };
        if !history_has(&transaction, projection, shard, held.position.sequence).await? {
            return Ok(None);
        }
        // Nobody builds history anew meanwhile.
        let history = Checkpoint::hold(&transaction, history_of(projection.class), shard).await?;
        if history.is_none_or(|history| history.epoch != page.history.epoch) {
            return Ok(None);
        }
        let still = still_deviating(&transaction, shard, page, deviations).await?;
        if still.is_empty() {
            return Ok(Some(vec![]));
        }
        if is_decided_since(&transaction, page.decided).await? {
            return Ok(None);
        }
        let changes: Vec<Change> = still.into_iter().cloned().collect();
        ReadModel::new(projection, shard).apply(&transaction, page.place.table, &changes).await?;
        let names: Vec<String> =
            changes.iter().map(|change| page.place.name(&change.instance_id, &change.id)).collect();
        note_repaired(&transaction, shard, projection, &names).await?;
        transaction.commit().await?;
        Ok(Some(names))
    };
    database.within(repaired).await
}

/// Waits a moment until history is as far as a projection whose checkpoint is held.
async fn history_has(
    transaction: &Transaction<'_>,
    projection: &Projection,
    shard: u16,
    sequence: u64,
) -> Result<bool, DatabaseFailure> {
    for _ in 0..LOOKS {
        let history = Checkpoint::read(transaction, history_of(projection.class), shard).await?;
        if history.is_some_and(|history| history.position.sequence >= sequence) {
            return Ok(true);
        }
        sleep(GLANCE).await;
    }
    Ok(false)
}

/// The deviations whose aggregates have not changed since the page was read, and are not parked.
async fn still_deviating<'a>(
    transaction: &Transaction<'_>,
    shard: u16,
    page: &Page,
    deviations: &'a [Change],
) -> Result<Vec<&'a Change>, DatabaseFailure> {
    let place = page.place;
    let keys: Vec<AggregateKey> = deviations.iter().map(|change| place.key_of(change)).collect();
    let changed = with_events(transaction, place.projection.class, &keys, page.last_considered()).await?;
    let parked = place.parked(transaction, shard).await?;
    let rows = place.rows(transaction, shard, &keys.iter().collect::<Vec<_>>()).await?;
    let is_still = |(change, key): &(&Change, &AggregateKey)| {
        let is_settled = !changed.contains(*key) && !parked.contains(*key);
        is_settled && !is_same(place.table, change.row.as_ref(), rows.get(*key))
    };
    Ok(deviations.iter().zip(&keys).filter(is_still).map(|(change, _)| change).collect())
}

/// The aggregates that have events after a sequence.
pub(super) async fn with_events(
    client: &impl GenericClient,
    class: LogClass,
    keys: &[AggregateKey],
    after: u64,
) -> Result<HashSet<AggregateKey>, DatabaseFailure> {
    static SELECT: OfHistories = OfHistories::new(|| {
        of_histories(
            "select i, t, a from unnest($1::text[], $2::text[], $3::text[]) as k (i, t, a) where exists \
             (select from {schema}.events where instance_id = i and aggregate_type = t and aggregate_id = a \
             and sequence > $4)",
        )
    });
    let (instances, types, ids) = columns(keys);
    let statement = client.prepare_cached(&SELECT[class]).await?;
    let rows = client.query(&statement, &[&instances, &types, &ids, &signed(after)]).await?;
    let key = |row: &tokio_postgres::Row| AggregateKey {
        instance_id: row.get(0),
        aggregate_type: row.get(1),
        id: row.get(2),
    };
    Ok(rows.iter().map(key).collect())
}

/// Whether operators have decided about failed events since history was at a sequence.
async fn is_decided_since(transaction: &Transaction<'_>, sequence: u64) -> Result<bool, DatabaseFailure> {
    static SELECT: Sql =
        Sql::new(|| HISTORY.sql("select from {schema}.events where sequence > $1 and aggregate_type = $2 limit 1"));
    let statement = transaction.prepare_cached(&SELECT).await?;
    Ok(transaction.query_opt(&statement, &[&signed(sequence), &FailedEvent::NAME]).await?.is_some())
}
