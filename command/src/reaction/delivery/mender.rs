//! The deliveries that were given up: copies them to Postgres, where people find them among failed events, and carries
//! out the decisions about them.
//!
//! A decision is read from the log, and is about what was given up before it: up to a place in the queue. So a decision
//! that is read again finds what is done already.

use std::{convert::Infallible, sync::LazyLock, time::Duration};

use base::{
    explain::explain,
    fault::{self, shortened},
};
use domain::failed_event::{DELIVERIES, Event, Filter};
use eventlog::{log::Log, record::Record};
use futures::{StreamExt, future::try_join_all};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use view::{
    database::{Database, DatabaseFailure},
    failed_event::{
        decided::Decision,
        given_up::{self, GivenUp, GivenUpSelection, Noted, Ordinal},
        retrying::Retrying,
    },
};

use super::{
    Deliveries, DeliveryFailure,
    payload::Delivery,
    queue::{Listed, Queue, SILENCE},
};
use crate::reaction::{
    backlog::{AfterPage, Backlog, BacklogFailure, work_off},
    checkpoint::{CheckpointFailure, CheckpointStore},
};

/// How long the mender waits after a failure, and after an event that only a newer build can read.
const PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(30);
/// How many deliveries are copied in one transaction.
const CHUNK: usize = 256;
/// How many deliveries are made again, or left out, at a time.
const AT_ONCE: u32 = 64;
/// The pause between two such batches.
const BREATH: Duration = Duration::from_millis(20);
/// How often deliveries that are old enough to be removed are looked for, and the copy is compared with the queue.
static LOOK_EVERY: LazyLock<Duration> = LazyLock::new(|| shortened(Duration::from_mins(1), Duration::from_secs(1)));
/// The warning where a decision is not carried out.
const TROUBLE: &str = "decisions about deliveries that were given up cannot be carried out at the moment";

/// Copies deliveries that were given up, and carries out the decisions about them.
pub(super) struct Mender {
    queue: Queue,
    log: Log,
    database: Database,
    wake: mpsc::Sender<String>,
    kept: Duration,
    shard: u16,
    replicas: usize,
}

/// Why a decision is not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum MendingFailure {
    #[error(transparent)]
    Delivery(#[from] DeliveryFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    #[error(transparent)]
    Backlog(#[from] BacklogFailure),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointFailure),
    #[error("the list of deliveries that were given up is incomplete and is rebuilt")]
    Incomplete,
}

impl Mender {
    /// Creates a mender that wakes the workers of the targets.
    pub(super) fn new(deliveries: &Deliveries, queue: Queue, wake: mpsc::Sender<String>) -> Self {
        let Deliveries { log, database, patience, shard, replicas, .. } = deliveries;
        let (log, database, shard, replicas) = (log.clone(), database.clone(), *shard, *replicas);
        Self { queue, log, database, wake, kept: patience.kept, shard, replicas }
    }

    /// Runs until it is dropped, whatever fails: events are delivered meanwhile.
    pub(super) async fn run(self) -> Infallible {
        loop {
            let Err(failure) = self.serve().await;
            tracing::warn!(error = explain(&failure), "{TROUBLE}");
            // What a newer build decided can be read after an upgrade only.
            let is_outdated = matches!(failure, MendingFailure::Backlog(BacklogFailure::Event(_)));
            sleep(if is_outdated { LONG_PAUSE } else { PAUSE }).await;
        }
    }

    /// Completes the copy before any decision is carried out, because decisions are about what the copy has.
    async fn serve(&self) -> Result<Infallible, MendingFailure> {
        let (count, mut listed) = self.queue.follow_given_up().await?;
        let unreadable = self.fill(count, &mut listed).await?;
        let store = self.checkpoint().await?;
        let following = async {
            let mut chunks = listed.ready_chunks(CHUNK);
            while let Some(chunk) = chunks.next().await {
                let chunk: Vec<Listed> = chunk.into_iter().collect::<Result<_, _>>()?;
                self.add(chunk.into_iter().filter_map(|one| one.given_up).collect()).await?;
            }
            Err(DeliveryFailure::LogEnded.into())
        };
        tokio::select! {
            ended = following => ended,
            ended = work_off(self, &self.log, store, self.shard, TROUBLE) => Ok(ended?),
            ended = self.forget_old() => ended,
            ended = self.watch(unreadable) => ended,
        }
    }

    /// Returns the checkpoint to continue from. If none is saved, it is the end of the log, so that no old decision is
    /// carried out once more: the deliveries that it was about are still listed.
    async fn checkpoint(&self) -> Result<CheckpointStore, MendingFailure> {
        let store = CheckpointStore::open(self.log.context(), self.replicas, "mending").await?;
        if store.read().await?.is_none() {
            let end = self.log.last().await.map_err(DeliveryFailure::from)?;
            store.save(end.map(|record| record.position()).unwrap_or_default(), None).await?;
        }
        Ok(store)
    }

    /// Makes the copy equal to the queue, and returns how many deliveries cannot be read.
    async fn fill(
        &self,
        count: u64,
        listed: &mut (impl StreamExt<Item = Result<Listed, DeliveryFailure>> + Unpin),
    ) -> Result<u64, MendingFailure> {
        let (mut places, mut chunk, mut left, mut unreadable) = (vec![], vec![], count, 0);
        while left > 0 {
            let next = timeout(SILENCE, listed.next()).await;
            let Ok(Some(one)) = next else {
                return Err(DeliveryFailure::Nats("the deliveries given up cannot be listed".to_owned()).into());
            };
            let Listed { place, given_up, behind } = one?;
            left = behind.min(left - 1);
            places.push(place);
            unreadable += u64::from(given_up.is_none());
            chunk.extend(given_up);
            if chunk.len() >= CHUNK {
                self.add(std::mem::take(&mut chunk)).await?;
            }
        }
        self.add(chunk).await?;
        let forget = async {
            let connection = self.database.connection().await?;
            given_up::keep_only(&*connection, self.shard, &places).await
        };
        self.database.within(forget).await?;
        Ok(unreadable)
    }

    async fn add(&self, all: Vec<GivenUp>) -> Result<(), DatabaseFailure> {
        if all.is_empty() {
            return Ok(());
        }
        let add = async {
            let mut connection = self.database.connection().await?;
            let transaction = connection.transaction().await?;
            given_up::add(&transaction, self.shard, &all).await?;
            Ok(transaction.commit().await?)
        };
        self.database.within(add).await
    }

    /// Removes deliveries that have waited long enough for a decision.
    async fn forget_old(&self) -> Result<Infallible, MendingFailure> {
        loop {
            let find = async {
                let connection = self.database.connection().await?;
                given_up::find_old(&*connection, self.shard, self.kept.as_secs_f64(), AT_ONCE).await
            };
            let old = self.database.within(find).await?;
            if old.is_empty() {
                sleep(*LOOK_EVERY).await;
                continue;
            }
            tracing::warn!(count = old.len(), "deliveries that were given up long ago are deleted");
            self.take_away(&self.read(old).await?).await?;
        }
    }

    /// Fails if the copy is not complete, so that it is made anew: Postgres may have lost the last entries. Deliveries
    /// that cannot be read may be in it, if a newer build copied them.
    async fn watch(&self, unreadable: u64) -> Result<Infallible, MendingFailure> {
        let mut before = None;
        loop {
            sleep(*LOOK_EVERY).await;
            let count = async { given_up::count(&*self.database.connection().await?, self.shard).await };
            let (noted, there) = (self.database.within(count).await?, self.queue.counted().await?.given_up);
            let is_complete = (there.saturating_sub(unreadable)..=there).contains(&noted);
            // Deliveries on their way change the numbers until the next check.
            if !is_complete && before == Some((noted, there)) {
                return Err(MendingFailure::Incomplete);
            }
            before = Some((noted, there));
        }
    }

    /// Marks the next deliveries that are to be made again, for people to see.
    async fn mark(&self, wanted: GivenUpSelection<'_>, again: &mut Redelivery) -> Result<(), DatabaseFailure> {
        let Some(after) = again.marked else { return Ok(()) };
        let mark = async {
            let connection = self.database.connection().await?;
            given_up::mark(&*connection, self.shard, wanted, after, &again.retrying).await
        };
        again.marked = self.database.within(mark).await?;
        Ok(())
    }

    /// Returns the deliveries at some places; `None` where one is gone, is another one, or cannot be read. One that
    /// cannot be read stays in the queue, and leaves the copy until a build that can read it lists it again, so that it
    /// does not hold up others.
    async fn read(&self, noted: Vec<Noted>) -> Result<Vec<(Noted, Option<Delivery>)>, MendingFailure> {
        let read = async |noted: Noted| {
            let found = self.queue.given_up_at(noted.place).await?;
            let is_it = |delivery: &Delivery| given_up::id_of(self.shard, &delivery.id) == noted.id;
            Ok::<_, DeliveryFailure>((noted, found.filter(is_it)))
        };
        Ok(try_join_all(noted.into_iter().map(read)).await?)
    }

    /// Puts deliveries into the queue again, in their order.
    async fn put_again(&self, found: &[(Noted, Option<Delivery>)]) -> Result<(), MendingFailure> {
        let there = found.iter().filter_map(|(noted, delivery)| Some((noted.place, delivery.as_ref()?)));
        // A delivery that was given up again has another place.
        let named =
            there.map(|(place, delivery)| (format!("{}.again.{place}", delivery.id).into(), delivery)).collect();
        for subject in self.queue.put(named).await? {
            // The workers live as long as this.
            let _ = self.wake.send(subject).await;
        }
        fault::point("deliveries.again");
        Ok(())
    }

    /// Removes deliveries from the queue, and then from the copy.
    async fn take_away(&self, found: &[(Noted, Option<Delivery>)]) -> Result<(), MendingFailure> {
        let there = found.iter().filter(|(_, delivery)| delivery.is_some());
        try_join_all(there.map(|(noted, _)| self.queue.done(noted.place))).await?;
        fault::point("mending.taken");
        let places: Vec<u64> = found.iter().map(|(noted, _)| noted.place).collect();
        let forget = async {
            let connection = self.database.connection().await?;
            given_up::remove(&*connection, self.shard, &places).await
        };
        Ok(self.database.within(forget).await?)
    }
}

/// A decision about deliveries.
pub(super) struct Mending {
    /// The id of the decision.
    id: String,
    /// The filters that match its deliveries, all of them.
    filters: Vec<Filter>,
    /// The last place in the queue that the decision is about.
    until: u64,
    /// How the deliveries are made again; `None` if they are left out.
    again: Option<Redelivery>,
}

/// How deliveries are made again.
struct Redelivery {
    /// The decision as it is shown on deliveries that wait for their turn.
    retrying: Retrying,
    /// The last delivery that was marked with it; `None` once all are.
    marked: Option<Ordinal>,
}

/// Returns what a decision means for deliveries; `None` if it is about projections alone.
fn mending(decision: Decision) -> Option<Mending> {
    let (filters, until, again) = match &decision.event {
        Event::Retried(retried) => {
            let again = Redelivery { retrying: Retrying::of(&decision), marked: Some((0, 0)) };
            (decision.retried()?, retried.until_place, Some(again))
        }
        Event::Discarded(discarded) => {
            decision.left_out(DELIVERIES)?;
            let of_instance = Filter::InstanceId(discarded.instance_id.clone());
            (vec![Filter::Id(decision.id.parse().unwrap_or(u64::MAX)), of_instance], u64::MAX, None)
        }
    };
    let is_other = |filter: &Filter| matches!(filter, Filter::View(name) if name != DELIVERIES);
    let is_meant = until > 0 && !filters.iter().any(is_other);
    is_meant.then_some(Mending { id: decision.id, filters, until, again })
}

impl Backlog for Mender {
    type Item = Mending;
    type Failure = MendingFailure;

    /// Returns the decisions of a record. One that a newer build made waits for a node that knows it.
    async fn left(&self, record: &Record) -> Result<Vec<Mending>, BacklogFailure> {
        let decisions = record.events.iter().map(|recorded| Decision::of(recorded)).collect::<Result<Vec<_>, _>>()?;
        let left: Vec<_> = decisions.into_iter().flatten().filter_map(mending).collect();
        if !left.is_empty() {
            fault::point("mending.met");
        }
        Ok(left)
    }

    /// Carries out a decision for some deliveries. Other decisions, and other writers, have a turn in between.
    async fn step(&self, mending: &mut Mending) -> Result<AfterPage, MendingFailure> {
        let wanted = GivenUpSelection { filters: &mending.filters, until: mending.until };
        if let Some(again) = &mut mending.again
            && let Err(error) = self.mark(wanted, again).await
        {
            tracing::warn!(error = explain(&error), "retried deliveries cannot be shown as being retried");
        }
        let find = async {
            let connection = self.database.connection().await?;
            given_up::find(&*connection, self.shard, wanted, AT_ONCE).await
        };
        let noted = self.database.within(find).await?;
        if noted.is_empty() {
            fault::point("mending.done");
            return Ok(AfterPage::Done);
        }
        let found = self.read(noted).await?;
        fault::point("mending.found");
        if mending.again.is_some() {
            self.put_again(&found).await?;
        }
        self.take_away(&found).await?;
        Ok(AfterPage::Later(BREATH))
    }

    fn name(mending: &Mending) -> String {
        mending.id.clone()
    }
}
