//! Purges: records of the log that ages out go when they are older than history keeps what is in them, by the clock of the node that
//! writes.
//!
//! First a record of the log itself permits it, by which every reader knows that nothing was lost. Then every projection in Postgres
//! must have that record, and has forgotten what is purged or taken it up; a search index that lacks some of it holds nothing of it that
//! still counts. Whoever dies between leaves a log with more than it needs.

use std::{convert::Infallible, time::Duration};

use base::{clock, fault};
use domain::{log_class::LogClass, resource::session::Session, standard::Resource};
use eventlog::{
    log::{Log, LogFailure},
    streams::server_time,
};
use jiff::Timestamp;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use view::{
    checkpoint,
    database::{Database, DatabaseFailure},
    history::SESSIONS_KEPT,
    keyring::SYSTEM,
};

use super::steps::{self, Reaction, StepFailure, Steps};
use crate::{
    turn::{Decided, Refusal, Turn},
    writer::Decide,
};

/// How often it looks whether the read models are far enough, and how often it looks before it says that they are not.
const BREATH: Duration = Duration::from_secs(1);
const UNUSUAL: u32 = 60;
/// How often it looks before it says so again.
const STILL: u32 = 3600;
/// The most seconds by which the clock of NATS may differ: by a wrong one too much would be purged.
const MOST: f64 = 5.0;
/// The most seconds by which the clock may have been set: that of NATS is the same on the same machine, and what is kept is kept for a
/// week longer than it has to be.
const MOST_SET: f64 = 3600.0;

/// How often it is looked what has aged out.
fn every() -> Duration {
    fault::shortened(Duration::from_hours(1), Duration::from_secs(2))
}

/// What purges need.
#[derive(Clone)]
pub struct Purges {
    /// The log that ages out.
    pub log: Log,
    /// Writes what is permitted.
    pub steps: Steps,
    /// Where the read models are.
    pub database: Database,
    /// The shard.
    pub shard: u16,
}

/// Why it does not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum PurgeFailure {
    #[error(transparent)]
    Step(#[from] StepFailure),
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    #[error("the clock of this node is not that of NATS, or NATS does not tell")]
    Clock,
    #[error("the clock of this machine was set while the node ran; start the node again if the time is right")]
    ClockSet,
}

impl Purges {
    /// Purges whenever this node writes, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        steps::work(self, shutdown).await;
    }

    async fn purge(&self) -> Result<(), PurgeFailure> {
        self.check_clock().await?;
        let Some(aged) = self.log.last_before(clock::now() - SESSIONS_KEPT).await? else { return Ok(()) };
        self.check_clock().await?;
        let to = aged.stream_sequence;
        if to > self.log.permits().await? {
            self.steps.submit(("permit purge", SYSTEM), Permit { to, committed_at: aged.committed_at() }).await?;
        }
        fault::point("purge.permitted");
        self.wait_until_processed().await?;
        let records = self.log.purge().await?;
        if records > 0 {
            let (stream, until) = (self.log.stream(), aged.committed_at());
            tracing::info!(stream, records, to, %until, "records that have aged out were purged");
        }
        Ok(())
    }

    /// Refuses to go by a clock that is not that of NATS, or was set.
    async fn check_clock(&self) -> Result<(), PurgeFailure> {
        if clock::set_by().abs() > MOST_SET {
            return Err(PurgeFailure::ClockSet);
        }
        let ahead = clock::ahead(server_time(&self.log.client(), self.log.stream())).await;
        if ahead.is_some_and(|ahead| ahead.abs() <= MOST) { Ok(()) } else { Err(PurgeFailure::Clock) }
    }

    /// Waits until every projection of the log has all that is in it now.
    async fn wait_until_processed(&self) -> Result<(), PurgeFailure> {
        let end = self.log.end().await?;
        for round in 0_u32.. {
            let least =
                async { checkpoint::least(&self.database.connection().await?, self.log.class(), self.shard).await };
            match self.database.within(least).await? {
                Some((projection, at)) if at < end => {
                    if round % STILL == UNUSUAL {
                        let (stream, projection) = (self.log.stream(), projection.name);
                        tracing::warn!(stream, projection, at, end, "a purge waits for a projection that lags");
                    }
                }
                _ => break,
            }
            sleep(BREATH).await;
        }
        Ok(())
    }
}

impl Reaction for Purges {
    const TROUBLE: &'static str = "the log of sessions is not purged at the moment";
    type Failure = PurgeFailure;

    fn steps(&self) -> &Steps {
        &self.steps
    }

    async fn serve(&self) -> Result<Infallible, PurgeFailure> {
        // From now on it is noticed.
        clock::set_by();
        loop {
            // At first, too: while nodes are upgraded, one of an older version may still take over, whose records permit nothing.
            sleep(every()).await;
            self.purge().await?;
        }
    }

    fn of_step(failure: &PurgeFailure) -> Option<&StepFailure> {
        if let PurgeFailure::Step(failure) = failure { Some(failure) } else { None }
    }
}

/// Permits a purge up to a stream sequence, whose record was committed then.
struct Permit {
    to: u64,
    committed_at: Timestamp,
}

impl Decide for Permit {
    type Outcome = ();

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, ()), Refusal> {
        // Readers forget by the time of the record that permits it, so by that it must have aged out.
        if self.committed_at < turn.now() - SESSIONS_KEPT {
            turn.permit_purge(self.to);
        }
        Ok((turn.nothing_decided(Session::NAME), ()))
    }
}
