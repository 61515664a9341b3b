//! The deliveries that were given up: a copy in Postgres, where people find them among failed events, and what those decide about them.
//!
//! A decision is met in the log, and is about what was given up before it. So one that is met again finds done what is done.

use std::{convert::Infallible, time::Duration};

use base::{
    clock,
    explain::explain,
    fault::{self, shortened},
};
use domain::failed_event::{DELIVERIES, Event, Filter};
use eventlog::{
    log::Log,
    record::{Record, Undecodable},
};
use futures::{StreamExt, future::try_join_all};
use jiff::Timestamp;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use view::{
    database::{Database, DatabaseFailure},
    failed_event::{
        decided::Decision,
        given_up::{self, GivenUp},
    },
};

use super::{
    Deliveries, DeliveryFailure,
    queue::{Listed, Queue, SILENCE},
};
use crate::reaction::{
    backlog::{Backlog, BacklogFailure, Next, work_off},
    place::Place,
};

/// How long it waits after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How many are copied in one transaction.
const CHUNK: usize = 256;
/// How many deliveries are made again, or left out, at a time.
const AT_ONCE: u32 = 64;
/// How often it is looked whether some are old enough to be forgotten.
const LOOK_EVERY: Duration = Duration::from_mins(1);
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
    Place(#[from] crate::reaction::place::PlaceFailure),
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
            sleep(PAUSE).await;
        }
    }

    /// A decision is about what the copy has, so that has to be whole first.
    async fn serve(&self) -> Result<Infallible, MendingFailure> {
        let (count, mut listed) = self.queue.follow_given_up().await?;
        self.fill(count, &mut listed).await?;
        let place = Place::open(self.log.context(), self.replicas, "mending").await?;
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
            ended = work_off(self, (&self.log, place), TROUBLE) => Ok(ended?),
            ended = self.forget_old() => ended,
        }
    }

    /// Makes the copy what there is.
    async fn fill(
        &self,
        count: u64,
        listed: &mut (impl StreamExt<Item = Result<Listed, DeliveryFailure>> + Unpin),
    ) -> Result<(), MendingFailure> {
        let (mut places, mut chunk, mut left) = (vec![], vec![], count);
        while left > 0 {
            let next = timeout(SILENCE, listed.next()).await;
            let Ok(Some(one)) = next else {
                return Err(DeliveryFailure::Nats("what was given up is not told".to_owned()).into());
            };
            let Listed { given_up, behind } = one?;
            left = behind.min(left - 1);
            places.extend(given_up.as_ref().map(|one| one.place));
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
        Ok(self.database.within(forget).await?)
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
            let until = clock::now().checked_sub(self.kept).unwrap_or(Timestamp::MIN);
            loop {
                let places = self.places(&[], until).await?;
                if places.is_empty() {
                    break;
                }
                tracing::warn!(count = places.len(), "deliveries that were given up long ago are forgotten");
                self.take_away(&places).await?;
            }
            sleep(shortened(LOOK_EVERY, Duration::from_secs(1))).await;
        }
    }

    /// The places of some that were given up by a time and meet all filters.
    async fn places(&self, filters: &[Filter], until: Timestamp) -> Result<Vec<u64>, DatabaseFailure> {
        let find = async {
            let connection = self.database.connection().await?;
            given_up::places(&connection, self.shard, (filters, until), AT_ONCE).await
        };
        self.database.within(find).await
    }

    /// Puts those at some places in again, in their order.
    async fn again(&self, places: &[u64]) -> Result<(), MendingFailure> {
        let read = try_join_all(places.iter().map(|place| self.queue.given_up_at(*place))).await?;
        let found = places.iter().zip(&read).filter_map(|(place, delivery)| Some((place, delivery.as_ref()?)));
        // One that was given up again has another place.
        let named =
            found.map(|(place, delivery)| (format!("{}.again.{place}", delivery.id).into(), delivery)).collect();
        for subject in self.queue.put(named).await? {
            // The workers live as long as this.
            let _ = self.wake.send(subject).await;
        }
        fault::point("deliveries.again");
        Ok(())
    }

    /// Takes those at some places away.
    async fn take_away(&self, places: &[u64]) -> Result<(), MendingFailure> {
        try_join_all(places.iter().map(|place| self.queue.done(*place))).await?;
        let forget = async {
            let connection = self.database.connection().await?;
            given_up::remove(&connection, self.shard, places).await
        };
        Ok(self.database.within(forget).await?)
    }
}

/// What is decided about which deliveries.
pub(super) struct Mending {
    decision: Decision,
    filters: Vec<Filter>,
}

/// What a decision is about among deliveries; `None` where it is about projections alone.
fn mending(decision: Decision) -> Option<Mending> {
    let filters = match &decision.event {
        Event::Retried(retried) => decision.retried().filter(|_| retried.of_deliveries)?,
        Event::Discarded(_) => {
            decision.left_out(DELIVERIES)?;
            vec![Filter::Id(decision.id.parse().unwrap_or(u64::MAX))]
        }
    };
    let is_other = |filter: &Filter| matches!(filter, Filter::View(name) if name != DELIVERIES);
    (!filters.iter().any(is_other)).then_some(Mending { decision, filters })
}

impl Backlog for Mender {
    type Item = Mending;
    type Failure = MendingFailure;

    async fn left(&self, record: &Record) -> Result<Vec<Mending>, BacklogFailure> {
        let read = |decision: Result<Option<Decision>, Undecodable>| {
            decision.unwrap_or_else(|error| {
                tracing::error!(error = explain(&error), "what an operator decided cannot be read");
                None
            })
        };
        Ok(record.events.iter().filter_map(|recorded| read(Decision::of(recorded))).filter_map(mending).collect())
    }

    async fn step(&self, Mending { decision, filters }: &mut Mending) -> Result<Next, MendingFailure> {
        let places = self.places(filters, decision.at).await?;
        if places.is_empty() {
            return Ok(Next::Done);
        }
        if matches!(decision.event, Event::Retried(_)) {
            self.again(&places).await?;
        }
        self.take_away(&places).await?;
        Ok(Next::More)
    }

    fn name(Mending { decision, .. }: &Mending) -> String {
        format!("{:?}", decision.id)
    }
}
