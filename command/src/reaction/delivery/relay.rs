//! The relay follows the log and queues a delivery for each execution that an event triggers, by the executions as they
//! were when the event was committed.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    convert::Infallible,
    sync::{Arc, LazyLock},
    time::Duration,
};

use action::executions::{Definitions, Matcher};
use base::{explain::explain, fault::shortened};
use eventlog::{
    lease::Lease,
    record::{Position, Record, Recorded},
};
use futures::StreamExt;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use view::reaction::{DELIVERIES, ReactionReporter};

use super::{
    Deliveries, DeliveryFailure, depth,
    payload::{Delivery, deliveries, may_be_delivered},
    queue::{Counted, Queue},
    room::{Admission, Room},
};

/// How many records are read at once.
const CHUNK: usize = 64;
/// How many deliveries are made before they are put into the queue, and how many bytes they may have.
const MOST_MADE: usize = 1024;
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// How often the position is saved while nothing is triggered.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// How often the relay gives a sign of life while nothing is written.
const IDLE: Duration = Duration::from_secs(1);
/// How often the queued deliveries are counted, for which each target has a subject.
static COUNTED_EVERY: LazyLock<Duration> = LazyLock::new(|| shortened(Duration::from_secs(10), Duration::from_secs(1)));

/// The relay while it runs.
pub(super) struct Relay<'a> {
    deliveries: &'a Deliveries,
    queue: Queue,
    room: Arc<Room>,
    wake: mpsc::Sender<String>,
    definitions: Definitions,
    matchers: HashMap<String, Matcher>,
    /// The deliveries that are not in the queue yet, and the bytes of their bodies.
    made: Vec<Delivery>,
    bytes: usize,
    /// The subjects that got deliveries since the position was saved.
    subjects: HashSet<String>,
    at: Position,
    revision: u64,
    saved_at: Instant,
    /// The report of where the relay is.
    pub(super) reporter: Arc<ReactionReporter>,
}

impl<'a> Relay<'a> {
    /// Creates a relay that continues from the saved position. If that is not known, it begins at the end of the log:
    /// no target is called a second time, and a warning reports that the events before are not delivered.
    pub(super) async fn begin(
        deliveries: &'a Deliveries,
        queue: Queue,
        room: Arc<Room>,
        wake: mpsc::Sender<String>,
    ) -> Result<Self, DeliveryFailure> {
        let Deliveries { log, database, shard, .. } = deliveries;
        let saved = queue.checkpoint.read().await?;
        let is_known = match saved {
            Some((at, _)) => log.has(at).await?,
            None => false,
        };
        let at = match saved {
            Some((at, _)) if is_known => at,
            _ => log.last().await?.map(|record| record.position()).unwrap_or_default(),
        };
        let definitions = Definitions::at(log, database, *shard, at).await?.ok_or(DeliveryFailure::HistoryLags)?;
        if !is_known && !definitions.instances().is_empty() {
            tracing::warn!(
                sequence = at.sequence,
                "the position of the deliveries is unknown: events up to here are not delivered"
            );
        }
        let revision = queue.checkpoint.save(at, saved.map(|(_, revision)| revision)).await?;
        let saved_at = Instant::now();
        let reporter = Arc::new(ReactionReporter::start(log, *shard, DELIVERIES, at));
        let mut relay = Self {
            deliveries,
            queue,
            room,
            wake,
            definitions,
            matchers: HashMap::new(),
            made: vec![],
            bytes: 0,
            subjects: HashSet::new(),
            at,
            revision,
            saved_at,
            reporter,
        };
        for instance_id in relay.definitions.instances() {
            relay.arrange(&instance_id);
        }
        Ok(relay)
    }

    pub(super) async fn run(mut self, lease: &Lease) -> Result<Infallible, DeliveryFailure> {
        let mut records = self.deliveries.log.follow(self.at).await?.ready_chunks(CHUNK);
        loop {
            lease.tick();
            let Ok(chunk) = timeout(IDLE, records.next()).await else { continue };
            let chunk = chunk.ok_or(DeliveryFailure::LogEnded)?;
            for record in chunk {
                lease.during(self.take(&*record?)).await?;
            }
            lease.during(self.put()).await?;
            self.reporter.note(|progress| progress.at = self.at);
            if !self.subjects.is_empty() || self.saved_at.elapsed() >= SAVE_EVERY {
                self.save_position().await?;
            }
        }
    }

    /// Applies a record: each event triggers executions as they were before it, and then changes them.
    async fn take(&mut self, record: &Record) -> Result<(), DeliveryFailure> {
        for recorded in &record.events {
            self.trigger(recorded).await?;
            if self.definitions.apply(recorded) {
                self.arrange(&recorded.event.instance_id);
            }
        }
        self.at = record.position();
        Ok(())
    }

    async fn trigger(&mut self, recorded: &Recorded) -> Result<(), DeliveryFailure> {
        let event = &recorded.event;
        let matcher = self.matchers.get(&event.instance_id).filter(|_| may_be_delivered(recorded));
        let chain = matcher.and_then(|matcher| matcher.event(&event.r#type));
        let Some(chain) = chain else { return Ok(()) };
        for mut delivery in deliveries(recorded, &chain, depth(&event.causation_id)) {
            if !self.admit(&mut delivery).await? {
                continue;
            }
            self.bytes += delivery.body.as_ref().map_or(0, |body| body.get().len());
            self.made.push(delivery);
            if self.made.len() >= MOST_MADE || self.bytes >= MOST_BYTES {
                self.put().await?;
            }
        }
        Ok(())
    }

    /// Whether the queue has room for a delivery, according to a count that includes what was made before.
    async fn admit(&mut self, delivery: &mut Delivery) -> Result<bool, DeliveryFailure> {
        let admission = self.room.admit(delivery);
        if admission != Admission::Uncertain {
            return Ok(admission == Admission::Admitted);
        }
        self.put().await?;
        self.room.renew(self.queue.counted().await?.used);
        Ok(self.room.admit(delivery) == Admission::Admitted)
    }

    /// Puts the deliveries that were made into the queue.
    async fn put(&mut self) -> Result<(), DeliveryFailure> {
        self.bytes = 0;
        let made = std::mem::take(&mut self.made);
        let named = made.iter().map(|delivery| (Cow::from(&delivery.id), delivery)).collect();
        self.subjects.extend(self.queue.put(named).await?);
        Ok(())
    }

    /// Saves the position after the deliveries that were put in, and has these delivered.
    async fn save_position(&mut self) -> Result<(), DeliveryFailure> {
        if !self.subjects.is_empty() {
            base::fault::point("deliveries.put");
        }
        self.revision = self.queue.checkpoint.save(self.at, Some(self.revision)).await?;
        self.saved_at = Instant::now();
        for subject in self.subjects.drain() {
            // The workers live as long as this.
            let _ = self.wake.send(subject).await;
        }
        Ok(())
    }

    fn arrange(&mut self, instance_id: &str) {
        self.matchers.insert(instance_id.to_owned(), self.definitions.matcher(instance_id));
    }
}

/// Counts the deliveries that are queued and those that were given up, for the report and for the bounds of the queue.
pub(super) async fn count(queue: Queue, reporter: Arc<ReactionReporter>, room: Arc<Room>) -> Infallible {
    loop {
        match queue.counted().await {
            Ok(Counted { waiting, waits_since, given_up, used }) => {
                reporter.note(|progress| {
                    (progress.waiting, progress.waits_since, progress.given_up) = (waiting, waits_since, given_up);
                });
                room.renew(used);
            }
            Err(failure) => tracing::debug!(error = explain(&failure), "the length of the queue is unknown"),
        }
        sleep(*COUNTED_EVERY).await;
    }
}
