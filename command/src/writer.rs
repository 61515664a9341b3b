//! The writer: one per log, fenced by the log itself.
//!
//! It waits for the lease, commits a barrier record, and then takes turns: what arrived while a record was in flight is
//! decided together and committed in the next one. Answers leave only when the record that they were decided with is
//! in the log; answers without a record leave only while the lease is valid.

mod activate;
mod clocks;
mod fill;
mod load;
mod queue;
mod report;
mod ruling;
mod serve;
mod submission;
mod ticket;
mod unavailable;

use std::{sync::Arc, time::Duration};

use base::{explain::explain, health::Health, id::Ids};
pub use clocks::WrongClock;
use eventlog::{
    durability::{Durability, Unsafe},
    lease::Leases,
    log::Log,
};
pub use queue::Handle;
use queue::Queue;
use serve::Undone;
pub(crate) use submission::{Decide, Once, Verdict};
pub(crate) use ticket::Origin;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
pub(crate) use unavailable::{outcome_unknown, writer_unavailable};
use view::{database::Database, progress::Progress};

pub use crate::turn::Decided;

/// How long a node that cannot take over waits before it tries again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a node that is outdated keeps from taking over: longer than the others need to notice.
const WAY: Duration = Duration::from_secs(2);
/// How long it then stays, when nobody else took over.
const GIVES_WAY_EVERY: Duration = Duration::from_mins(10);

/// What the writer of one log needs.
#[derive(Debug, Clone)]
pub struct Writer {
    /// The log.
    pub log: Log,
    /// Where the lease is.
    pub leases: Leases,
    /// Where history is.
    pub database: Database,
    /// How far history is.
    pub progress: Progress,
    /// Whether the broker keeps what it acknowledges.
    pub durability: Durability,
    /// The ids that the commands of this node give, which must be none that another writer gave.
    pub ids: Arc<Ids>,
    /// Where it tells how it is.
    pub health: Health,
    /// The shard.
    pub shard: u16,
    /// The most bytes of the log that may be ahead of history.
    pub tail_limit: usize,
    /// The most bytes of one record; half of what the broker takes as one message.
    pub record_limit: usize,
}

/// What a writer is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Another node writes, the one of this name where that is known, or nobody yet.
    Standby(Option<Arc<str>>),
    /// This node takes over.
    TakingOver,
    /// This node writes.
    Active,
    /// It has ended.
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
        "history stands at message {checkpoint}, but the log ends at {end}: Postgres holds read models of another log, or \
         this one has lost its last messages or was restored from an older backup. Keep the read models until it is clear \
         which: they may be the last copy of what is missing (docs/operations.md, \"When the log has lost messages\")"
    )]
    Ahead {
        /// Where history stands.
        checkpoint: u64,
        /// Where the log ends.
        end: u64,
    },
    /// The read models follow another log.
    #[error(
        "history stands at message {checkpoint}, which is another record in this log: Postgres holds read models of \
         another log"
    )]
    OtherLog {
        /// Where history stands.
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
    /// Whether it may pass by itself: a broker or its monitoring port that does not answer for a while. Another node
    /// may take over meanwhile, and if all fail like this one, the first that does not.
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
        (handle, tokio::spawn(self.run(queue, phase, shutdown)))
    }

    async fn run(
        self,
        mut queue: Queue,
        phase: watch::Sender<Phase>,
        shutdown: CancellationToken,
    ) -> Result<(), WriterFailure> {
        let name = format!("writer.{}", self.shard);
        self.enter(&phase, Phase::Standby(None));
        let mut gave_way: Option<Instant> = None;
        let ended = loop {
            let lease = tokio::select! {
                lease = self.leases.acquire(&name, |holder| stand_by(&phase, holder)) => lease.keep(),
                () = shutdown.cancelled() => break Ok(()),
            };
            self.enter(&phase, Phase::TakingOver);
            let (end, undone) = tokio::select! {
                activated = self.activate(&lease) => match activated {
                    Ok(Some(active)) => {
                        self.enter(&phase, Phase::Active);
                        let stays = gave_way.is_some_and(|at| at.elapsed() < GIVES_WAY_EVERY);
                        if stays {
                            self.report_outdated();
                        }
                        active.staying(stays).serve(&mut queue, &lease, &shutdown).await
                    }
                    Ok(None) => (End::SteppedDown, Undone::default()),
                    Err(failure) => (End::Failed(failure), Undone::default()),
                },
                () = shutdown.cancelled() => (End::Shutdown, Undone::default()),
            };
            self.enter(&phase, Phase::Standby(None));
            queue.refuse_all(undone.submissions);
            drop(undone.under_way);
            lease.release().await;
            tokio::select! {
                biased;
                ended = self.pause_after(end, &phase, &mut gave_way) => {
                    if let Some(ended) = ended {
                        break ended;
                    }
                }
                () = shutdown.cancelled() => break Ok(()),
            }
        };
        self.enter(&phase, Phase::Ended);
        ended
    }

    /// Waits until this node may take over again. Where it must not, it tells how it ended.
    async fn pause_after(
        &self,
        end: End,
        phase: &watch::Sender<Phase>,
        gave_way: &mut Option<Instant>,
    ) -> Option<Result<(), WriterFailure>> {
        match end {
            End::Shutdown => return Some(Ok(())),
            End::SteppedDown => {
                report::stepped_down();
                tokio::time::sleep(PAUSE).await;
            }
            End::Outdated => {
                tracing::warn!("this node no longer writes, so that one of the newer version can");
                *gave_way = Some(Instant::now());
                self.report_outdated();
                tokio::time::sleep(WAY).await;
            }
            End::Failed(WriterFailure::WrongClock(wrong)) => {
                tracing::error!(error = explain(&wrong), "this node does not write while its clock is wrong");
                self.report_wrong_clock(&wrong);
                self.clocks_agree().await;
                self.enter(phase, Phase::Standby(None));
            }
            End::Failed(failure) if failure.is_passing() => {
                tracing::warn!(error = explain(&failure), "this node cannot write now and tries again");
                tokio::time::sleep(PAUSE).await;
            }
            End::Failed(failure) => {
                tracing::error!(error = explain(&failure), "this node cannot write");
                return Some(Err(failure));
            }
        }
        None
    }
}

/// Remembers who writes, and wakes nobody where that is known.
fn stand_by(phase: &watch::Sender<Phase>, holder: &str) {
    phase.send_if_modified(|phase| {
        let is_known = matches!(phase, Phase::Standby(Some(known)) if **known == *holder);
        if !is_known {
            *phase = Phase::Standby(Some(holder.into()));
        }
        !is_known
    });
}
