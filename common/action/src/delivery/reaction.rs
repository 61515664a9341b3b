//! The reaction on the log: which events trigger executions, as those were when the event was committed.

use std::{collections::HashMap, convert::Infallible, time::Duration};

use futures::StreamExt;
use store::record::{Position, Record, Recorded};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Deliveries, Failure, depth,
    payload::{Delivery, deliveries},
    queue::Queue,
};
use crate::{
    MOST_DEPTH,
    book::{Matcher, Shelf},
};

/// How many records are taken at once.
const CHUNK: usize = 64;
/// How often the place is kept while nothing is triggered.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// The reaction while it runs.
pub(super) struct Reaction<'a> {
    deliveries: &'a Deliveries,
    queue: Queue,
    wake: mpsc::Sender<String>,
    shelf: Shelf,
    matchers: HashMap<String, Matcher>,
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
        let mut reaction = Self { deliveries, queue, wake, shelf, matchers: HashMap::new(), at, revision, kept };
        for instance_id in reaction.shelf.instances() {
            reaction.arrange(&instance_id);
        }
        Ok(reaction)
    }

    pub(super) async fn run(mut self) -> Result<Infallible, Failure> {
        let mut records = self.deliveries.log.follow(self.at).await?.ready_chunks(CHUNK);
        loop {
            let chunk = records.next().await.ok_or(Failure::LogEnded)?;
            let mut made = vec![];
            for record in chunk {
                self.take(&*record?, &mut made);
            }
            self.put(made).await?;
        }
    }

    /// Takes a record up: what each event triggers by the executions before it, and what it makes of them.
    fn take(&mut self, record: &Record, made: &mut Vec<Delivery>) {
        for recorded in &record.events {
            self.trigger(recorded, made);
            if self.shelf.apply(recorded) {
                self.arrange(&recorded.event.instance_id);
            }
        }
        self.at = record.position();
    }

    fn trigger(&self, recorded: &Recorded, made: &mut Vec<Delivery>) {
        let event = &recorded.event;
        let chain = self.matchers.get(&event.instance_id).and_then(|matcher| matcher.event(&event.r#type));
        let Some(chain) = chain else { return };
        let depth = depth(&event.causation_id);
        if depth > MOST_DEPTH {
            let (instance, sequence) = (&event.instance_id, recorded.sequence);
            tracing::warn!(instance, sequence, "an event is not delivered: executions cause each other in a circle");
            return;
        }
        made.extend(deliveries(recorded, &chain, depth));
    }

    async fn put(&mut self, made: Vec<Delivery>) -> Result<(), Failure> {
        if made.is_empty() && self.kept.elapsed() < KEEP_EVERY {
            return Ok(());
        }
        let mut subjects = self.queue.put(&made).await?;
        if !made.is_empty() {
            store::fault::point("deliveries.put");
        }
        self.revision = self.queue.moved(self.at, Some(self.revision)).await?;
        self.kept = Instant::now();
        subjects.sort_unstable();
        subjects.dedup();
        for subject in subjects {
            // The lanes live as long as this.
            let _ = self.wake.send(subject).await;
        }
        Ok(())
    }

    fn arrange(&mut self, instance_id: &str) {
        self.matchers.insert(instance_id.to_owned(), self.shelf.matcher(instance_id));
    }
}
