//! Purges: removes records of the log that ages out when they are older than history retains what is in them, by the
//! clock of the node that writes.
//!
//! First a record of the log itself permits the purge, by which every reader knows that nothing was lost. Then every
//! projection in Postgres must have that record, and so has applied or forgotten what is purged; a search index that
//! lacks some of it has nothing of it that still counts. A node that dies in between leaves a log with more than it
//! needs.

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

/// How often the progress of the read models is checked, and after how many checks a warning reports that they lag.
const BREATH: Duration = Duration::from_secs(1);
const UNUSUAL: u32 = 60;
/// After how many more checks the warning is repeated.
const STILL: u32 = 3600;
/// The most seconds by which the clock of NATS may differ: by a wrong clock too much would be purged.
const MOST: f64 = 5.0;
/// The most seconds by which the clock may have been set: the clock of NATS on the same machine changes with it, and
/// records are retained for a week longer than they have to be.
const MOST_SET: f64 = 3600.0;

/// How often aged records are looked for.
fn every() -> Duration {
    fault::shortened(Duration::from_hours(1), Duration::from_secs(2))
}

/// What purges need.
#[derive(Clone)]
pub struct Purges {
    /// The log that ages out.
    pub log: Log,
    /// Writes the records that permit purges.
    pub steps: Steps,
    /// The database of the read models.
    pub database: Database,
    /// The shard.
    pub shard: u16,
}

/// Why purges are interrupted.
#[derive(Debug, thiserror::Error)]
pub(super) enum PurgeFailure {
    #[error(transparent)]
    Step(#[from] StepFailure),
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    #[error("the clock of this node differs from that of NATS, or NATS does not report its time")]
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
            self.steps.submit("permit purge", SYSTEM, Permit { to, committed_at: aged.committed_at() }).await?;
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

    /// Fails if the clock differs from that of NATS, or was set.
    async fn check_clock(&self) -> Result<(), PurgeFailure> {
        if clock::adjusted_seconds().abs() > MOST_SET {
            return Err(PurgeFailure::ClockSet);
        }
        let ahead = clock::ahead(server_time(&self.log.client(), self.log.stream())).await;
        if ahead.is_some_and(|ahead| ahead.abs() <= MOST) { Ok(()) } else { Err(PurgeFailure::Clock) }
    }

    /// Waits until every projection of the log has processed all that is in it now.
    async fn wait_until_processed(&self) -> Result<(), PurgeFailure> {
        let end = self.log.end().await?;
        for round in 0_u32.. {
            let least =
                async { checkpoint::least(&*self.database.connection().await?, self.log.class(), self.shard).await };
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
        // From this first call on it is noticed when the clock is set.
        clock::adjusted_seconds();
        loop {
            // Before the first purge, too: while nodes are upgraded, one of an older version may still take over, whose
            // records permit nothing.
            sleep(every()).await;
            self.purge().await?;
        }
    }

    fn of_step(failure: &PurgeFailure) -> Option<&StepFailure> {
        if let PurgeFailure::Step(failure) = failure { Some(failure) } else { None }
    }
}

/// Permits a purge up to a stream sequence, if its record, committed at this time, has aged out.
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
        // Readers forget by the time of the record that permits the purge, so by that time the record must have aged
        // out.
        if self.committed_at < turn.now() - SESSIONS_KEPT {
            turn.permit_purge(self.to);
        }
        Ok((turn.nothing_decided(Session::NAME), ()))
    }
}
