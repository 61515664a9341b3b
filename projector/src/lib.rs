//! The projector: follows the log and keeps the read models in Postgres.
//!
//! A work unit is one projection of one shard. Whoever holds its lease works on it; whoever moves its checkpoint owns
//! its rows, because both are written in one transaction, by compare-and-set. So nothing is applied twice or skipped,
//! whatever dies. Projections never act: they send no mail and call no target.

mod batch;
mod index;
mod project;
mod unit;

use std::path::Path;

pub use index::Published;
use store::{
    database::Database,
    lease::Leases,
    log::Log,
    projection::{Kind, PROJECTIONS, TARGETS},
};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// What the projector of a shard needs.
#[derive(Debug, Clone)]
pub struct Projector {
    /// The log.
    pub log: Log,
    /// Where the leases of the work units are.
    pub leases: Leases,
    /// Where the read models are. Its commits need not wait for the disk: rows and checkpoint are lost together.
    pub database: Database,
    /// The shard.
    pub shard: u16,
}

impl Projector {
    /// Starts working on every projection; the tasks end in order when `shutdown` is cancelled.
    pub fn start(&self, shutdown: &CancellationToken) -> JoinSet<()> {
        let work = |projection| unit::work(self.clone(), projection, shutdown.clone());
        PROJECTIONS.iter().map(work).collect()
    }

    /// Keeps the search index of the targets in a folder. Only this process reads it.
    pub fn start_index(&self, folder: &Path, units: &mut JoinSet<()>, shutdown: &CancellationToken) -> Published {
        let (published, newest) = watch::channel(None);
        if let Kind::Rows([table]) = TARGETS.kind {
            let folder = folder.join(TARGETS.schema_name()).into();
            units.spawn(index::work(self.log.clone(), table, folder, published, shutdown.clone()));
        }
        newest
    }
}
