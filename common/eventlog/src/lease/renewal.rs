//! The thread that renews the lease of a process and releases its units: no request can delay it.

use std::{sync::Arc, thread, time::Duration};

use base::{clock::since_start, explain::explain};
use futures::future::BoxFuture;
use tokio::{
    runtime,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    entries::{Entries, ProcessKey, UnitEntry},
    process::{HeldUnit, Process},
    renew_every, ttl,
};
use crate::log::{LogFailure, context, nats};

/// Connects the thread: on a shared connection it would have to wait for others.
pub type Connect = Box<dyn Fn() -> BoxFuture<'static, Option<async_nats::Client>> + Send + Sync>;

/// The state of the thread.
struct Renewal {
    process: Arc<Process>,
    entries: Entries,
}

/// Starts the thread, which connects when the first unit is to be taken and ends with `stop`.
pub(super) fn start(
    process: Arc<Process>,
    entries: Entries,
    connect: Connect,
    stop: CancellationToken,
) -> Result<(), LogFailure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(nats)?;
    let run = async move {
        let begin = async {
            process.requested().await;
            connected(&entries, &connect).await
        };
        let entries = tokio::select! {
            entries = begin => entries,
            () = stop.cancelled() => return,
        };
        let renewal = Renewal { process, entries };
        tokio::select! {
            () = renewal.hold() => {}
            () = renewal.free(&stop) => {}
        }
    };
    thread::Builder::new().name("leases".to_owned()).spawn(move || runtime.block_on(run)).map_err(nats)?;
    Ok(())
}

async fn connected(entries: &Entries, connect: &Connect) -> Entries {
    loop {
        if let Some(client) = connect().await {
            match entries.over(context(client)).await {
                Ok(entries) => return entries,
                Err(error) => tracing::warn!(error = explain(&error), "cannot ask for leases"),
            }
        }
        sleep(renew_every()).await;
    }
}

impl Renewal {
    /// Holds the lease while it is wanted, one tenure after the other. It never returns.
    async fn hold(&self) {
        loop {
            self.process.requested().await;
            let (process, sent) = (self.process.new_key(), since_start());
            match timeout(renew_every(), self.entries.renew(&process, &self.process.name, 0)).await {
                Ok(Ok(Some(revision))) => {
                    self.process.note_renewal(&process, sent + ttl());
                    self.renew(process, revision, sent + ttl()).await;
                    self.process.note_end();
                }
                Ok(Err(error)) => {
                    tracing::warn!(error = explain(&error), "cannot take the lease of this process");
                    sleep(renew_every() / 4).await;
                }
                Ok(Ok(None)) | Err(_) => {}
            }
        }
    }

    /// Renews the lease until it is lost, or not wanted any more. While NATS does not answer, it remains as it was.
    async fn renew(&self, process: ProcessKey, mut revision: u64, mut valid_until: Duration) {
        loop {
            sleep((valid_until + renew_every()).saturating_sub(ttl() + since_start())).await;
            if !self.process.is_wanted() {
                return;
            }
            let sent = since_start();
            match timeout(renew_every(), self.entries.renew(&process, &self.process.name, revision)).await {
                Ok(Ok(Some(renewed))) => {
                    (revision, valid_until) = (renewed, sent + ttl());
                    self.process.note_renewal(&process, valid_until);
                }
                // Either this was our own renewal, whose answer was lost, or it has ended: then others may have held
                // units meanwhile.
                Ok(Ok(None)) => match self.entries.process(&process).await {
                    // Its end is not known; the next renewal follows at once and finds out.
                    Ok(Some(found)) => revision = found,
                    Ok(None) => {
                        tracing::warn!("the lease of this process has ended, and with it all that it held");
                        return;
                    }
                    Err(_) => {}
                },
                // If only the answer was lost, the next renewal finds a wrong revision.
                Err(_) => tracing::warn!("NATS does not answer to the renewal of the lease"),
                Ok(Err(error)) => {
                    tracing::warn!(error = explain(&error), "cannot renew the lease");
                    sleep(renew_every() / 4).await;
                }
            }
        }
    }

    /// Releases the units that were given up or show no progress, until `stop`.
    async fn free(&self, stop: &CancellationToken) {
        let mut freeing = JoinSet::new();
        loop {
            let is_last = tokio::select! {
                () = self.process.wait_released() => false,
                Some(_) = freeing.join_next() => false,
                () = sleep(renew_every()) => false,
                () = stop.cancelled() => true,
            };
            for held in self.process.take_released() {
                freeing.spawn(free(self.process.clone(), self.entries.clone(), held));
            }
            if is_last {
                let _ = timeout(ttl(), freeing.join_all()).await;
                return;
            }
        }
    }
}

/// Writes that nobody holds the unit. Others would wait for it as long as this process lives, so it is retried until
/// then.
async fn free(process: Arc<Process>, entries: Entries, held: Arc<HeldUnit>) {
    let freed = UnitEntry { epoch: held.epoch, holder: None };
    loop {
        let released = entries.replace(&held.unit, &freed, held.revision).await;
        held.freed.cancel();
        let Err(error) = released else { return };
        tracing::debug!(lease = held.unit, error = explain(&error), "the lease was not released");
        if !process.is_of(&held) {
            return;
        }
        sleep(renew_every()).await;
    }
}
