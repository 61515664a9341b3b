//! Work on the generations beside those that answer, which begins and ends on request of operators.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    ops::ControlFlow,
    time::Duration,
};

use base::explain::explain;
use eventlog::{
    lease::Lease,
    unit::{self, supervise, while_held},
};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use view::generation::{Generation, generations, verify};

use crate::{Projector, unit::work as keep};

/// How often the requests of operators are checked.
const EVERY: Duration = Duration::from_secs(1);

/// Keeps every generation up to date, and compares them on request, until `shutdown`.
pub(crate) async fn work(projector: Projector, shutdown: CancellationToken) {
    let (leases, mut verifier) = (projector.leases.clone(), Verifier { projector: projector.clone() });
    tokio::join!(keep_all(projector, &shutdown), supervise(&mut verifier, &leases, &shutdown));
}

async fn keep_all(projector: Projector, shutdown: &CancellationToken) {
    // Generations use other connections than those that answer.
    let beside = Projector { database: projector.beside.clone(), ..projector };
    let (mut units, mut kept) = (JoinSet::new(), HashMap::<&str, (CancellationToken, AbortHandle)>::new());
    while !shutdown.is_cancelled() {
        match generations(&beside.database, beside.shard).await {
            Ok(all) => {
                let wanted: HashSet<&str> = all.iter().map(|generation| generation.projection.name).collect();
                kept.retain(|name, (end, unit)| {
                    let is_kept = wanted.contains(name);
                    if !is_kept {
                        end.cancel();
                    }
                    is_kept && !unit.is_finished()
                });
                for Generation { projection, .. } in all {
                    kept.entry(projection.name).or_insert_with(|| {
                        let end = shutdown.child_token();
                        let unit = units.spawn(keep(beside.clone(), projection, end.clone()));
                        (end, unit)
                    });
                }
            }
            Err(error) => tracing::debug!(error = explain(&error), "the generations cannot be listed"),
        }
        while units.try_join_next().is_some() {}
        tokio::select! {
            () = sleep(EVERY) => {}
            () = shutdown.cancelled() => {}
        }
    }
    while units.join_next().await.is_some() {}
}

/// Compares generations with those that answer, in one process at a time.
struct Verifier {
    projector: Projector,
}

impl Verifier {
    async fn verify(&self, lease: &Lease) -> Infallible {
        let Projector { database, shard, .. } = &self.projector;
        loop {
            lease.tick();
            if let Ok(all) = generations(database, *shard).await {
                for generation in all.iter().filter(|generation| generation.is_due) {
                    lease.during(self.compare(generation)).await;
                }
            }
            sleep(EVERY).await;
        }
    }

    async fn compare(&self, generation: &Generation) {
        let Projector { beside: database, shard, .. } = &self.projector;
        let (view, place) = (generation.projection.view, generation.place.name());
        match verify(database, *shard, generation).await {
            Ok(Some(verified)) => {
                let differing = verified.differing;
                tracing::info!(view, place, differing, "a generation was compared with the active one");
            }
            // The generation lags.
            Ok(None) => {}
            Err(error) => tracing::warn!(view, place, error = explain(&error), "a generation cannot be compared yet"),
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
