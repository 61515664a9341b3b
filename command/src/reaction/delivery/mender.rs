//! The deliveries that were given up: a copy in Postgres, where people find them among failed events, and what those decide about them.
//!
//! A decision is met in the log, and is about what was given up before it: up to a place in the queue. So one that is met again finds
//! done what is done.

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
        given_up::{self, GivenUp, Noted, Ordinal},
        retrying::Retrying,
    },
};

use super::{
    Deliveries, DeliveryFailure,
    payload::Delivery,
    queue::{Listed, Queue, SILENCE},
};
use crate::reaction::{
    backlog::{Backlog, BacklogFailure, Next, work_off},
    checkpoint::{CheckpointFailure, CheckpointStore},
};

/// How long it waits after a failure.
const PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(30);
/// How many are copied in one transaction.
const CHUNK: usize = 256;
/// How many deliveries are made again, or left out, at a time.
const AT_ONCE: u32 = 64;
/// The pause between two times.
const BREATH: Duration = Duration::from_millis(20);
/// How often it is looked whether some are old enough to be forgotten, and whether the copy is complete.
static LOOK_EVERY: LazyLock<Duration> = LazyLock::new(|| shortened(Duration::from_mins(1), Duration::from_secs(1)));
/// What is told where a decision is not carried out.
const TROUBLE: &str = "what was decided about deliveries that were given up is not done at the moment";

/// Copies what was given up, and does what is decided about it.
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
    #[error("the list of what was given up is not complete; it is made again")]
    Incomplete,
}

impl Mender {
    /// One that wakes the workers of the targets.
    pub(super) fn new(deliveries: &Deliveries, queue: Queue, wake: mpsc::Sender<String>) -> Self {
        let Deliveries { log, database, patience, shard, replicas, .. } = deliveries;
        let (log, database, shard, replicas) = (log.clone(), database.clone(), *shard, *replicas);
        Self { queue, log, database, wake, kept: patience.kept, shard, replicas }
    }

    /// Goes on whatever fails: events are delivered meanwhile.
    pub(super) async fn run(self) -> Infallible {
        loop {
            let Err(failure) = self.serve().await;
            tracing::warn!(error = explain(&failure), "{TROUBLE}");
            // What a newer build decided can be read after an upgrade only.
            let is_outdated = matches!(failure, MendingFailure::Backlog(BacklogFailure::Event(_)));
            sleep(if is_outdated { LONG_PAUSE } else { PAUSE }).await;
        }
    }

    /// A decision is about what the copy has, so that has to be whole first.
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
            ended = work_off(self, (&self.log, store, self.shard), TROUBLE) => Ok(ended?),
            ended = self.forget_old() => ended,
            ended = self.watch(unreadable) => ended,
        }
    }

    /// Where it goes on. Where that is not known nobody's old decision is carried out once more: what it was about is still listed.
    async fn checkpoint(&self) -> Result<CheckpointStore, MendingFailure> {
        let store = CheckpointStore::open(self.log.context(), self.replicas, "mending").await?;
        if store.read().await?.is_none() {
            let end = self.log.last().await.map_err(DeliveryFailure::from)?;
            store.save(end.map(|record| record.position()).unwrap_or_default(), None).await?;
        }
        Ok(store)
    }

    /// Makes the copy what there is, and returns how many cannot be read.
    async fn fill(
        &self,
        count: u64,
        listed: &mut (impl StreamExt<Item = Result<Listed, DeliveryFailure>> + Unpin),
    ) -> Result<u64, MendingFailure> {
        let (mut places, mut chunk, mut left, mut unreadable) = (vec![], vec![], count, 0);
        while left > 0 {
            let next = timeout(SILENCE, listed.next()).await;
            let Ok(Some(one)) = next else {
                return Err(DeliveryFailure::Nats("what was given up is not told".to_owned()).into());
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
            given_up::keep_only(&connection, self.shard, &places).await
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

    /// Takes those away that have waited long enough for somebody.
    async fn forget_old(&self) -> Result<Infallible, MendingFailure> {
        loop {
            let find = async {
                let connection = self.database.connection().await?;
                given_up::find_old(&connection, self.shard, self.kept.as_secs_f64(), AT_ONCE).await
            };
            let old = self.database.within(find).await?;
            if old.is_empty() {
                sleep(*LOOK_EVERY).await;
                continue;
            }
            tracing::warn!(count = old.len(), "deliveries that were given up long ago are forgotten");
            self.take_away(&self.read(old).await?).await?;
        }
    }

    /// Begins anew where the copy has not what there is: Postgres may have lost the last of it. Of those that cannot be read it may have
    /// what a newer build noted.
    async fn watch(&self, unreadable: u64) -> Result<Infallible, MendingFailure> {
        let mut before = None;
        loop {
            sleep(*LOOK_EVERY).await;
            let count = async { given_up::count(&self.database.connection().await?, self.shard).await };
            let (noted, there) = (self.database.within(count).await?, self.queue.given_up().await?);
            let is_complete = (there.saturating_sub(unreadable)..=there).contains(&noted);
            // What is on its way changes until the next look.
            if !is_complete && before == Some((noted, there)) {
                return Err(MendingFailure::Incomplete);
            }
            before = Some((noted, there));
        }
    }

    /// Marks the next of those that are made again, for people to read.
    async fn mark(&self, wanted: (&[Filter], u64), again: &mut Again) -> Result<(), DatabaseFailure> {
        let Some(after) = again.marked else { return Ok(()) };
        let mark = async {
            let connection = self.database.connection().await?;
            given_up::mark(&connection, self.shard, wanted, after, &again.retrying).await
        };
        again.marked = self.database.within(mark).await?;
        Ok(())
    }

    /// What is at the places of some; nothing where it is gone, or another one, or cannot be read. The last stays in the queue, and
    /// leaves the copy until a build that can read it lists it again: it keeps no others from being made.
    async fn read(&self, noted: Vec<Noted>) -> Result<Vec<(Noted, Option<Delivery>)>, MendingFailure> {
        let read = async |noted: Noted| {
            let found = self.queue.given_up_at(noted.place).await?;
            let is_it = |delivery: &Delivery| given_up::id_of(self.shard, &delivery.id) == noted.id;
            Ok::<_, DeliveryFailure>((noted, found.filter(is_it)))
        };
        Ok(try_join_all(noted.into_iter().map(read)).await?)
    }

    /// Puts some in again, in their order.
    async fn put_again(&self, found: &[(Noted, Option<Delivery>)]) -> Result<(), MendingFailure> {
        let there = found.iter().filter_map(|(noted, delivery)| Some((noted.place, delivery.as_ref()?)));
        // One that was given up again has another place.
        let named =
            there.map(|(place, delivery)| (format!("{}.again.{place}", delivery.id).into(), delivery)).collect();
        for subject in self.queue.put(named).await? {
            // The workers live as long as this.
            let _ = self.wake.send(subject).await;
        }
        fault::point("deliveries.again");
        Ok(())
    }

    /// Takes some out of the queue, and then out of the copy.
    async fn take_away(&self, found: &[(Noted, Option<Delivery>)]) -> Result<(), MendingFailure> {
        let there = found.iter().filter(|(_, delivery)| delivery.is_some());
        try_join_all(there.map(|(noted, _)| self.queue.done(noted.place))).await?;
        fault::point("mending.taken");
        let places: Vec<u64> = found.iter().map(|(noted, _)| noted.place).collect();
        let forget = async {
            let connection = self.database.connection().await?;
            given_up::remove(&connection, self.shard, &places).await
        };
        Ok(self.database.within(forget).await?)
    }
}

/// What is decided about which deliveries.
pub(super) struct Mending {
    /// The id of what was decided.
    id: String,
    /// All of them hold.
    filters: Vec<Filter>,
    /// The last place that is meant.
    until: u64,
    /// How they are made again; `None` where they are left out.
    again: Option<Again>,
}

/// How deliveries are made again.
struct Again {
    /// Who decided that, as people read it of those that wait for their turn.
    retrying: Retrying,
    /// The last one that people read it of; `None` where these are all.
    marked: Option<Ordinal>,
}

/// What a decision is about among deliveries; `None` where it is about projections alone.
fn mending(decision: Decision) -> Option<Mending> {
    let (filters, until, again) = match &decision.event {
        Event::Retried(retried) => {
            let again = Again { retrying: Retrying::of(&decision), marked: Some((0, 0)) };
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

    /// What a newer build decided waits for a node that knows it.
    async fn left(&self, record: &Record) -> Result<Vec<Mending>, BacklogFailure> {
        let decisions = record.events.iter().map(|recorded| Decision::of(recorded)).collect::<Result<Vec<_>, _>>()?;
        let left: Vec<_> = decisions.into_iter().flatten().filter_map(mending).collect();
        if !left.is_empty() {
            fault::point("mending.met");
        }
        Ok(left)
    }

    /// Does it with some of them. Others have a turn in between, and so have those who write.
    async fn step(&self, mending: &mut Mending) -> Result<Next, MendingFailure> {
        let wanted = (&*mending.filters, mending.until);
        if let Some(again) = &mut mending.again
            && let Err(error) = self.mark(wanted, again).await
        {
            tracing::warn!(error = explain(&error), "deliveries that are made again are not shown as such");
        }
        let find = async {
            let connection = self.database.connection().await?;
            given_up::find(&connection, self.shard, wanted, AT_ONCE).await
        };
        let noted = self.database.within(find).await?;
        if noted.is_empty() {
            fault::point("mending.done");
            return Ok(Next::Done);
        }
        let found = self.read(noted).await?;
        fault::point("mending.found");
        if mending.again.is_some() {
            self.put_again(&found).await?;
        }
        self.take_away(&found).await?;
        Ok(Next::Later(BREATH))
    }

    fn name(mending: &Mending) -> String {
        mending.id.clone()
    }
}
