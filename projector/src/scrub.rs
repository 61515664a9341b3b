//! The scrubber: checks slowly whether the read models have what the log says, and repairs what they have not.
//!
//! A round checks the events of both histories against the logs, then the rows of every table and the documents of every
//! search index against these events, and last whether each row and document has events at all. One process does so at
//! a time; if it ends, the next one begins a round anew.

mod round;

use std::{convert::Infallible, ops::ControlFlow, time::Duration};

use ::index::Indexes;
use base::{clock, explain::explain, metric::catalog::PROJECTION_REPAIRED};
use eventlog::{
    lease::Lease,
    unit::{self, supervise, while_held},
};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use view::{database::DatabaseFailure, projection::PROJECTIONS, scrub::scrubs};

use self::round::Round;
use crate::Projector;

/// A platform whose first round is due later begins it after an hour.
const FIRST: Duration = Duration::from_hours(1);
/// How long to wait after a failure, and before it is checked again whether a round is due.
const PAUSE: Duration = Duration::from_mins(1);

/// Begins a round whenever one is due, until `shutdown`.
pub(crate) async fn work(projector: Projector, indexes: Indexes, shutdown: CancellationToken) {
    let leases = projector.leases.clone();
    for projection in PROJECTIONS.iter() {
        PROJECTION_REPAIRED.with(&[projection.name]);
    }
    // Nobody waits for it, so it uses the connections of those for whom nobody waits.
    let projector = Projector { database: projector.beside.clone(), ..projector };
    let mut scrubber = Scrubber { projector, indexes, begun: Instant::now() };
    supervise(&mut scrubber, &leases, &shutdown).await;
}

struct Scrubber {
    projector: Projector,
    indexes: Indexes,
    begun: Instant,
}

impl Scrubber {
    async fn scrub(&self, lease: &Lease) -> Infallible {
        loop {
            match self.due_in().await {
                Ok(Duration::ZERO) => {
                    if let Err(failure) = Round::new(&self.projector, &self.indexes, lease).run().await {
                        let error = explain(&failure);
                        tracing::warn!(error, "the check of the read models against the log ended early");
                        lease.during(sleep(PAUSE)).await;
                    }
                }
                Ok(due) => lease.during(sleep(due.min(PAUSE))).await,
                Err(failure) => {
                    tracing::debug!(error = explain(&failure), "it is unknown when the read models were checked");
                    lease.during(sleep(PAUSE)).await;
                }
            }
        }
    }

    /// How long until the next round.
    async fn due_in(&self) -> Result<Duration, DatabaseFailure> {
        let Projector { database, shard, scrub_every: every, .. } = &self.projector;
        let checked = scrubs(database, *shard).await?.into_iter().filter_map(|scrub| scrub.checked_at);
        let checked: Option<Timestamp> = checked.filter(|at| *at <= clock::now()).max();
        Ok(match checked {
            None => (*every).min(FIRST).saturating_sub(self.begun.elapsed()),
            Some(at) => {
                let passed = clock::now().duration_since(at).max(SignedDuration::ZERO);
                every.saturating_sub(passed.unsigned_abs())
            }
        })
    }
}

impl unit::Unit for Scrubber {
    type End = Infallible;

    fn name(&self) -> String {
        format!("projection.scrub.{}", self.projector.shard)
    }

    async fn work(&mut self, lease: &Lease, shutdown: &CancellationToken) -> ControlFlow<Infallible, Duration> {
        while_held(self.scrub(lease), lease, shutdown).await;
        ControlFlow::Continue(Duration::ZERO)
    }
}
