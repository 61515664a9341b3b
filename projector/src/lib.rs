//! The projector: follows the log and keeps the read models in Postgres up to date.
//!
//! A work unit is one projection of one shard. Whoever holds its lease works on it; whoever moves its checkpoint owns
//! its rows, because both are written in one transaction, by compare-and-set. So nothing is applied twice or skipped,
//! whatever dies. Projections never act: they send no mail and call no target.

mod batch;
mod decision;
mod expected;
mod failure;
mod fold;
mod generations;
mod heartbeat;
mod index;
mod joint;
mod open;
mod parked;
mod project;
mod reporter;
mod scrub;
mod together;
mod unit;

use std::time::Duration;

use ::index::{IndexFailure, Indexes};
use base::health::Health;
use domain::log_class::OfEach;
use eventlog::{lease::Leases, log::Log};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use view::{
    database::Database,
    persons::Persons,
    projection::{Kind, PROJECTIONS, Projection},
};

use self::generations::IndexGenerations;
pub use self::{index::Indexing, joint::Joint};

/// A projection of one shard.
#[derive(Clone, Copy)]
pub(crate) struct Partition {
    pub(crate) projection: &'static Projection,
    pub(crate) shard: u16,
}

/// The resources that the units of a process share.
#[derive(Clone)]
pub struct Projector {
    /// The logs.
    pub logs: OfEach<Log>,
    /// The leases of the work units.
    pub leases: Leases,
    /// The database of the read models. Its commits need not wait for the disk: rows and checkpoint are lost together.
    pub database: Database,
    /// The connections for generations beside those that answer.
    pub beside: Database,
    /// The keys of people.
    pub persons: Persons,
    /// The configuration of search indexes.
    pub indexing: Indexing,
    /// How long after a check of the read models against the log the next one begins; zero for none.
    pub scrub_every: Duration,
    /// The health that its units report to.
    pub health: Health,
    /// What its units do together.
    pub joint: Joint,
    /// The shard.
    pub shard: u16,
}

impl Projector {
    /// The log that a projection follows.
    pub(crate) fn log_of(&self, projection: &Projection) -> &Log {
        &self.logs[projection.class]
    }

    /// Starts working on every projection; the tasks end in order when `shutdown` is cancelled. Returns the indexes for
    /// searches in this process.
    ///
    /// # Errors
    /// When the folder of an index cannot be used.
    pub fn start(&self, shutdown: &CancellationToken) -> Result<(JoinSet<()>, Indexes), IndexFailure> {
        let (mut units, mut indexes) = (JoinSet::new(), Indexes::default());
        units.spawn(heartbeat::work(self.clone(), shutdown.clone()));
        for projection in PROJECTIONS.iter() {
            if let Kind::Index(_) = &projection.kind {
                let (shown, newest) = watch::channel(None);
                let unit = index::Unit::new(self, projection, None, shown)?;
                units.spawn(unit.run(shutdown.clone()));
                indexes.add(projection, newest);
            } else {
                units.spawn(unit::work(self.clone(), projection, shutdown.clone()));
            }
        }
        if !self.scrub_every.is_zero() {
            units.spawn(scrub::work(self.clone(), indexes.clone(), shutdown.clone()));
        }
        units.spawn(generations::work(self.clone(), IndexGenerations::new(indexes.clone()), shutdown.clone()));
        Ok((units, indexes))
    }
}
