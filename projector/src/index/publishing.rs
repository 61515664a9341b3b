//! Publishing an index while it is written, and telling how far it is.

use std::{convert::Infallible, sync::Arc, time::Duration};

use base::{explain::explain, health::Reached};
use futures::StreamExt;
use index::{IndexFailure, IndexProgress, Publisher, Snapshot, generation_name};
use jiff::Timestamp;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use view::{
    checkpoint::Checkpoint,
    database::DatabaseFailure,
    generation::{generations, note_progress},
    progress::Announcer,
};

use super::{HEARTBEAT, Stall, Unit};
use crate::Projector;

/// The shortest interval between comparisons of stored files with those that manifests name.
const TIDY_EVERY: Duration = Duration::from_mins(1);

/// The newest commit; `None` before there is one.
type Newest = watch::Receiver<Option<Arc<Snapshot>>>;

impl Unit {
    /// Publishes the newest commit as fast as possible; commits in between are never published.
    pub(super) async fn publish(&self, mut publisher: Publisher, newest: Newest) -> Result<Infallible, Stall> {
        let Err(stall) = self.publish_all(&mut publisher, newest).await;
        Err(if let Stall::Index(IndexFailure::Fenced) = stall { publisher.why_fenced().await.into() } else { stall })
    }

    async fn publish_all(&self, publisher: &mut Publisher, mut newest: Newest) -> Result<Infallible, Stall> {
        let (client, name) = (self.follower.log.client(), &self.follower.name);
        let Projector { shard, indexing, .. } = &self.projector;
        let announcer = Announcer::new(client.clone(), self.projection, *shard);
        let mut others = IndexProgress::listen(&client, *shard, name).await?;
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let tidy_every = TIDY_EVERY.min(indexing.grace);
        let mut tidy_at = Instant::now();
        self.reporter.has_begun(Reached::from(publisher.manifest().position()));
        heartbeat.reset();
        loop {
            tokio::select! {
                changed = newest.changed() => {
                    // The sender is dropped only together with this future.
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    let snapshot = newest.borrow_and_update().clone();
                    if let Some(snapshot) = &snapshot {
                        publisher.publish(snapshot).await?;
                        self.note_progress(publisher, &newest).await;
                    }
                }
                Some(other) = others.next() => {
                    if publisher.is_replaced(&other) {
                        return Err(IndexFailure::Fenced.into());
                    }
                    continue;
                }
                _ = heartbeat.tick() => self.note_progress(publisher, &newest).await,
                () = sleep_until(tidy_at) => {
                    let snapshot = newest.borrow().clone();
                    if let Some(snapshot) = snapshot {
                        self.tidy(publisher, &snapshot).await?;
                    }
                    tidy_at = Instant::now() + tidy_every;
                }
            }
            let reached = Reached::from(publisher.position());
            self.reporter.works(reached);
            if let Some(moved) = publisher.moved() {
                moved.announce(&client, *shard, name).await;
            }
            announcer.announce(reached).await;
        }
    }

    /// Notes how far a generation is, for those who would let it answer.
    async fn note_progress(&self, publisher: &Publisher, newest: &Newest) {
        let Some(since) = self.since else { return };
        let committed_at = newest.borrow().as_ref().map_or(Timestamp::UNIX_EPOCH, |snapshot| snapshot.committed_at);
        let epoch = i64::try_from(publisher.revision()).unwrap_or_default();
        let checkpoint = Checkpoint { epoch, position: publisher.position(), committed_at };
        let Projector { database, shard, .. } = &self.projector;
        let note =
            async { note_progress(&*database.connection().await?, self.projection, *shard, since, checkpoint).await };
        if let Err(error) = database.within(note).await {
            tracing::debug!(error = explain(&error), "the progress of a generation cannot be noted");
        }
    }

    async fn tidy(&self, publisher: &mut Publisher, snapshot: &Snapshot) -> Result<(), Stall> {
        let tidied = async {
            if self.since.is_none() {
                match self.generations().await {
                    Ok(generations) => return publisher.tidy(snapshot, &generations).await,
                    Err(error) => tracing::debug!(error = explain(&error), "the generations cannot be listed"),
                }
            }
            publisher.repair(snapshot).await
        };
        match tidied.await {
            Err(failure @ IndexFailure::Nats(_)) => {
                let (index, error) = (&self.follower.name, explain(&failure));
                tracing::warn!(index, error, "stale files were not removed");
                Ok(())
            }
            tidied => Ok(tidied?),
        }
    }

    /// Returns the names of the generations beside the index.
    async fn generations(&self) -> Result<Vec<String>, DatabaseFailure> {
        let Projector { database, shard, .. } = &self.projector;
        let all = generations(database, *shard).await?;
        let beside = all.iter().filter(|generation| generation.projection.view == self.projection.view);
        Ok(beside.map(|generation| generation_name(&self.follower.name, generation.since)).collect())
    }
}
