//! Follows an index that another process writes: manifest after manifest, without polling.

use std::{collections::HashMap, convert::Infallible, path::Path, sync::Arc, time::Duration};

use base::explain::explain;
use eventlog::log::Log;
use futures::{FutureExt, StreamExt};
use tokio::{
    sync::watch,
    time::{Instant, interval_at, sleep},
};
use view::{projection::Projection, table::Table};

use crate::{
    failure::IndexFailure,
    folder::Folder,
    layout::Layout,
    manifest::Manifest,
    moved::IndexProgress,
    remote::{Publication, Remote},
    replica::Replica,
    search::Snapshot,
};

/// How long nothing is received before the newest manifest is requested.
const IDLE: Duration = Duration::from_secs(5);
/// The pause after a failure, which grows from the first to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Receives the newest snapshot of an index.
pub type SnapshotReceiver = watch::Receiver<Option<Arc<Snapshot>>>;
/// Shows the newest snapshot of an index.
pub type SnapshotSender = watch::Sender<Option<Arc<Snapshot>>>;

/// The search indexes that a process can read, by projection.
#[derive(Debug, Clone, Default)]
pub struct Indexes(HashMap<&'static str, SnapshotReceiver>);

/// Follows an index that another process writes, and makes it readable here.
#[derive(Debug, Clone)]
pub struct Follower {
    /// The log, to check whether the index belongs to it.
    pub log: Log,
    /// Where the index is published.
    pub remote: Remote,
    /// Its name in the remote store.
    pub name: String,
    /// The folder of the index on this machine.
    pub folder: Folder,
    /// The layout of the index.
    pub layout: Layout,
    /// The shard of the log that it is built from.
    shard: u16,
}

/// Shows a snapshot, unless a newer one was shown: an index never seems to go back.
pub fn replace_snapshot(shown: &SnapshotSender, snapshot: Arc<Snapshot>) {
    let stream_sequence = snapshot.position.stream_sequence;
    if stream_sequence >= position(shown) {
        shown.send_replace(Some(snapshot));
    }
}

/// Returns the last record in the snapshot that is shown.
fn position(shown: &SnapshotSender) -> u64 {
    shown.borrow().as_ref().map_or(0, |newest| newest.position.stream_sequence)
}

impl Indexes {
    /// Adds the index of a projection.
    pub fn add(&mut self, projection: &'static Projection, newest: SnapshotReceiver) {
        self.0.insert(projection.name, newest);
    }

    /// Returns the index of a projection; `None` if this process has none.
    pub fn of(&self, projection: &Projection) -> Option<SnapshotReceiver> {
        self.named(projection.name)
    }

    /// Returns the index of the projection with a name.
    pub fn named(&self, projection: &str) -> Option<SnapshotReceiver> {
        self.0.get(projection).cloned()
    }

    /// Returns every index of this process, with the name of its projection.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &SnapshotReceiver)> {
        self.0.iter().map(|(name, newest)| (*name, newest))
    }
}

/// The storage of indexes.
pub struct Storage<'a> {
    /// What is published.
    pub remote: Remote,
    /// The folder on this node that has a folder of each index.
    pub folder: &'a Path,
}

impl Follower {
    /// Creates a follower of the index of a table, by its [name](crate::name) or that of a generation beside it.
    ///
    /// # Errors
    /// If another process uses the folder of the index.
    pub fn new(
        log: Log,
        Storage { remote, folder }: Storage<'_>,
        table: &Table,
        name: String,
        shard: u16,
    ) -> Result<Self, IndexFailure> {
        let folder = Folder::open(&folder.join(&name))?;
        Ok(Self { log, remote, name, folder, layout: Layout::of(table), shard })
    }

    /// Shows what is published, as it changes. It goes on after all failures and never returns.
    pub async fn follow(&self, shown: &SnapshotSender) -> Infallible {
        let mut pause = PAUSES.0;
        loop {
            let before = position(shown);
            let Err(failure) = self.try_follow(shown).await;
            pause = if position(shown) == before { (pause * 2).min(PAUSES.1) } else { PAUSES.0 };
            match failure {
                IndexFailure::OtherLog | IndexFailure::OtherLayout | IndexFailure::Unreadable => {
                    tracing::error!(index = self.name, error = %failure, "the search index cannot be used");
                }
                _ => {
                    tracing::warn!(index = self.name, error = %explain(&failure), "the search index is fetched again");
                }
            }
            sleep(pause).await;
        }
    }

    async fn try_follow(&self, shown: &SnapshotSender) -> Result<Infallible, IndexFailure> {
        let mut replica = Replica::new(self.folder.clone(), self.layout.clone());
        // In this order, so that no announcement about the newest manifest is missed.
        let mut announcements = IndexProgress::listen(&self.log.client(), self.shard, &self.name).await?;
        let mut manifests = self.remote.watch(&self.name).await?;
        let mut idle = interval_at(Instant::now() + IDLE, IDLE);
        let (mut newest, mut revision, mut moved): (Option<Manifest>, _, Option<IndexProgress>) = (None, 0, None);
        let (mut installed, mut epoch): (Option<Arc<Snapshot>>, _) = (None, None);
        loop {
            tokio::select! {
                told = manifests.next() => {
                    let mut told = told.ok_or_else(|| IndexFailure::Nats("the manifests ended".to_owned()))??;
                    while let Some(Some(newer)) = manifests.next().now_or_never() {
                        told = newer?;
                    }
                    (revision, installed) = (told.revision, None);
                    newest = match told.manifest {
                        Publication::Manifest(manifest) => Some(manifest),
                        Publication::Nothing => None,
                        Publication::Unreadable => return Err(IndexFailure::Unreadable),
                    };
                    idle.reset();
                }
                Some(next) = announcements.next() => moved = Some(next),
                _ = idle.tick() => {
                    if self.remote.newest(&self.name).await?.revision != revision {
                        return Err(IndexFailure::Nats("a manifest was lost on its way".to_owned()));
                    }
                    continue;
                }
            }
            let Some(manifest) = newest.as_ref().filter(|manifest| !manifest.meta.is_empty()) else { continue };
            let stored = manifest.position().stream_sequence;
            let moved = moved.as_ref().filter(|moved| moved.revision == revision);
            let moved = moved.filter(|moved| moved.position().stream_sequence > stored);
            let at = moved.map_or(stored, |moved| moved.position().stream_sequence);
            if at < position(shown) || at == position(shown) && installed.is_some() {
                // Either it is being built again, and what was shown stays until the new one has caught up; or it is
                // shown already.
                continue;
            }
            let files = match installed.take() {
                Some(files) => files,
                None => self.install(&mut replica, manifest, &mut epoch).await?,
            };
            replace_snapshot(shown, moved.map_or(Ok(files.clone()), |moved| moved.applied(&files).map(Arc::new))?);
            installed = Some(files);
        }
    }

    async fn install(
        &self,
        replica: &mut Replica,
        manifest: &Manifest,
        epoch: &mut Option<u64>,
    ) -> Result<Arc<Snapshot>, IndexFailure> {
        if *epoch != Some(manifest.epoch) {
            if !self.log.has(manifest.position()).await? {
                return Err(IndexFailure::OtherLog);
            }
            *epoch = Some(manifest.epoch);
        }
        replica.install(manifest, &self.remote).await
    }
}
