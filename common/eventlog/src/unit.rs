//! Units of work under leases: take the lease, work, give it up, and again after a pause.

use std::{convert::Infallible, future, future::Future, ops::ControlFlow, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::lease::{Lease, Leases};

/// A unit of work that one process does at a time.
pub trait Unit: Send + Sync {
    /// Its result when it ends by itself.
    type End: Send;

    /// Returns the name of its lease.
    fn name(&self) -> String;

    /// Runs while another process holds the lease. It never completes.
    fn stand_by(&self) -> impl Future<Output = Infallible> + Send {
        future::pending()
    }

    /// Called with the holder of the lease.
    fn is_held_by(&self, _holder: &str) {}

    /// Works until it cannot go on, the lease is lost, or `shutdown`, and returns the pause after which it goes on, or
    /// that it has ended. It signals progress with [`Lease::tick`].
    fn work(
        &mut self,
        lease: &Lease,
        shutdown: &CancellationToken,
    ) -> impl Future<Output = ControlFlow<Self::End, Duration>> + Send;

    /// Waits for what it cannot work without, before it takes the lease again.
    fn recover(&mut self) -> impl Future<Output = ()> + Send {
        future::ready(())
    }
}

/// Works whenever no other process does, until `shutdown` or its own end.
pub async fn supervise<U: Unit>(unit: &mut U, leases: &Leases, shutdown: &CancellationToken) -> Option<U::End> {
    let name = unit.name();
    while !shutdown.is_cancelled() {
        let lease = tokio::select! {
            lease = leases.acquire(&name, |holder| unit.is_held_by(holder)) => lease,
            never = unit.stand_by() => match never {},
            () = shutdown.cancelled() => return None,
        };
        let worked = unit.work(&lease, shutdown).await;
        lease.release().await;
        let pause = match worked {
            ControlFlow::Continue(pause) => pause,
            ControlFlow::Break(end) => return Some(end),
        };
        let rest = async {
            sleep(pause).await;
            unit.recover().await;
        };
        tokio::select! {
            () = rest => {}
            () = shutdown.cancelled() => {}
        }
    }
    None
}

/// Does work that may be abandoned at any moment until the lease is lost or `shutdown`; `None` if it was abandoned.
pub async fn while_held<T>(work: impl Future<Output = T>, lease: &Lease, shutdown: &CancellationToken) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = lease.lost() => None,
        () = shutdown.cancelled() => None,
    }
}
