//! Leases in JetStream KV: which process should do a piece of work.
//!
//! A lease keeps two nodes from doing the same work at the same time, most of the time. It protects nothing: what must
//! not happen twice is fenced where it takes effect, by the log's expected sequence or a checkpoint's epoch.
//!
//! A process renews a single entry of its own, however many units it holds; all of them depend on it. The entry has a
//! random number in its name, so nobody takes it over: it expires, and is gone for good. The entry of a unit of work
//! names the process that holds it. Others take the unit when its entry shows that it was given up, or when the entry
//! of its process is gone; so a process that can still renew its own entry has lost nothing to others.

mod entries;
mod process;
mod renewal;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use async_nats::jetstream;
use base::{clock::since_start, explain::explain, fault};
pub use renewal::Connect;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{
    entries::{Entries, Holder, UnitEntry},
    process::{HeldUnit, Process, Tenure},
};
use crate::log::LogFailure;

/// Returns how long a lease lasts after its last renewal. In tests of faults it is shorter.
pub fn ttl() -> Duration {
    fault::shortened_lease(Duration::from_millis(3500), Duration::from_millis(1400))
}

/// Returns the interval of renewals: a second, for a lease of three and a half.
fn renew_every() -> Duration {
    ttl() * 2 / 7
}

/// The leases of a system.
#[derive(Debug, Clone)]
pub struct Leases {
    entries: Entries,
    process: Arc<Process>,
    /// Stops the renewal thread when its last user is dropped.
    running: Arc<DropGuard>,
    /// Whether the previous process of this name is known to have ended.
    is_alone: bool,
}

/// A unit of work, held for as long as the lease of this process lasts.
#[derive(Debug)]
pub struct Lease {
    held: Arc<HeldUnit>,
    process: Arc<Process>,
    tenures: watch::Receiver<Option<Tenure>>,
    _running: Arc<DropGuard>,
}

/// The outcome of an attempt to take a lease.
#[derive(Debug)]
enum Attempt {
    /// This process holds it.
    Taken(Lease),
    /// Another process holds it, under this name.
    Held(String),
    /// Another process was faster, or may still hold it.
    Missed,
}

/// The newest renewal of another holder.
#[derive(Debug, Clone, Copy)]
struct ObservedRenewal {
    revision: u64,
    /// When it was first seen, by [`since_start`]: its holder counts from an earlier time.
    at: Duration,
}

/// Whether the holder may still rely on the newest renewal that was seen.
fn may_last(seen: Option<ObservedRenewal>) -> bool {
    seen.is_some_and(|seen| since_start() < seen.at + ttl())
}

impl Leases {
    /// Opens the leases for a node of this role and name. They are renewed on a connection of their own, which is made
    /// when there is something to hold.
    ///
    /// # Errors
    /// If NATS does not answer, or if the existing bucket has rules under which leases would not expire as they must.
    pub async fn open(
        context: &jetstream::Context,
        role: &'static str,
        name: &str,
        replicas: usize,
        connect: Connect,
    ) -> Result<Self, LogFailure> {
        let entries = Entries::open(context, replicas).await?;
        let (process, stop) = (Arc::new(Process::new(role, name)), CancellationToken::new());
        renewal::start(process.clone(), entries.clone(), connect, stop.clone())?;
        Ok(Self { entries, process, running: Arc::new(stop.drop_guard()), is_alone: false })
    }

    /// Declares that the previous process of this name is known to have ended, as by the lock of its data directory:
    /// its leases are taken at once. Other processes wait until they expire, because a process that is stopped or cut
    /// off may still rely on them.
    pub fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// Returns the name of this holder.
    pub fn holder(&self) -> &str {
        &self.process.name
    }

    /// Waits until nobody else holds the lease, and takes it; `held_by` is called with the holder meanwhile. Failures
    /// of NATS are waited out.
    pub async fn acquire(&self, unit: &str, mut held_by: impl FnMut(&str)) -> Lease {
        let mut seen = None;
        loop {
            match self.try_acquire(unit, &mut seen).await {
                Ok(Attempt::Taken(lease)) => return lease,
                Ok(Attempt::Held(holder)) => held_by(&holder),
                Ok(Attempt::Missed) => {}
                Err(error) => tracing::debug!(lease = unit, error = explain(&error), "cannot ask for the lease"),
            }
            sleep(renew_every() / 4).await;
        }
    }

    /// Takes the lease if nobody holds it. What was seen of other holders is considered and updated.
    async fn try_acquire(&self, unit: &str, seen: &mut Option<ObservedRenewal>) -> Result<Attempt, LogFailure> {
        let found = self.entries.unit(unit).await?;
        match &found {
            // The broker lost the entry, but the holder relies on it.
            None if may_last(*seen) => return Ok(Attempt::Missed),
            None => {}
            Some((entry, _)) => {
                if let Some(holder) = &entry.holder
                    && let Some(attempt) = self.check_holder(holder, seen).await?
                {
                    return Ok(attempt);
                }
            }
        }
        if let Some(name) = self.entries.earlier(unit).await?.filter(|name| !self.is_previous_process(name)) {
            return Ok(Attempt::Held(name));
        }
        let (entry, revision) = found.unwrap_or_default();
        self.take(unit, entry.epoch + 1, revision).await
    }

    /// Returns the attempt's outcome if the holder of the unit prevents it; `None` if that process has ended.
    async fn check_holder(
        &self,
        holder: &Holder,
        seen: &mut Option<ObservedRenewal>,
    ) -> Result<Option<Attempt>, LogFailure> {
        let is_own = self.process.tenures().borrow().as_ref().is_some_and(|tenure| tenure.process == holder.process);
        if is_own {
            // The answer was lost when this process took it or gave it up.
            return Ok(None);
        }
        let Some(revision) = self.entries.process(&holder.process).await? else {
            // It was neither given up nor has it certainly expired: the broker lost it or its clock jumped.
            return Ok((may_last(*seen) && !self.is_previous_process(&holder.name)).then_some(Attempt::Missed));
        };
        if seen.is_none_or(|seen| seen.revision != revision) {
            *seen = Some(ObservedRenewal { revision, at: since_start() });
        }
        if may_last(*seen) && !self.is_previous_process(&holder.name) {
            return Ok(Some(Attempt::Held(holder.name.clone())));
        }
        // The lease is over only when its holder cannot renew it any more.
        let is_over = self.entries.end(&holder.process, revision).await?;
        Ok((!is_over).then_some(Attempt::Missed))
    }

    /// Whether this is the name of the process before this one.
    fn is_previous_process(&self, name: &str) -> bool {
        self.is_alone && name == self.process.name
    }

    /// Writes this process as holder into the entry of a unit at this revision.
    async fn take(&self, unit: &str, epoch: u64, revision: u64) -> Result<Attempt, LogFailure> {
        let _wanting = self.process.keep_renewed();
        let mut tenures = self.process.tenures();
        let is_valid = |tenure: &Option<Tenure>| tenure.as_ref().is_some_and(|it| since_start() < it.valid_until);
        let Ok(Some(Tenure { process, .. })) = tenures.wait_for(is_valid).await.map(|tenure| tenure.clone()) else {
            return Ok(Attempt::Missed);
        };
        let holder = Some(Holder { process: process.clone(), name: self.process.name.clone() });
        let taken = self.entries.replace(unit, &UnitEntry { epoch, holder }, revision).await?;
        let held = taken.and_then(|revision| self.process.add(HeldUnit::new(unit, process, epoch, revision)));
        let Some(held) = held else { return Ok(Attempt::Missed) };
        tracing::debug!(lease = unit, epoch, "the lease was taken");
        let (process, running) = (self.process.clone(), self.running.clone());
        Ok(Attempt::Taken(Lease { held, process, tenures, _running: running }))
    }
}

/// Returns the leases that are held, each with the name of its holder, ordered by lease name.
///
/// # Errors
/// If NATS does not answer, or there is no bucket.
pub async fn holders(context: &jetstream::Context) -> Result<Vec<(String, String)>, LogFailure> {
    let entries = Entries::find(context).await?;
    let mut held = vec![];
    for unit in entries.units().await? {
        let name = name_of_holder(&entries, &unit).await?;
        held.extend(name.map(|name| (unit, name)));
    }
    Ok(held)
}

/// Returns the name of the holder of a lease.
///
/// # Errors
/// If NATS does not answer, or there is no bucket.
pub async fn holder(context: &jetstream::Context, unit: &str) -> Result<Option<String>, LogFailure> {
    name_of_holder(&Entries::find(context).await?, unit).await
}

async fn name_of_holder(entries: &Entries, unit: &str) -> Result<Option<String>, LogFailure> {
    match entries.unit(unit).await?.and_then(|(entry, _)| entry.holder) {
        Some(Holder { process, name }) if entries.process(&process).await?.is_some() => Ok(Some(name)),
        _ => entries.earlier(unit).await,
    }
}

impl Lease {
    /// Whether nobody else has taken the lease, as far as this process knows.
    pub fn is_held(&self) -> bool {
        !self.held.lost.is_cancelled()
    }

    /// Completes when somebody else may have taken the lease.
    pub async fn lost(&self) {
        self.held.lost.cancelled().await;
    }

    /// Whether nobody else can hold the lease at this moment, counted from before its last renewal was sent, by a clock
    /// that runs while the machine is suspended. If that is uncertain it waits for the next renewal.
    pub async fn confirm(&self) -> bool {
        let is_own = |tenure: &Tenure| tenure.process == self.held.process;
        let certain = |tenure: &Option<Tenure>| {
            tenure.as_ref().is_none_or(|tenure| !is_own(tenure) || since_start() < tenure.valid_until)
        };
        let mut known = self.tenures.clone();
        let is_certain = tokio::select! {
            known = known.wait_for(certain) => known.is_ok_and(|tenure| tenure.as_ref().is_some_and(is_own)),
            () = self.lost() => false,
        };
        is_certain && self.is_held()
    }

    /// Signals that the work makes progress. Without a signal for ten seconds the lease is given up.
    pub fn tick(&self) {
        self.held.tick();
    }

    /// Signals progress during work that may take long and is bounded elsewhere.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.tick();
            if let Ok(done) = timeout(renew_every(), work.as_mut()).await {
                return done;
            }
        }
    }

    /// Gives the lease up, so that others need not wait until it expires.
    pub async fn release(self) {
        self.process.give_up(&self.held);
        self.held.freed.cancelled().await;
    }
}

impl Drop for Lease {
    /// A holder that is gone without giving the lease up, as by a panic, does not keep others from the work.
    fn drop(&mut self) {
        self.process.give_up(&self.held);
    }
}
