//! Work on the generations beside those that answer, which begins and ends on request of operators.

mod comparison;
mod folders;

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ::index::{IndexFailure, Indexes, SnapshotReceiver};
use base::explain::explain;
use eventlog::{
    lease::Lease,
    unit::{self, supervise, while_held},
};
use jiff::Timestamp;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use view::{
    generation::{Generation, generations},
    projection::Kind,
};

use crate::{Joint, Projector, index, unit::work as keep};

/// How often the requests of operators are checked.
const EVERY: Duration = Duration::from_secs(1);
/// How long nothing is compared after a failure: a comparison may read everything before it fails.
const AFTER_FAILURE: Duration = Duration::from_secs(20);

/// A generation, and since when it is at its place: there may be another one at any time.
type Begun = (&'static str, Timestamp);

/// The search indexes that this process keeps or follows: those that answer, and generations beside them.
#[derive(Debug, Clone)]
pub(crate) struct IndexGenerations {
    active: Indexes,
    beside: Arc<Mutex<HashMap<Begun, SnapshotReceiver>>>,
}

impl IndexGenerations {
    pub(crate) fn new(active: Indexes) -> Self {
        Self { active, beside: Arc::default() }
    }

    fn set(&self, generation: Begun, newest: SnapshotReceiver) {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).insert(generation, newest);
    }

    fn of(&self, generation: Begun) -> Option<SnapshotReceiver> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).get(&generation).cloned()
    }

    fn remove(&self, generation: Begun) {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).remove(&generation);
    }
}

/// Keeps every generation up to date, and compares them on request, until `shutdown`.
pub(crate) async fn work(projector: Projector, indexes: IndexGenerations, shutdown: CancellationToken) {
    let leases = projector.leases.clone();
    let mut verifier = Verifier { projector: projector.clone(), indexes: indexes.clone() };
    // Generations use other connections than those that answer.
    let beside = Projector { database: projector.beside.clone(), joint: Joint::default(), ..projector };
    let mut keeper = Keeper { beside, indexes, units: JoinSet::new(), kept: HashMap::new(), shutdown: &shutdown };
    tokio::join!(keeper.keep_all(), supervise(&mut verifier, &leases, &shutdown));
}

/// Keeps the generations up to date.
struct Keeper<'a> {
    beside: Projector,
    indexes: IndexGenerations,
    units: JoinSet<()>,
    kept: HashMap<Begun, (CancellationToken, AbortHandle)>,
    shutdown: &'a CancellationToken,
}

impl Keeper<'_> {
    async fn keep_all(&mut self) {
        let mut is_swept = false;
        while !self.shutdown.is_cancelled() {
            match generations(&self.beside.database, self.beside.shard).await {
                Ok(all) => {
                    if !is_swept {
                        is_swept = folders::remove_others(&self.beside, &all).await;
                    }
                    self.keep(all);
                }
                Err(error) => tracing::debug!(error = explain(&error), "the generations cannot be listed"),
            }
            while self.units.try_join_next().is_some() {}
            tokio::select! {
                () = sleep(EVERY) => {}
                () = self.shutdown.cancelled() => {}
            }
        }
        while self.units.join_next().await.is_some() {}
    }

    /// Ends the work on generations that are gone, and begins that on new ones.
    fn keep(&mut self, all: Vec<Generation>) {
        let wanted: HashSet<Begun> = all.iter().map(Generation::begun).collect();
        self.kept.retain(|begun, (end, unit)| {
            let is_kept = wanted.contains(begun);
            if !is_kept {
                end.cancel();
                self.indexes.remove(*begun);
            }
            is_kept && !unit.is_finished()
        });
        for generation in all {
            if !self.kept.contains_key(&generation.begun()) {
                self.begin(&generation);
            }
        }
    }

    fn begin(&mut self, generation: &Generation) {
        let (end, projection) = (self.shutdown.child_token(), generation.projection);
        let unit = if let Kind::Index(_) = projection.kind {
            match self.index(generation, end.clone()) {
                Ok(unit) => unit,
                Err(failure) => {
                    let error = explain(&failure);
                    tracing::warn!(projection = projection.name, error, "a generation cannot be kept here");
                    return;
                }
            }
        } else {
            self.units.spawn(keep(self.beside.clone(), projection, end.clone()))
        };
        self.kept.insert(generation.begun(), (end, unit));
    }

    /// Begins work on a generation of a search index, whose folder goes with it.
    fn index(&mut self, generation: &Generation, end: CancellationToken) -> Result<AbortHandle, IndexFailure> {
        let (shown, newest) = watch::channel(None);
        let unit = index::Unit::new(&self.beside, generation.projection, Some(generation.since), shown)?;
        self.indexes.set(generation.begun(), newest);
        let (folder, shutdown) = (unit.folder().clone(), self.shutdown.clone());
        Ok(self.units.spawn(async move {
            unit.run(end).await;
            if !shutdown.is_cancelled() {
                folders::remove(&folder).await;
            }
        }))
    }
}

/// Compares generations with those that answer, in one process at a time.
struct Verifier {
    projector: Projector,
    indexes: IndexGenerations,
}

impl Verifier {
    async fn verify(&self, lease: &Lease) -> Infallible {
        let Projector { database, shard, .. } = &self.projector;
        loop {
            lease.tick();
            if let Ok(all) = generations(database, *shard).await {
                let mut is_well = true;
                for generation in all.iter().filter(|generation| generation.is_due) {
                    is_well &= lease.during(comparison::compare(&self.projector, &self.indexes, generation)).await;
                }
                if !is_well {
                    lease.during(sleep(AFTER_FAILURE)).await;
                }
            }
            sleep(EVERY).await;
        }
    }
}

impl unit::Unit for Verifier {
    type End = Infallible;

    fn name(&self) -> String {
        format!("projection.generations.{}", self.projector.shard)
    }

    async fn work(&mut self, lease: &Lease, shutdown: &CancellationToken) -> ControlFlow<Infallible, Duration> {
        while_held(self.verify(lease), lease, shutdown).await;
        ControlFlow::Continue(Duration::ZERO)
    }
}
