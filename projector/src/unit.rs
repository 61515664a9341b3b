//! A work unit: one projection of one shard, under a lease.

use std::{convert::Infallible, ops::ControlFlow, time::Duration};

use base::{explain::explain, fault, health::Reached, trace};
use eventlog::{
    lease::Lease,
    log::{self, LogFailure},
    record::Position,
    unit::{self, supervise, while_held},
};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use view::{
    checkpoint::{Checkpoint, Expected},
    database, generation,
    progress::Announcer,
    projection::{ACCESS, Projection},
    read_model::ReadModel,
    schema,
};

use crate::{
    Partition, Projector,
    batch::{self, Batch, MOST_OLD_EVENTS},
    decision::discarded,
    failure::BatchFailure,
    parked::Parked,
    project::{self, Projected},
    reporter::{Cause, Reporter},
};

/// How often an idle unit announces its position.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How often a position is announced while records leave the rows as they are.
const TOLD_EVERY: Duration = Duration::from_millis(100);
/// The pauses after failures grow from the first to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// How long an outdated unit leaves the lease to others.
pub(crate) const OUTDATED_PAUSE: Duration = Duration::from_secs(30);

/// The checkpoint belongs to another log: this one has nothing there, or something else.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OtherLog {
    #[error("the checkpoint is at message {0}, which is a different record in this log: this is another log")]
    Differs(u64),
    #[error(transparent)]
    Log(#[from] LogFailure),
}

/// Why a unit has stopped.
#[derive(Debug, thiserror::Error)]
enum Stall {
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Database(#[from] database::DatabaseFailure),
    #[error(transparent)]
    Batch(#[from] BatchFailure),
    #[error(transparent)]
    OtherLog(#[from] OtherLog),
    #[error("the log ended")]
    LogEnded,
    #[error("tables are missing")]
    Incomplete,
}

impl Stall {
    /// The cause, as in metrics.
    fn cause(&self) -> Cause {
        match self {
            Self::Batch(failure) => failure.cause(),
            Self::Log(LogFailure::Nats(_)) | Self::OtherLog(OtherLog::Log(LogFailure::Nats(_))) | Self::LogEnded => {
                Cause::Nats
            }
            Self::Log(_) | Self::OtherLog(_) => Cause::Log,
            Self::Database(_) | Self::Incomplete => Cause::Postgres,
        }
    }

    /// Describes the failure for people, without any content of an event.
    fn without_values(&self) -> String {
        if let Self::Batch(failure) = self { failure.without_values() } else { explain(self) }
    }

    /// Whether only a newer build can go on.
    fn is_outdated(&self) -> bool {
        matches!(self, Self::Batch(BatchFailure::Event(event)) if event.is_newer())
    }
}

/// The span of a batch, if traces of its events are recorded.
pub(crate) fn span(projection: &Projection, batch: &Batch) -> tracing::Span {
    trace::linked(batch.committed_at, batch.events.iter().map(|recorded| recorded.event.trace_context.as_str()), || {
        let (projection, sequence) = (projection.name, batch.end.sequence);
        tracing::info_span!("project", projection, sequence, events = batch.events.len(), otel.kind = "consumer")
    })
}

/// A projection in Postgres.
struct Rows {
    projector: Projector,
    projection: &'static Projection,
    reporter: Reporter,
    /// The pause after the next failure.
    pause: Duration,
    /// Why this process has stopped for good: so much failed that only another build may go on.
    stopped: Option<String>,
}

/// Works on a projection while nobody else does, until `shutdown`.
pub(crate) async fn work(projector: Projector, projection: &'static Projection, shutdown: CancellationToken) {
    let (leases, reporter) = (projector.leases.clone(), Reporter::new(&projector.health, projection, projector.shard));
    let mut rows = Rows { projector, projection, reporter, pause: PAUSES.0, stopped: None };
    supervise(&mut rows, &leases, &shutdown).await;
}

impl unit::Unit for Rows {
    type End = Infallible;

    fn name(&self) -> String {
        format!("projection.{}.{}.{}", self.projection.name, self.projection.version, self.projector.shard)
    }

    async fn stand_by(&self) -> Infallible {
        self.reporter.stand_by().await
    }

    async fn work(&mut self, lease: &Lease, shutdown: &CancellationToken) -> ControlFlow<Infallible, Duration> {
        if let Some(reason) = &self.stopped {
            self.reporter.stalls(Cause::Event, reason.clone());
            report_stop(&self.projector, self.projection, Cause::Event, reason).await;
            return ControlFlow::Continue(OUTDATED_PAUSE);
        }
        let mut applied = false;
        let stall = while_held(self.follow(lease, &mut applied), lease, shutdown).await;
        // A worker whose generation was exchanged goes on with the other one.
        let is_fenced = matches!(stall, Some(Err(Stall::Batch(BatchFailure::Fenced))));
        self.pause = if applied || is_fenced { PAUSES.0 } else { (self.pause * 2).min(PAUSES.1) };
        let Some(Err(stall)) = stall else { return ControlFlow::Continue(Duration::ZERO) };
        let pause = if stall.is_outdated() { OUTDATED_PAUSE } else { self.pause };
        report(self.projection, &stall, pause);
        if stall.is_outdated() {
            if self.reporter.is_outdated(explain(&stall)) {
                report_stop(&self.projector, self.projection, Cause::Event, &outdated(&stall.without_values())).await;
            }
        } else {
            self.reporter.stalls(stall.cause(), explain(&stall));
            report_stop(&self.projector, self.projection, stall.cause(), &stall.without_values()).await;
        }
        if matches!(stall, Stall::Batch(BatchFailure::Flood(_))) {
            self.stopped = Some(explain(&stall));
        }
        ControlFlow::Continue(pause)
    }
}

/// Announces to all nodes that a projection has stopped, unless that passes by itself.
pub(crate) async fn report_stop(projector: &Projector, projection: &Projection, cause: Cause, reason: &str) {
    if [Cause::Event, Cause::Log].contains(&cause) {
        let client = projector.log_of(projection).client();
        Announcer::new(client, projection, projector.shard).stops(reason).await;
    }
}

/// The announcement if only a newer build can go on. Once a newer one does, nodes hear of its progress instead.
pub(crate) fn outdated(error: &str) -> String {
    format!("the projector is outdated and a newer one has not taken over: {error}")
}

/// Logs a stall. A stalled unit skips nothing: it comes back to the same batch until that can be applied.
fn report(projection: &Projection, stall: &Stall, pause: Duration) {
    let error = explain(stall);
    match stall {
        // The generation was just dropped or exchanged.
        Stall::Incomplete | Stall::Batch(BatchFailure::Fenced) if projection.is_beside() => {
            tracing::debug!(projection = projection.name, error, "a generation was dropped, exchanged or taken over");
        }
        stall if stall.is_outdated() => {
            tracing::error!(
                projection = projection.name,
                error,
                "this node is outdated and leaves the projection to others"
            );
        }
        Stall::Batch(BatchFailure::Event(_) | BatchFailure::Flood(_))
        | Stall::Log(LogFailure::Broken { .. })
        | Stall::OtherLog(OtherLog::Differs(_)) => {
            tracing::error!(projection = projection.name, error, "the projection has stopped");
        }
        _ => {
            tracing::warn!(projection = projection.name, error, ?pause, "the projection waits and tries again");
        }
    }
}

impl Rows {
    /// Applies batch after batch, until it cannot go on.
    async fn follow(&self, lease: &Lease, applied: &mut bool) -> Result<Infallible, Stall> {
        let Self { projector, projection, reporter, .. } = self;
        let (log, Projector { database, shard, .. }) = (projector.log_of(projection), projector);
        let mut checkpoint = lease.during(self.take_over()).await?;
        recognise(log, checkpoint.position).await?;
        let read_model = ReadModel::new(projection, *shard);
        let partition = Partition { projection, shard: *shard };
        let discarded = lease.during(discarded::<Stall>(&self.projector, partition, checkpoint.position)).await?;
        let mut parked = Parked::load(&self.projector, partition, checkpoint.position.sequence, discarded).await?;
        let announcer = Announcer::new(log.client(), projection, *shard);
        let mut batches = batch::follow(log, checkpoint.position, MOST_OLD_EVENTS).await?;
        let mut telling = Telling { rows: self, announcer, complete_at: Some(batches.end), told_at: None, due: None };
        reporter.has_begun(Reached::from(checkpoint.position));
        telling.is_at(checkpoint).await?;
        loop {
            lease.tick();
            lease.during(parked.listen(database)).await;
            // Retries must not hold up other aggregates.
            let has_more =
                parked.are_due() && lease.during(project::retry(database, read_model, checkpoint, &mut parked)).await?;
            let batch = tokio::select! {
                biased;
                batch = batches.next() => batch.ok_or(Stall::LogEnded)??,
                () = telling.is_due() => {
                    telling.announce(checkpoint).await;
                    continue;
                }
                () = std::future::ready(()), if has_more => continue,
                () = sleep(parked.look_again(HEARTBEAT)) => {
                    self.confirm(checkpoint).await?;
                    reporter.works(Reached::from(checkpoint.position));
                    telling.is_idle_at(checkpoint).await?;
                    continue;
                }
            };
            fault::point("project.fetched");
            let begun = Instant::now();
            let batch = lease.during(batch.opened(&projector.persons, projection)).await.map_err(BatchFailure::from)?;
            let span = span(projection, &batch);
            let projecting = project::project(projector, read_model, checkpoint, &mut parked, &batch).instrument(span);
            let Projected { checkpoint: moved, has_rows } = lease.during(projecting).await?;
            (checkpoint, *applied) = (moved, true);
            reporter.applied(begun.elapsed());
            reporter.works(Reached::from(checkpoint.position));
            telling.has_moved_to(checkpoint, has_rows).await?;
            // A generation that catches up is not urgent: half of the time is left to those that answer.
            if projection.is_beside() && batch.is_old() {
                lease.during(sleep(begun.elapsed().min(HEARTBEAT))).await;
            }
        }
    }

    /// Checks that the tables and the checkpoint of an idle worker still exist: if Postgres has lost them or its last
    /// commits, the lost rows come back without waiting for the next event.
    async fn confirm(&self, checkpoint: Checkpoint) -> Result<(), Stall> {
        let Self { projector: Projector { database, joint, shard, .. }, projection, .. } = self;
        if joint.confirm(database, *shard, Expected { projection, checkpoint }).await {
            return Ok(());
        }
        if !schema::is_complete(database, projection).await? {
            return Err(Stall::Incomplete);
        }
        let found = ReadModel::new(projection, *shard).checkpoint(&*database.connection().await?).await?;
        if found == Some(checkpoint) { Ok(()) } else { Err(BatchFailure::Fenced.into()) }
    }

    /// Creates missing tables and takes the checkpoint over.
    async fn take_over(&self) -> Result<Checkpoint, Stall> {
        let Self { projector: Projector { database, shard, .. }, projection, .. } = self;
        if !schema::is_complete(database, projection).await? {
            if projection.is_beside() {
                return Err(Stall::Incomplete);
            }
            tracing::warn!(projection = projection.name, "tables are missing and are rebuilt from the log");
            schema::prepare(database).await?;
        }
        Ok(ReadModel::new(projection, *shard).take_over(&mut *database.connection().await?).await?)
    }
}

/// Announces the progress of a projection to other nodes.
struct Telling<'a> {
    rows: &'a Rows,
    announcer: Announcer,
    /// The stream sequence at which it has everything that the log had when the worker began.
    complete_at: Option<u64>,
    /// When it was last announced.
    told_at: Option<Instant>,
    /// When a position is announced that was not yet.
    due: Option<Instant>,
}

impl Telling<'_> {
    async fn is_at(&mut self, checkpoint: Checkpoint) -> Result<(), Stall> {
        self.note_complete(checkpoint).await?;
        self.announce(checkpoint).await;
        Ok(())
    }

    /// Announces a move, at once if rows have changed, or if admission may wait for it. Most records change no rows of a
    /// projection: to announce each of them would cost every node a message for each projection and record.
    async fn has_moved_to(&mut self, checkpoint: Checkpoint, has_rows: bool) -> Result<(), Stall> {
        self.note_complete(checkpoint).await?;
        let is_urgent = has_rows || self.rows.projection.name == ACCESS.name;
        let due = self.told_at.filter(|_| !is_urgent).map(|told_at| told_at + TOLD_EVERY);
        match due.filter(|due| *due > Instant::now()) {
            Some(due) => self.due = Some(due),
            None => self.announce(checkpoint).await,
        }
        Ok(())
    }

    /// Waits until a position is to be announced that was not yet.
    async fn is_due(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    async fn announce(&mut self, checkpoint: Checkpoint) {
        (self.told_at, self.due) = (Some(Instant::now()), None);
        self.announcer.announce(checkpoint.position.into()).await;
    }

    async fn note_complete(&mut self, checkpoint: Checkpoint) -> Result<(), Stall> {
        let Rows { projector, projection, .. } = self.rows;
        if self.complete_at.is_some_and(|end| checkpoint.position.stream_sequence >= end) {
            generation::note_complete(&*projector.database.connection().await?, projection, checkpoint).await?;
            self.complete_at = None;
        }
        Ok(())
    }

    /// Announces idleness. If everything in the log has aged out, nothing is missing.
    async fn is_idle_at(&mut self, checkpoint: Checkpoint) -> Result<(), Stall> {
        if self.complete_at.is_some() && self.rows.projector.log_of(self.rows.projection).last().await?.is_none() {
            self.complete_at = Some(0);
        }
        self.is_at(checkpoint).await
    }
}

/// Refuses a checkpoint at a record that the log lacks or has differently: that belongs to another log.
pub(crate) async fn recognise(log: &log::Log, position: Position) -> Result<(), OtherLog> {
    if log.has(position).await? { Ok(()) } else { Err(OtherLog::Differs(position.stream_sequence)) }
}
