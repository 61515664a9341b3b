//! The writer: one per shard, which writes both logs, fenced by the logs themselves.
//!
//! The writer waits for the lease, commits a barrier record in each log, and then takes turns: the commands that
//! arrived while a record was in flight are decided together and committed in the next one. A record belongs to one
//! log, and while it is in flight, none is in flight in the other. Answers are sent only when the record that they were
//! decided with is in the log; answers without a record are sent only while the lease is valid.

mod activate;
mod clocks;
mod fill;
mod load;
mod queue;
mod recall;
mod report;
mod ruling;
mod serve;
mod submission;
mod ticket;
mod unavailable;

use std::{mem, ops::ControlFlow, sync::Arc, time::Duration};

use base::{explain::explain, health::Health, id::Ids};
pub use clocks::WrongClock;
use domain::{log_class::OfEach, object_limits::ObjectLimits};
use eventlog::{
    durability::{Durability, Unsafe},
    lease::{Lease, Leases},
    log::Log,
    unit::{Unit, supervise},
};
pub use queue::Handle;
use queue::Queue;
use serve::UnfinishedCommands;
pub(crate) use submission::{Decide, Once, Verdict};
pub(crate) use ticket::Origin;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
pub(crate) use unavailable::{outcome_unknown, writer_unavailable};
use view::{database::Database, progress::Progress};

pub use crate::turn::Decided;

/// How long a node that cannot take over waits before it tries again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long an outdated node does not take over: longer than the others need to notice.
const YIELD_TIME: Duration = Duration::from_secs(2);
/// How long an outdated node then goes on writing, if no other one took over.
const GIVES_WAY_EVERY: Duration = Duration::from_mins(10);

/// What the writer of a shard needs.
#[derive(Debug, Clone)]
pub struct Writer {
    /// The logs.
    pub logs: OfEach<Log>,
    /// The leases, with the one of the writer.
    pub leases: Leases,
    /// The database with the history.
    pub database: Database,
    /// The progress of history.
    pub progress: Progress,
    /// The check whether the broker retains what it acknowledges.
    pub durability: Durability,
    /// The source of ids for the commands of this node, none of which another writer may have given.
    pub ids: Arc<Ids>,
    /// Reports the state of the writer.
    pub health: Health,
    /// The shard.
    pub shard: u16,
    /// The most bytes of the log that may be ahead of history.
    pub tail_limit: usize,
    /// How many objects of a kind an instance or organization may have.
    pub object_limits: ObjectLimits,
    /// The most bytes of one record; half of what the broker takes as one message.
    pub record_limit: usize,
}

/// What a writer is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Another node writes, with this name if it is known, or none yet.
    Standby(Option<Arc<str>>),
    /// This node takes over.
    TakingOver,
    /// This node writes.
    Active,
    /// The writer has ended.
    Ended,
}

/// Why a writer stopped for good.
#[derive(Debug, thiserror::Error)]
pub enum WriterFailure {
    /// The log cannot be read or trusted.
    #[error(transparent)]
    Log(#[from] eventlog::log::LogFailure),
    /// The read models follow another or a longer log.
    #[error(
        "{history} is at message {checkpoint}, but {stream} ends at {end}: Postgres holds read models of another log, \
         or this one has lost its last messages or was restored from an older backup. Keep the read models until it is \
         clear which: they may be the last copy of what is missing (docs/operations.md, \"When the log has lost messages\")"
    )]
    Ahead {
        /// The projection.
        history: &'static str,
        /// The stream.
        stream: String,
        /// The message that history is at.
        checkpoint: u64,
        /// The last message of the log.
        end: u64,
    },
    /// The logs are not of one platform.
    #[error(
        "EVENTS and SESSIONS are logs of different platforms: one of them was restored or copied from elsewhere, and nothing is \
         written to either"
    )]
    Strangers,
    /// One log is older than the other.
    #[error(
        "the last writer of SESSIONS did not write to EVENTS: EVENTS was restored from an older backup than SESSIONS, and nothing is \
         written to either (docs/operations.md, \"When the log has lost messages\")"
    )]
    Apart,
    /// The read models follow another log.
    #[error(
        "{history} is at message {checkpoint}, which is a different record in {stream}: Postgres holds read models of \
         another log"
    )]
    OtherLog {
        /// The projection.
        history: &'static str,
        /// The stream.
        stream: String,
        /// The message that history is at.
        checkpoint: u64,
    },
    /// The broker could lose what it acknowledges.
    #[error(transparent)]
    Unsafe(#[from] Unsafe),
    /// The clock of this node is wrong.
    #[error(transparent)]
    WrongClock(#[from] WrongClock),
}

impl WriterFailure {
    /// Whether the failure may pass by itself, such as a broker or its monitoring port that does not answer for a
    /// while. Another node may take over meanwhile; if all fail like this one, the first that does not fail any more
    /// does.
    fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Log(eventlog::log::LogFailure::Nats(_)) | Self::Unsafe(Unsafe::NoAnswer(..) | Unsafe::TooFew { .. })
        )
    }
}

/// Why a writer no longer serves.
enum End {
    Shutdown,
    /// Another node may write now.
    SteppedDown,
    /// A newer build has to write.
    Outdated,
    Failed(WriterFailure),
}

impl Writer {
    /// Starts the writer; it ends in order when `shutdown` is cancelled.
    pub fn start(self, shutdown: CancellationToken) -> (Handle, tokio::task::JoinHandle<Result<(), WriterFailure>>) {
        let (phase, phases) = watch::channel(Phase::Standby(None));
        let (handle, queue) = queue::channel(phases);
        let work = async move {
            let leases = self.leases.clone();
            report::enter(&self, &phase, Phase::Standby(None));
            let mut writing = Writing { writer: self, queue, phase, yielded_at: None, has_wrong_clock: false };
            let failure = supervise(&mut writing, &leases, &shutdown).await;
            report::enter(&writing.writer, &writing.phase, Phase::Ended);
            failure.map_or(Ok(()), Err)
        };
        (handle, tokio::spawn(work))
    }
}

/// A writer with the state of its work.
struct Writing {
    writer: Writer,
    queue: Queue,
    phase: watch::Sender<Phase>,
    /// When it left the writing to a newer build.
    yielded_at: Option<Instant>,
    /// Whether it ended because of the clock of this node.
    has_wrong_clock: bool,
}

impl Unit for Writing {
    type End = WriterFailure;

    fn name(&self) -> String {
        format!("writer.{}", self.writer.shard)
    }

    fn is_held_by(&self, holder: &str) {
        stand_by(&self.phase, holder);
    }

    async fn work(&mut self, lease: &Lease, shutdown: &CancellationToken) -> ControlFlow<WriterFailure, Duration> {
        report::enter(&self.writer, &self.phase, Phase::TakingOver);
        let (end, undone) = self.write(lease, shutdown).await;
        report::enter(&self.writer, &self.phase, Phase::Standby(None));
        self.queue.refuse_all(undone.submissions);
        drop(undone.under_way);
        match end {
            End::Shutdown => {}
            End::SteppedDown => report::stepped_down(),
            End::Outdated => {
                tracing::warn!("this node no longer writes, so that a node of the newer version can");
                self.yielded_at = Some(Instant::now());
                report::outdated(&self.writer);
                return ControlFlow::Continue(YIELD_TIME);
            }
            End::Failed(WriterFailure::WrongClock(wrong)) => {
                tracing::error!(error = explain(&wrong), "this node does not write while its clock is wrong");
                report::wrong_clock(&self.writer, &wrong);
                self.has_wrong_clock = true;
                return ControlFlow::Continue(Duration::ZERO);
            }
            End::Failed(failure) if failure.is_passing() => {
                tracing::warn!(error = explain(&failure), "this node cannot write now and tries again");
            }
            End::Failed(failure) => {
                tracing::error!(error = explain(&failure), "this node cannot write");
                return ControlFlow::Break(failure);
            }
        }
        ControlFlow::Continue(PAUSE)
    }

    async fn recover(&mut self) {
        if mem::take(&mut self.has_wrong_clock) {
            clocks::until_agree(&self.writer).await;
            report::enter(&self.writer, &self.phase, Phase::Standby(None));
        }
    }
}

impl Writing {
    /// Takes over the logs and writes, and returns the commands that were not done.
    async fn write(&mut self, lease: &Lease, shutdown: &CancellationToken) -> (End, UnfinishedCommands) {
        let activated = tokio::select! {
            activated = lease.during(activate::activate(&self.writer, lease)) => activated,
            () = shutdown.cancelled() => return (End::Shutdown, UnfinishedCommands::default()),
        };
        let active = match activated {
            Ok(Some(active)) => active,
            Ok(None) => return (End::SteppedDown, UnfinishedCommands::default()),
            Err(failure) => return (End::Failed(failure), UnfinishedCommands::default()),
        };
        report::enter(&self.writer, &self.phase, Phase::Active);
        let stays = self.yielded_at.is_some_and(|at| at.elapsed() < GIVES_WAY_EVERY);
        if stays {
            report::outdated(&self.writer);
        }
        active.staying(stays).serve(&mut self.queue, lease, shutdown).await
    }
}

/// Records which node writes, and wakes nobody if that is known.
fn stand_by(phase: &watch::Sender<Phase>, holder: &str) {
    phase.send_if_modified(|phase| {
        let is_known = matches!(phase, Phase::Standby(Some(known)) if **known == *holder);
        if !is_known {
            *phase = Phase::Standby(Some(holder.into()));
        }
        !is_known
    });
}
