//! Parked aggregates of a search index, which commits elsewhere: its commits record what they omit, and Postgres has a
//! copy of that.

use std::{collections::HashSet, convert::Infallible, future::pending, mem, sync::Arc, time::Duration};

use base::{explain::explain, fault};
use eventlog::record::{AggregateKey, Recorded};
use index::{Omitted, Refused, Snapshot};
use tokio::{sync::watch, time::timeout};
use view::{
    database::{Database, DatabaseFailure},
    failed_event::{ParkedAt, Parking},
    projection::Projection,
    table::{Change, Table},
};

use super::{Folded, Parked};
use crate::{Partition, Projector, batch::Batch, decision::decisions, failure::BatchFailure};

/// How many rounds of retries precede a batch of a search index.
const ROUNDS: usize = 32;
/// How often the copy in Postgres is refreshed if nothing changes.
const COPY_EVERY: Duration = Duration::from_mins(1);
/// The pause before the next retry if Postgres does not answer.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The changes of a batch of a search index, with those of retries before it.
pub(crate) struct IndexBatch<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) changes: Vec<Change>,
    /// The first event of each aggregate that is tried again.
    pub(crate) tried: Vec<Arc<Recorded>>,
}

impl Parked {
    /// Loads what a commit of a search index omits.
    pub(crate) async fn omitted(
        Projector { database, persons, shard, .. }: &Projector,
        projection: &'static Projection,
        table: &Table,
        Snapshot { position, omitted, .. }: &Snapshot,
        discarded: HashSet<u64>,
    ) -> Result<Self, DatabaseFailure> {
        let parked = |omitted: &Omitted| ParkedAt {
            key: AggregateKey {
                instance_id: omitted.instance_id.clone(),
                aggregate_type: table.aggregate_type.to_owned(),
                id: omitted.id.clone(),
            },
            sequence: omitted.sequence,
            committed_at: None,
            error: "it failed before this process began".to_owned(),
            last_failed: None,
        };
        let mut all: Vec<_> = omitted.iter().map(parked).collect();
        if let Some(parking) = Parking::of(projection, *shard).filter(|_| !all.is_empty()) {
            let dated = async { parking.date(&*database.connection().await?, &mut all).await };
            database.within(dated).await?;
        }
        let partition = Partition { projection, shard: *shard };
        Ok(Self::new(partition, persons, all, position.sequence, discarded))
    }

    /// Applies a batch, after retries. While Postgres does not answer, retries wait and the batch does not, except that
    /// both need it to open personal data.
    pub(crate) async fn take_up<'a>(
        &mut self,
        database: &Database,
        table: &Table,
        reached: u64,
        batch: &'a Batch,
    ) -> Result<IndexBatch<'a>, BatchFailure> {
        let table = std::slice::from_ref(table);
        let (mut changes, mut tried) = (vec![], vec![]);
        for _ in 0..ROUNDS {
            if !self.are_due() {
                break;
            }
            let due = match database.within(self.due(database, reached)).await {
                Ok(Some(due)) => {
                    fault::point_of("retry.taken", self.projection.name);
                    self.opened(due).await?
                }
                Ok(None) => break,
                Err(error) => {
                    let projection = self.projection.name;
                    tracing::warn!(projection, error = explain(&error), "parked events cannot be retried yet");
                    self.due.postpone(LOOK_AGAIN);
                    break;
                }
            };
            let (folded, retry) = self.fold_waiting(table, due)?;
            fault::point_of("retry.folded", self.projection.name);
            self.settle(database, &retry.postponed()).await;
            self.note_retry(&retry, &folded.failed);
            tried.extend(retry.waiting.iter().filter_map(|waiting| waiting.events.first().cloned()));
            changes.extend(folded.changes);
        }
        let decisions = decisions(&batch.events)?;
        if !decisions.is_empty() {
            fault::point_of("retry.met", self.projection.name);
        }
        let Folded { changes: others, failed } = self.fold(table, &batch.events)?;
        changes.extend(others);
        self.insist_on_few(&failed)?;
        self.add(&failed);
        self.note_waiting(&batch.events);
        self.obey(decisions);
        Ok(IndexBatch { batch, changes: changes.into_iter().flat_map(|(_, changes)| changes).collect(), tried })
    }

    /// Parks aggregates whose documents cannot be made, at their first event, since none of the events was applied.
    pub(crate) fn refuse(
        &mut self,
        table: &Table,
        refused: &[Refused],
        tried: &[Arc<Recorded>],
        batch: &Batch,
    ) -> Result<(), BatchFailure> {
        let mut failed = vec![];
        for Refused { instance_id, id, error } in refused {
            let (instance_id, id, aggregate_type) = (instance_id.clone(), id.clone(), table.aggregate_type.to_owned());
            let key = AggregateKey { instance_id, aggregate_type, id };
            let is_it = |event: &&Arc<Recorded>| event.key() == key && !self.leaves_out(event);
            let first = tried.iter().chain(&batch.events).find(is_it).ok_or(BatchFailure::OfNothing)?;
            failed.push(ParkedAt::now(first, error.clone()));
        }
        self.insist_on_few(&failed)?;
        for ParkedAt { key, .. } in &failed {
            self.due.stop(key, batch.end.sequence);
        }
        self.add(&failed);
        Ok(())
    }

    /// Removes the marks of requested retries for aggregates that stay parked. The copy takes care of others.
    async fn settle(&self, database: &Database, keys: &[AggregateKey]) {
        let Some(parking) = self.parking.filter(|_| !keys.is_empty()) else { return };
        let settled = async { parking.settle(&*database.connection().await?, keys).await };
        if let Err(error) = database.within(settled).await {
            let projection = self.projection.name;
            tracing::warn!(projection, error = explain(&error), "ended retries are still shown as in progress");
        }
    }

    /// Whether an aggregate is omitted.
    pub(crate) fn omits(&self, key: &AggregateKey) -> bool {
        self.all.contains_key(key)
    }

    /// Returns what the index omits, if that has changed.
    pub(crate) fn news(&mut self) -> Option<(Vec<Omitted>, Vec<ParkedAt>)> {
        if !mem::take(&mut self.has_news) {
            return None;
        }
        let omitted = |ParkedAt { key, sequence, .. }: &ParkedAt| Omitted {
            instance_id: key.instance_id.clone(),
            id: key.id.clone(),
            sequence: *sequence,
        };
        let mut all: Vec<Omitted> = self.all.values().map(omitted).collect();
        all.sort();
        Some((all, self.all.values().cloned().collect()))
    }
}

/// Copies to Postgres, for people to read, what a search index omits. It decides nothing, so it may be late; it is
/// refreshed from time to time.
pub(crate) async fn keep_copy(
    database: &Database,
    Partition { projection, shard }: Partition,
    mut all: watch::Receiver<Option<Vec<ParkedAt>>>,
) -> Infallible {
    loop {
        let now = all.borrow_and_update().clone();
        if let (Some(parking), Some(now)) = (Parking::of(projection, shard), now) {
            let copied = async {
                let mut connection = database.connection().await?;
                let transaction = connection.transaction().await?;
                parking.copy(&transaction, &now).await?;
                Ok::<_, DatabaseFailure>(transaction.commit().await?)
            };
            if let Err(error) = database.within(copied).await.map_err(|error| explain(&error))
                && !now.is_empty()
            {
                tracing::warn!(projection = projection.name, error, "omitted events cannot be copied to Postgres");
            }
        }
        // The sender is dropped only together with this future.
        if let Ok(Err(_)) = timeout(COPY_EVERY, all.changed()).await {
            return pending().await;
        }
    }
}
