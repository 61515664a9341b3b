//! Leases in JetStream KV: who should do a piece of work.
//!
//! A lease keeps two nodes from doing the same work at the same time, most of the time. It protects nothing: what must
//! not happen twice is fenced where it takes effect, by the log's expected sequence or a checkpoint's epoch.
//!
//! A process renews one entry of its own, however much it does, and all that it holds stands on that. The entry has a random
//! number in its name, so nobody takes it over: it ends, and is gone for good. The entry of a unit of work names the process
//! that holds it. Others take the unit when that says that it was given up, or when the entry of its process is gone; so who
//! can still renew its own entry has lost nothing to others.

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

/// How long a lease lasts after its last renewal. In tests of faults it is shorter.
pub fn ttl() -> Duration {
    fault::shortened_lease(Duration::from_millis(3500), Duration::from_millis(1400))
}

/// How often it is renewed: every second, where it lasts three and a half.
fn renew_every() -> Duration {
    ttl() * 2 / 7
}

/// The leases of a system.
#[derive(Debug, Clone)]
pub struct Leases {
    entries: Entries,
    process: Arc<Process>,
    /// Ends the thread that renews with the last of those that need it.
    running: Arc<DropGuard>,
    /// Whether the process before of this name is known to have ended.
    is_alone: bool,
}

/// A unit of work that is held as long as the lease of this process is.
#[derive(Debug)]
pub struct Lease {
    held: Arc<HeldUnit>,
    process: Arc<Process>,
    tenures: watch::Receiver<Option<Tenure>>,
    _running: Arc<DropGuard>,
}

/// What came of an attempt to take a lease.
#[derive(Debug)]
enum Attempt {
    /// It is ours.
    Taken(Lease),
    /// Somebody else holds it, under this name.
    Held(String),
    /// Somebody else was faster, or may hold it still.
    Missed,
}

/// The newest renewal of another holder.
#[derive(Debug, Clone, Copy)]
struct Seen {
    revision: u64,
    /// When it was seen first, by [`since_start`]: its holder counts from before that.
    at: Duration,
}

/// Whether its holder may rely on the newest renewal that was seen.
fn may_last(seen: Option<Seen>) -> bool {
    seen.is_some_and(|seen| since_start() < seen.at + ttl())
}

impl Leases {
    /// Opens the leases for a node of this role and name. They are renewed through a connection of their own, which is made
    /// when there is something to hold.
    ///
    /// # Errors
    /// When NATS does not answer, and when there is a bucket in which leases would not end as they must.
    pub async fn open(
        context: &jetstream::Context,
        (role, name): (&'static str, &str),
        replicas: usize,
        connect: Connect,
    ) -> Result<Self, LogFailure> {
        let entries = Entries::open(context, replicas).await?;
        let (process, stop) = (Arc::new(Process::new(role, name)), CancellationToken::new());
        renewal::start(process.clone(), entries.clone(), connect, stop.clone())?;
        Ok(Self { entries, process, running: Arc::new(stop.drop_guard()), is_alone: false })
    }

    /// For one whose process before is known to have ended, as by the lock of its data directory: it takes the leases of
    /// that at once. Others wait for their end, because who stands still or is cut off may still rely on them.
    pub fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// The name of this holder.
    pub fn holder(&self) -> &str {
        &self.process.name
    }

    /// Waits until nobody else holds the lease and takes it; `held_by` hears meanwhile who does. Failures of NATS are
    /// waited out.
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

    /// Takes the lease if nobody holds it. What was seen of other holders before is minded and added to.
    async fn try_acquire(&self, unit: &str, seen: &mut Option<Seen>) -> Result<Attempt, LogFailure> {
        let found = self.entries.unit(unit).await?;
        match &found {
            // The broker lost it, and its holder relies on it.
            None if may_last(*seen) => return Ok(Attempt::Missed),
            None => {}
            Some((entry, _)) => {
                if let Some(holder) = &entry.holder
                    && let Some(attempt) = self.minded(holder, seen).await?
                {
                    return Ok(attempt);
                }
            }
        }
        if let Some(name) = self.entries.earlier(unit).await?.filter(|name| !self.was(name)) {
            return Ok(Attempt::Held(name));
        }
        let (entry, revision) = found.unwrap_or_default();
        self.take(unit, entry.epoch + 1, revision).await
    }

    /// What the holder of a unit makes of the attempt to take it; nothing where its process has ended.
    async fn minded(&self, holder: &Holder, seen: &mut Option<Seen>) -> Result<Option<Attempt>, LogFailure> {
        let is_own = self.process.tenures().borrow().as_ref().is_some_and(|tenure| tenure.process == holder.process);
        if is_own {
            // The answer was lost when it was taken or given up.
            return Ok(None);
        }
        let Some(revision) = self.entries.process(&holder.process).await? else {
            // Neither given up nor outlived by all that is known: the broker lost it or its clock jumped.
            return Ok((may_last(*seen) && !self.was(&holder.name)).then_some(Attempt::Missed));
        };
        if seen.is_none_or(|seen| seen.revision != revision) {
            *seen = Some(Seen { revision, at: since_start() });
        }
        if may_last(*seen) && !self.was(&holder.name) {
            return Ok(Some(Attempt::Held(holder.name.clone())));
        }
        // It is over only when its holder can renew it no more.
        let is_over = self.entries.end(&holder.process, revision).await?;
        Ok((!is_over).then_some(Attempt::Missed))
    }

    /// Whether who has this name is the process before this one.
    fn was(&self, name: &str) -> bool {
        self.is_alone && name == self.process.name
    }

    /// Writes this process as holder into the entry of a unit that has this revision.
    async fn take(&self, unit: &str, epoch: u64, revision: u64) -> Result<Attempt, LogFailure> {
        let _wanting = self.process.want();
        let mut tenures = self.process.tenures();
        let is_valid = |tenure: &Option<Tenure>| tenure.as_ref().is_some_and(|it| since_start() < it.valid_until);
        let Ok(Some(Tenure { process, .. })) = tenures.wait_for(is_valid).await.map(|tenure| tenure.clone()) else {
            return Ok(Attempt::Missed);
        };
        let holder = Some(Holder { process: process.clone(), name: self.process.name.clone() });
        let taken = self.entries.replace(unit, &UnitEntry { epoch, holder }, revision).await?;
        let held = taken.and_then(|revision| self.process.add(HeldUnit::new(unit, process, (epoch, revision))));
        let Some(held) = held else { return Ok(Attempt::Missed) };
        tracing::debug!(lease = unit, epoch, "the lease was taken");
        let (process, running) = (self.process.clone(), self.running.clone());
        Ok(Attempt::Taken(Lease { held, process, tenures, _running: running }))
    }
}

/// The leases that are held now, each with the name of its holder, in the order of their names.
///
/// # Errors
/// When NATS does not answer, or there is no bucket.
pub async fn holders(context: &jetstream::Context) -> Result<Vec<(String, String)>, LogFailure> {
    let entries = Entries::find(context).await?;
    let mut held = vec![];
    for unit in entries.units().await? {
        let name = name_of_holder(&entries, &unit).await?;
        held.extend(name.map(|name| (unit, name)));
    }
    Ok(held)
}

/// The name of who holds a lease now.
///
/// # Errors
/// When NATS does not answer, or there is no bucket.
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
    /// Whether nobody else has taken the lease, as far as is known.
    pub fn is_held(&self) -> bool {
        !self.held.lost.is_cancelled()
    }

    /// Ends when somebody else may have taken the lease.
    pub async fn lost(&self) {
        self.held.lost.cancelled().await;
    }

    /// Whether nobody else can hold the lease at this moment, counted from before its last renewal was sent, by a clock
    /// that runs while the machine sleeps. Where that is in doubt it waits for the next renewal.
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

    /// Gives a sign of life. Without one for ten seconds the lease is given up.
    pub fn tick(&self) {
        self.held.tick();
    }

    /// Gives signs of life while something goes on that may take long and is bounded elsewhere.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.tick();
            if let Ok(done) = timeout(renew_every(), work.as_mut()).await {
                return done;
            }
        }
    }

    /// Gives the lease up, so that others need not wait for its end.
    pub async fn release(self) {
        self.process.give_up(&self.held);
        self.held.freed.cancelled().await;
    }
}

impl Drop for Lease {
    /// Whoever is gone without giving it up, as by a panic, does not keep others from the work.
    fn drop(&mut self) {
        self.process.give_up(&self.held);
    }
}
