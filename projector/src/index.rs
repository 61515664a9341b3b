//! The index unit: keeps a search index under a lease, publishes it for all nodes and shows it in this process.
//!
//! While another process holds the lease, it follows what that one publishes: its readers miss nothing, and a take-over
//! begins with files that are already here. An index is no more than a cache of the log: what is broken is built again.

use std::{convert::Infallible, path::PathBuf, sync::Arc, time::Duration};

use store::{
    explain::explain,
    fault,
    index::{self, Folder, Follower, Layout, Manifest, Publisher, Replica, Shown, Snapshot, Writer, show},
    log::{Failure as LogFailure, Log},
    progress::{Announcer, Reached},
    projection::Projection,
    record::{Record, Undecodable},
    table::Table,
};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Projector,
    batch::{self, Batch},
};

/// The first event commits at once; what follows gathers for so long.
const COMMIT_EVERY: Duration = Duration::from_millis(100);
/// As above, while there is more to read than a batch takes: few large segments cost less than many small ones.
const CATCH_UP_EVERY: Duration = Duration::from_secs(2);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it says how far it is.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How often it compares what is stored with what is named, at most.
const TIDY_EVERY: Duration = Duration::from_mins(1);

/// Why the index does not go on.
#[derive(Debug, thiserror::Error)]
enum Stall {
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Index(#[from] index::Failure),
    #[error(transparent)]
    Event(#[from] Undecodable),
    #[error("the log ended")]
    LogEnded,
    #[error("a task of the index was cancelled")]
    Cancelled(#[from] tokio::task::JoinError),
}

/// How indexes are kept.
#[derive(Debug, Clone)]
pub struct Indexing {
    /// Where their folders are on this machine.
    pub folder: PathBuf,
    /// Where they are published.
    pub remote: index::Remote,
    /// How long published files stay after the last manifest that names them.
    pub grace: Duration,
}

/// A search index that this process keeps or follows.
pub(crate) struct Unit {
    projector: Projector,
    projection: &'static Projection,
    table: &'static Table,
    name: String,
    folder: Folder,
    grace: Duration,
    remote: index::Remote,
    shown: Shown,
}

impl Unit {
    pub(crate) fn new(
        projector: &Projector,
        (projection, table): (&'static Projection, &'static Table),
        shown: Shown,
    ) -> Result<Self, index::Failure> {
        let Indexing { folder, remote, grace } = projector.indexing.clone();
        let name = index::name(projection, projector.shard);
        let folder = Folder::open(&folder.join(&name))?;
        Ok(Self { projector: projector.clone(), projection, table, name, folder, grace, remote, shown })
    }

    /// Keeps the index whenever nobody else does and follows it otherwise, until `shutdown`.
    pub(crate) async fn work(self, shutdown: CancellationToken) {
        let lease_name = format!("projection.{}", self.name);
        let follower = self.follower();
        while !shutdown.is_cancelled() {
            let lease = tokio::select! {
                lease = self.projector.leases.acquire(&lease_name) => lease.keep(),
                never = follower.follow(&self.shown) => match never {},
                () = shutdown.cancelled() => return,
            };
            let stall = tokio::select! {
                stall = self.keep() => stall.err(),
                () = lease.lost() => None,
                () = shutdown.cancelled() => None,
            };
            lease.release().await;
            if let Some(stall) = stall {
                tracing::error!(index = self.name, error = %explain(&stall), "the search index stands still");
                tokio::select! {
                    () = sleep(PAUSE) => {}
                    () = shutdown.cancelled() => {}
                }
            }
        }
    }

    fn follower(&self) -> Follower {
        Follower {
            log: self.projector.log.clone(),
            remote: self.remote.clone(),
            name: self.name.clone(),
            folder: self.folder.clone(),
            layout: Layout::of(self.table),
        }
    }

    /// Takes the index over, then commits what the log brings and publishes what was committed.
    async fn keep(&self) -> Result<Infallible, Stall> {
        let publisher = Publisher::take_over(self.remote.clone(), &self.name, self.folder.clone(), self.grace).await?;
        let writer = self.open(publisher.manifest()).await?;
        let snapshot = Arc::new(writer.snapshot()?);
        show(&self.shown, snapshot.clone());
        let (committed, newest) = watch::channel(snapshot);
        tokio::select! {
            stall = self.commit(writer, committed) => stall,
            stall = self.publish(publisher, newest) => stall,
        }
    }

    /// The index as it was published last, whatever this machine has; a new one where that cannot be had.
    async fn open(&self, published: &Manifest) -> Result<Writer, Stall> {
        let layout = Layout::of(self.table);
        let (folder, wanted) = (self.folder.clone(), layout.clone());
        if !published.meta.is_empty() {
            let mut replica = Replica::new(folder.clone(), layout.clone());
            match replica.install(published, &self.remote).await {
                Ok(snapshot) if self.projector.log.has(snapshot.position).await? => {
                    return Ok(tokio::task::spawn_blocking(move || Writer::open(&folder, layout)).await??);
                }
                Ok(_) => tracing::warn!(index = self.name, "the published index belongs to another log"),
                Err(failure @ index::Failure::Nats(_)) => return Err(failure.into()),
                Err(failure) => {
                    tracing::warn!(index = self.name, error = %explain(&failure), "the published index cannot be used");
                }
            }
        }
        Ok(tokio::task::spawn_blocking(move || Writer::create(&folder, wanted)).await??)
    }

    async fn commit(&self, mut writer: Writer, committed: watch::Sender<Arc<Snapshot>>) -> Result<Infallible, Stall> {
        let log: &Log = &self.projector.log;
        let from = committed.borrow().position;
        let mut records = log.follow(from).await?;
        let mut next = None;
        let mut due = Instant::now();
        loop {
            let batch = match next.take() {
                Some(batch) => batch,
                None => batch::next(&mut records).await.ok_or(Stall::LogEnded)??,
            };
            let is_behind = batch.is_full();
            let (end, committed_at) = (batch.end, batch.records.last().map(Record::committed_at).unwrap_or_default());
            writer = self.apply(writer, batch).await?;
            if Instant::now() < due
                && let Ok(more) = timeout_at(due, batch::next(&mut records)).await
            {
                next = Some(more.ok_or(Stall::LogEnded)??);
                continue;
            }
            let (kept, snapshot) = tokio::task::spawn_blocking(move || {
                let snapshot = writer.commit(end, committed_at)?;
                Ok::<_, Stall>((writer, Arc::new(snapshot)))
            })
            .await??;
            fault::point("index.committed");
            writer = kept;
            due = Instant::now() + if is_behind { CATCH_UP_EVERY } else { COMMIT_EVERY };
            show(&self.shown, snapshot.clone());
            committed.send_replace(snapshot);
        }
    }

    async fn apply(&self, mut writer: Writer, batch: Batch) -> Result<Writer, Stall> {
        fault::point("index.fetched");
        let table = self.table;
        let applied = tokio::task::spawn_blocking(move || {
            writer.apply(&table.fold(&batch.events)?)?;
            fault::point("index.applied");
            Ok::<_, Stall>(writer)
        });
        applied.await?
    }

    /// Publishes the newest commit as fast as that goes; those between are never published.
    async fn publish(
        &self,
        mut publisher: Publisher,
        mut newest: watch::Receiver<Arc<Snapshot>>,
    ) -> Result<Infallible, Stall> {
        let Projector { log, shard, .. } = &self.projector;
        let announcer = Announcer::new(log.client(), self.projection, *shard);
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let tidy_every = TIDY_EVERY.min(self.grace);
        let mut tidy_at = Instant::now();
        let mut snapshot = newest.borrow().clone();
        if publisher.manifest().meta.is_empty() {
            newest.mark_changed();
        }
        loop {
            tokio::select! {
                changed = newest.changed() => {
                    // Its sender is dropped only together with this.
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    snapshot = newest.borrow_and_update().clone();
                    publisher.publish(&snapshot).await?;
                }
                _ = heartbeat.tick() => {}
                () = sleep_until(tidy_at) => {
                    publisher.tidy(&snapshot).await?;
                    tidy_at = Instant::now() + tidy_every;
                }
            }
            announcer.announce(Reached::from(snapshot.position)).await;
        }
    }
}
