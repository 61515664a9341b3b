//! The reaction on the log: which events trigger executions, as those were when the event was committed.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    time::Duration,
};

use action::book::{Matcher, Shelf};
use eventlog::record::{Position, Record, Recorded};
use futures::StreamExt;
use tokio::{sync::mpsc, time::Instant};

use super::{
    Deliveries, Failure, depth,
    payload::{Delivery, deliveries},
    queue::Queue,
};

/// How many records are taken at once.
const CHUNK: usize = 64;
/// How many deliveries are made before they are put in, and how many bytes they have.
const MOST_MADE: usize = 1024;
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// How often the place is kept while nothing is triggered.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// The reaction while it runs.
pub(super) struct Reaction<'a> {
    deliveries: &'a Deliveries,
    queue: Queue,
    wake: mpsc::Sender<String>,
    shelf: Shelf,
    matchers: HashMap<String, Matcher>,
    /// What is not in the queue yet, and the bytes of its bodies.
    made: Vec<Delivery>,
    bytes: usize,
    /// Where something was put in since the place was kept.
    subjects: HashSet<String>,
    at: Position,
    revision: u64,
    kept: Instant,
}

impl<'a> Reaction<'a> {
    /// Takes the reaction up where it was left. Where that is not known it begins at the end of the log: nothing is
    /// called a second time, and what was not called is told to be lost.
    pub(super) async fn begin(
        deliveries: &'a Deliveries,
        queue: Queue,
        wake: mpsc::Sender<String>,
    ) -> Result<Self, Failure> {
        let Deliveries { log, database, shard, .. } = deliveries;
        let place = queue.place().await?;
        let is_known = match place {
            Some((at, _)) => log.has(at).await?,
            None => false,
        };
        let at = match place {
            Some((at, _)) if is_known => at,
            _ => log.last().await?.map(|record| record.position()).unwrap_or_default(),
        };
        let shelf = Shelf::at(log, database, *shard, at).await?.ok_or(Failure::Behind)?;
        if !is_known && !shelf.instances().is_empty() {
            tracing::warn!(
                sequence = at.sequence,
                "the place of the deliveries is not known: events up to here are not delivered"
            );
        }
        let revision = queue.moved(at, place.map(|(_, revision)| revision)).await?;
        let kept = Instant::now();
        let (matchers, made, subjects) = (HashMap::new(), vec![], HashSet::new());
        let mut reaction =
            Self { deliveries, queue, wake, shelf, matchers, made, bytes: 0, subjects, at, revision, kept };
        for instance_id in reaction.shelf.instances() {
            reaction.arrange(&instance_id);
        }
        Ok(reaction)
    }

    pub(super) async fn run(mut self) -> Result<Infallible, Failure> {
        let mut records = self.deliveries.log.follow(self.at).await?.ready_chunks(CHUNK);
        loop {
            let chunk = records.next().await.ok_or(Failure::LogEnded)?;
            for record in chunk {
                self.take(&*record?).await?;
            }
            self.put().await?;
            if !self.subjects.is_empty() || self.kept.elapsed() >= KEEP_EVERY {
                self.keep().await?;
            }
        }
    }

    /// Takes a record up: what each event triggers by the executions before it, and what it makes of them.
    async fn take(&mut self, record: &Record) -> Result<(), Failure> {
        for recorded in &record.events {
            self.trigger(recorded).await?;
            if self.shelf.apply(recorded) {
                self.arrange(&recorded.event.instance_id);
            }
        }
        self.at = record.position();
        Ok(())
    }

    async fn trigger(&mut self, recorded: &Recorded) -> Result<(), Failure> {
        let event = &recorded.event;
        let matcher = self.matchers.get(&event.instance_id).filter(|_| recorded.is_for_instance());
        let chain = matcher.and_then(|matcher| matcher.event(&event.r#type));
        let Some(chain) = chain else { return Ok(()) };
        for delivery in deliveries(recorded, &chain, depth(&event.causation_id)) {
            self.bytes += delivery.body.get().len();
            self.made.push(delivery);
            if self.made.len() >= MOST_MADE || self.bytes >= MOST_BYTES {
                self.put().await?;
            }
        }
        Ok(())
    }

    /// Puts into the queue what was made.
    async fn put(&mut self) -> Result<(), Failure> {
        self.bytes = 0;
        let made = std::mem::take(&mut self.made);
        self.subjects.extend(self.queue.put(&made).await?);
        Ok(())
    }

    /// Keeps the place behind all that was put in, and has that delivered.
    async fn keep(&mut self) -> Result<(), Failure> {
        if !self.subjects.is_empty() {
            base::fault::point("deliveries.put");
        }
        self.revision = self.queue.moved(self.at, Some(self.revision)).await?;
        self.kept = Instant::now();
        for subject in self.subjects.drain() {
            // The lanes live as long as this.
            let _ = self.wake.send(subject).await;
        }
        Ok(())
    }

    fn arrange(&mut self, instance_id: &str) {
        self.matchers.insert(instance_id.to_owned(), self.shelf.matcher(instance_id));
    }
}
