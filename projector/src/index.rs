//! The index unit: writes a search index under a lease, publishes it for all nodes and shows it in this process.
//!
//! While another process holds the lease, it follows what that one publishes, so its readers miss nothing, and a
//! take-over begins with local files. An index is only a cache of the log: a broken one is built again.

mod opening;
mod publishing;
mod rewriting;
mod writing;

use std::{
    convert::Infallible,
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use base::{clock, explain::explain, fault};
use eventlog::{
    lease::Lease,
    log::LogFailure,
    record::Record,
    unit::{self, supervise, while_held},
};
use futures::Stream;
use index::{
    Folder, Follower, Publisher, Snapshot, SnapshotSender, Storage, generation_name, replace_snapshot,
    rewrite::Requests,
};
use jiff::Timestamp;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use view::{
    failed_event::ParkedAt,
    projection::{Kind, Projection},
    table::Table,
};

use self::{
    opening::Opened,
    writing::{Current, Erasing, Writing},
};
use crate::{
    Partition, Projector,
    batch::{Batch, Batches, MOST_OLD_EVENTS, follow},
    decision::discarded,
    failure::BatchFailure,
    parked::{self, Parked},
    reporter::{Cause, Reporter},
    unit::{OUTDATED_PAUSE, outdated, report_stop},
};

/// How long changes are gathered before a commit. The first change is committed at once.
fn commit_every() -> Duration {
    fault::shortened(Duration::from_millis(250), Duration::from_millis(100))
}
/// The same while older events are applied: few large segments cost less than many small ones.
fn catch_up_every() -> Duration {
    fault::shortened(Duration::from_secs(2), Duration::from_millis(500))
}
/// How long after a commit the next one is due.
fn commits_in(committed_at: Timestamp) -> Duration {
    let is_catching_up = clock::now().checked_sub(catch_up_every()).is_ok_and(|then| committed_at < then);
    if is_catching_up { catch_up_every() } else { commit_every() }
}
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after another generation has taken the place of the one that was written.
const EXCHANGED_PAUSE: Duration = Duration::from_millis(50);
/// How often the progress is announced.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Why the index has stopped.
#[derive(Debug, thiserror::Error)]
enum Stall {
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Index(#[from] index::IndexFailure),
    #[error(transparent)]
    Batch(#[from] BatchFailure),
    #[error("the log ended")]
    LogEnded,
}

impl Stall {
    /// The cause, as in metrics.
    fn cause(&self) -> Cause {
        match self {
            Self::Batch(failure) => failure.cause(),
            Self::Index(index::IndexFailure::Fenced) => Cause::Fenced,
            Self::Index(index::IndexFailure::Nats(_)) | Self::Log(LogFailure::Nats(_)) | Self::LogEnded => Cause::Nats,
            Self::Log(_) | Self::Index(index::IndexFailure::OtherLog) => Cause::Log,
            Self::Index(_) => Cause::Index,
        }
    }
}

/// The configuration of search indexes.
#[derive(Debug, Clone)]
pub struct Indexing {
    /// The folder of the indexes on this machine.
    pub folder: PathBuf,
    /// The storage that they are published to.
    pub remote: index::Remote,
    /// How long published files stay after the last manifest that names them.
    pub grace: Duration,
}

/// Returns the name of the index that answers, if the projection or the generation is one.
pub(crate) fn name_of(projector: &Projector, projection: &Projection) -> Option<String> {
    let Kind::Index(table) = &projection.kind else { return None };
    Some(index::name(projection, table, projector.shard))
}

/// A search index that this process writes or follows.
pub(crate) struct Unit {
    projector: Projector,
    projection: &'static Projection,
    table: &'static Table,
    /// Since when it is a generation beside the index that answers, if it is.
    since: Option<Timestamp>,
    follower: Follower,
    /// How many times in a row published files were incomplete.
    incomplete: AtomicU32,
    shown: SnapshotSender,
    reporter: Reporter,
    /// Why this process has stopped for good: so much failed that only another build may go on.
    stopped: Option<String>,
    /// Whether a document may be the reason of the last stop.
    is_careful: bool,
}

/// The channel of complete commits.
type Committed = watch::Sender<Option<Arc<Snapshot>>>;

impl unit::Unit for Unit {
    type End = Infallible;

    fn name(&self) -> String {
        format!("projection.{}", self.follower.name)
    }

    async fn stand_by(&self) -> Infallible {
        tokio::select! {
            never = self.follower.follow(&self.shown) => never,
            never = self.reporter.stand_by() => never,
        }
    }

    async fn work(&mut self, lease: &Lease, shutdown: &CancellationToken) -> ControlFlow<Infallible, Duration> {
        if let Some(reason) = &self.stopped {
            self.reporter.stalls(Cause::Event, reason.clone());
            report_stop(&self.projector, self.projection, Cause::Event, reason).await;
            return ControlFlow::Continue(OUTDATED_PAUSE);
        }
        let Some(Err(stall)) = while_held(self.publish_commits(lease), lease, shutdown).await else {
            return ControlFlow::Continue(Duration::ZERO);
        };
        let (error, index) = (explain(&stall), &self.follower.name);
        self.is_careful = matches!(&stall, Stall::Index(failure) if failure.may_be_of_document());
        ControlFlow::Continue(match &stall {
            Stall::Index(index::IndexFailure::Exchanged) => {
                tracing::info!(index, "another generation of the search index answers now");
                EXCHANGED_PAUSE
            }
            Stall::Batch(failure @ BatchFailure::Event(event)) if event.is_newer() => {
                tracing::error!(index, error, "this node is outdated and leaves the search index to others");
                let told = outdated(&failure.without_values());
                if self.reporter.is_outdated(error) {
                    report_stop(&self.projector, self.projection, Cause::Event, &told).await;
                }
                OUTDATED_PAUSE
            }
            stall => {
                tracing::error!(index, error, "the search index has stopped");
                self.stopped = matches!(stall, Stall::Batch(BatchFailure::Flood(_))).then(|| error.clone());
                let told = if let Stall::Batch(failure) = stall { failure.without_values() } else { error.clone() };
                report_stop(&self.projector, self.projection, stall.cause(), &told).await;
                self.reporter.stalls(stall.cause(), error);
                PAUSE
            }
        })
    }
}

impl Unit {
    /// A unit that works on the index of a table, or on the generation that is beside it since then.
    pub(crate) fn new(
        projector: &Projector,
        projection: &'static Projection,
        since: Option<Timestamp>,
        shown: SnapshotSender,
    ) -> Result<Self, index::IndexFailure> {
        let Kind::Index(table) = &projection.kind else { return Err(index::IndexFailure::NoIndex(projection.name)) };
        let Indexing { folder, remote, .. } = &projector.indexing;
        let (log, shard) = (projector.log_of(projection).clone(), projector.shard);
        let storage = Storage { remote: remote.clone(), folder };
        let active = index::name(projection, table, shard);
        let name = since.map_or_else(|| active.clone(), |since| generation_name(&active, since));
        let follower = Follower::new(log, storage, table, name, shard)?;
        let incomplete = AtomicU32::new(0);
        let reporter = Reporter::new(&projector.health, projection, shard);
        Ok(Self {
            projector: projector.clone(),
            projection,
            table,
            since,
            follower,
            incomplete,
            shown,
            reporter,
            stopped: None,
            is_careful: false,
        })
    }

    /// Returns the folder of the index on this machine.
    pub(crate) fn folder(&self) -> &Folder {
        &self.follower.folder
    }

    /// Writes the index while nobody else does and follows it otherwise, until `shutdown`.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let leases = self.projector.leases.clone();
        supervise(&mut self, &leases, &shutdown).await;
    }

    /// Takes the index over, then commits what the log brings and publishes the commits.
    async fn publish_commits(&self, lease: &Lease) -> Result<Infallible, Stall> {
        let Follower { remote, name, folder, .. } = &self.follower;
        let grace = self.projector.indexing.grace;
        let begin = async {
            let publisher = Publisher::take_over(remote.clone(), name, folder.clone(), grace).await?;
            let mut opened = self.open(publisher.manifest()).await?;
            if self.is_careful {
                opened.writer.rehearse_documents();
            }
            let is_as_published = opened.snapshot.position == publisher.manifest().position();
            Ok::<_, Stall>((if is_as_published { publisher } else { publisher.anew() }, opened))
        };
        let (publisher, opened) = lease.during(begin).await?;
        let (committed, newest) = watch::channel(None);
        let (parked, all_parked) = watch::channel(None);
        let database = &self.projector.database;
        let partition = Partition { projection: self.projection, shard: self.projector.shard };
        tokio::select! {
            stall = self.commit(opened, committed, parked, lease) => stall,
            stall = self.publish(publisher, newest) => stall,
            never = parked::keep_copy(database, partition, all_parked) => match never {},
        }
    }

    async fn commit(
        &self,
        opened: Opened,
        committed: Committed,
        all_parked: watch::Sender<Option<Vec<ParkedAt>>>,
        lease: &Lease,
    ) -> Result<Infallible, Stall> {
        let (database, Opened { writer, mut snapshot, complete_from }) = (&self.projector.database, opened);
        let mut parked = lease.during(self.parked(&snapshot)).await?;
        all_parked.send_replace(parked.news().map(|(_, all)| all));
        let (log, shard) = (&self.follower.log, self.projector.shard);
        let mut batches = follow(log, snapshot.position, MOST_OLD_EVENTS).await?;
        let mut requests = Requests::listen(log.client(), shard, &self.follower.name).await?;
        self.report(&snapshot, complete_from, &committed);
        let mut erasing = Erasing::begin(self.table, &writer)?;
        let (mut writer, mut next, mut is_changed) = (Writing::new(writer), None, false);
        let (mut due, mut reached) = (Instant::now(), snapshot.position.sequence);
        loop {
            lease.tick();
            if !is_changed {
                let (before, current) = (snapshot.clone(), Current { writer, snapshot, erasing });
                Current { writer, snapshot, erasing } =
                    lease.during(self.tend(current, &parked, &mut requests)).await?;
                if !Arc::ptr_eq(&before, &snapshot) {
                    self.report(&snapshot, complete_from, &committed);
                }
            }
            lease.during(parked.listen(database)).await;
            let Some(batch) = next_batch(next.take(), &mut batches, &parked, &snapshot).await? else { continue };
            let batch = batches.gathered(batch, due).await;
            writer.catches_up(batch.end.stream_sequence < batches.end);
            let (end, committed_at, is_old) = (batch.end, batch.committed_at, batch.is_old());
            let begun = Instant::now();
            let batch = lease.during(self.opened(batch)).await?;
            let taken = lease.during(parked.take_up(database, self.table, reached, &batch)).await?;
            reached = end.sequence;
            let has_others;
            (writer, has_others) = lease.during(self.write(writer, &mut parked, &mut erasing, taken)).await?;
            is_changed |= has_others;
            if let Some((omitted, all)) = parked.news() {
                is_changed |= writer.omit(omitted);
                all_parked.send_replace(Some(all));
            }
            self.reporter.applied(begun.elapsed());
            self.leave_time(lease, is_old, begun).await;
            if Instant::now() < due
                && let Ok(Some(Ok(more))) = timeout_at(due, batches.next()).await
            {
                next = Some(more);
                continue;
            }
            if std::mem::take(&mut is_changed) {
                (writer, snapshot) = self.committed(lease.during(self.seated(writer)).await, end, committed_at).await?;
            } else {
                snapshot = Arc::new(snapshot.at(end, committed_at)?);
            }
            due = Instant::now() + commits_in(committed_at);
            self.report(&snapshot, complete_from, &committed);
        }
    }

    /// Leaves half of the time to those that answer, while a generation catches up.
    async fn leave_time(&self, lease: &Lease, is_old: bool, begun: Instant) {
        if self.since.is_some() && is_old {
            lease.during(sleep(begun.elapsed().min(HEARTBEAT))).await;
        }
    }

    /// Loads what a commit omits, and what is left out of all later ones.
    async fn parked(&self, snapshot: &Snapshot) -> Result<Parked, Stall> {
        let partition = Partition { projection: self.projection, shard: self.projector.shard };
        let discarded = discarded::<Stall>(&self.projector, partition, snapshot.position).await?;
        let parked = Parked::omitted(&self.projector, self.projection, self.table, snapshot, discarded);
        Ok(parked.await.map_err(BatchFailure::from)?)
    }

    /// Shows a commit and passes it on to be published, unless the index is still being built again.
    fn report(&self, snapshot: &Arc<Snapshot>, complete_from: u64, committed: &Committed) {
        if snapshot.position.stream_sequence >= complete_from {
            replace_snapshot(&self.shown, snapshot.clone());
            committed.send_replace(Some(snapshot.clone()));
        }
    }
}

/// Returns the batch that is there, or waits for one; an empty one if something is to be tried again, and `None` if
/// nothing is there yet.
async fn next_batch(
    there: Option<Batch>,
    batches: &mut Batches<impl Stream<Item = Result<Arc<Record>, LogFailure>> + Unpin>,
    parked: &Parked,
    snapshot: &Snapshot,
) -> Result<Option<Batch>, Stall> {
    if there.is_some() {
        return Ok(there);
    }
    match timeout(parked.look_again(HEARTBEAT), batches.next()).await {
        Ok(batch) => Ok(Some(batch.ok_or(Stall::LogEnded)??)),
        Err(_) if parked.are_due() => Ok(Some(Batch::empty(snapshot.position, snapshot.committed_at))),
        Err(_) => Ok(None),
    }
}
