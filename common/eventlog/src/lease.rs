//! Leases in JetStream KV: who should do a piece of work.
//!
//! A lease keeps two nodes from doing the same work at the same time, most of the time. It protects nothing: what must
//! not happen twice is fenced where it takes effect, by the log's expected sequence or a checkpoint's epoch.

use std::{borrow::Cow, time::Duration};

pub use crate::streams::lease_ttl as ttl;
use async_nats::jetstream::{
    self,
    kv::{Operation, Store, UpdateErrorKind},
};
use base::{clock::since_start, explain::explain, metric::catalog::LEASE_HELD, secret};
use bytes::Bytes;
use futures::TryStreamExt;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    log::{LogFailure, nats},
    streams,
};

const BUCKET: &str = "LEASES";
/// What stands between the name of a holder and the number of its process.
const SEPARATOR: char = '\n';

/// How often it is renewed: every second, where it lasts three and a half.
fn renew_every() -> Duration {
    ttl() * 2 / 7
}

/// The leases of a system.
#[derive(Debug, Clone)]
pub struct Leases {
    bucket: Store,
    holder: String,
    /// What this process writes into a lease: its holder's name and a random number, so that it is not taken for another
    /// process of the same name, such as the one that replaced it while it stood still.
    value: Bytes,
    /// Whether the process before of this name is known to have ended.
    is_alone: bool,
}

/// A lease that is held as long as it is renewed.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    name: String,
    revision: u64,
    /// By [`since_start`].
    valid_until: Duration,
}

/// A lease that a task renews.
#[derive(Debug)]
pub struct KeptLease {
    /// Until when nobody else can hold it, by [`since_start`]; `None` once somebody else does.
    valid_until: watch::Receiver<Option<Duration>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// What came of an attempt to take a lease.
#[derive(Debug)]
enum Attempt {
    /// It is ours.
    Taken(Box<Lease>),
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

/// Somebody else holds the lease now, or may have held it.
struct Lost;

impl Leases {
    /// Opens the leases for a holder.
    ///
    /// # Errors
    /// When NATS does not answer, and when there is a bucket in which a lease would not last as long as it must.
    pub async fn open(context: &jetstream::Context, holder: &str, replicas: usize) -> Result<Self, LogFailure> {
        let bucket = streams::bucket(context, BUCKET, replicas, ttl()).await?;
        let number = hex::encode(secret::random::<8>());
        Ok(Self {
            bucket,
            holder: holder.to_owned(),
            value: format!("{holder}{SEPARATOR}{number}").into(),
            is_alone: false,
        })
    }

    /// For one whose process before is known to have ended, as by the lock of its data directory: it takes the leases of
    /// that at once. Others wait for their end, because who stands still or is cut off may still rely on them.
    pub fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// The name of this holder.
    pub fn holder(&self) -> &str {
        &self.holder
    }

    /// Takes the lease if nobody holds it. What was seen of other holders before is minded and added to.
    async fn try_acquire(&self, name: &str, seen: &mut Option<Seen>) -> Result<Attempt, LogFailure> {
        let entry = self.bucket.entry(name).await.map_err(nats)?;
        let revision = match &entry {
            // Neither given up nor outlived by all that is known: the broker lost it or its clock jumped, and its holder
            // relies on it.
            None if seen.is_some_and(|seen| since_start() < seen.at + ttl()) => return Ok(Attempt::Missed),
            None => 0,
            Some(entry) if entry.operation != Operation::Put => entry.revision,
            Some(entry) => match holder(&entry.value) {
                name if self.is_alone && name == self.holder => entry.revision,
                other => {
                    if seen.is_none_or(|seen| seen.revision != entry.revision) {
                        *seen = Some(Seen { revision: entry.revision, at: since_start() });
                    }
                    return Ok(Attempt::Held(other.into_owned()));
                }
            },
        };
        let sent = since_start();
        match self.bucket.update(name, self.value.clone(), revision).await {
            Ok(revision) => {
                let valid_until = sent + ttl();
                let lease = Lease { leases: self.clone(), name: name.to_owned(), revision, valid_until };
                Ok(Attempt::Taken(Box::new(lease)))
            }
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(Attempt::Missed),
            Err(error) => Err(nats(error)),
        }
    }

    /// Waits until nobody else holds the lease and takes it; `held_by` hears meanwhile who does. Failures of NATS are
    /// waited out.
    pub async fn acquire(&self, name: &str, mut held_by: impl FnMut(&str)) -> Lease {
        let mut seen = None;
        loop {
            match self.try_acquire(name, &mut seen).await {
                Ok(Attempt::Taken(lease)) => return *lease,
                Ok(Attempt::Held(holder)) => held_by(&holder),
                Ok(Attempt::Missed) => {}
                Err(error) => tracing::debug!(lease = name, error = explain(&error), "cannot ask for the lease"),
            }
            sleep(renew_every() / 4).await;
        }
    }
}

/// The leases that are held now, each with the name of its holder, in the order of their names.
///
/// # Errors
/// When NATS does not answer, or there is no bucket.
pub async fn holders(context: &jetstream::Context) -> Result<Vec<(String, String)>, LogFailure> {
    let bucket = context.get_key_value(BUCKET).await.map_err(nats)?;
    let mut names: Vec<String> = bucket.keys().await.map_err(nats)?.try_collect().await.map_err(nats)?;
    names.sort_unstable();
    let mut held = vec![];
    for name in names {
        let entry = bucket.entry(&name).await.map_err(nats)?;
        if let Some(entry) = entry.filter(|entry| entry.operation == Operation::Put) {
            held.push((name, holder(&entry.value).into_owned()));
        }
    }
    Ok(held)
}

impl Lease {
    /// Lets a task renew the lease.
    pub fn keep(self) -> KeptLease {
        let (known, valid_until) = watch::channel(Some(self.valid_until));
        let stop = CancellationToken::new();
        let task = tokio::spawn(self.keep_renewing(known, stop.clone()));
        KeptLease { valid_until, stop, task }
    }

    async fn keep_renewing(mut self, known: watch::Sender<Option<Duration>>, stop: CancellationToken) {
        let _held = LEASE_HELD.with(&[self.name.split('.').next().unwrap_or_default()]).hold();
        loop {
            tokio::select! {
                () = sleep((self.valid_until + renew_every()).saturating_sub(ttl() + since_start())) => {}
                () = stop.cancelled() => return self.release().await,
            }
            if let Err(Lost) = self.renew().await {
                known.send_replace(None);
                return;
            }
            known.send_replace(Some(self.valid_until));
        }
    }

    /// Renews the lease. While NATS does not answer the lease stays what it was.
    async fn renew(&mut self) -> Result<(), Lost> {
        let sent = since_start();
        let update = self.leases.bucket.update(&self.name, self.leases.value.clone(), self.revision);
        match timeout(renew_every(), update).await {
            Ok(Ok(revision)) => {
                (self.revision, self.valid_until) = (revision, sent + ttl());
                Ok(())
            }
            // Where only the answer was lost, the next renewal finds a wrong revision.
            Err(_) => {
                tracing::warn!(lease = self.name, "NATS does not answer to the renewal of the lease");
                Ok(())
            }
            Ok(Err(error)) if error.kind() == UpdateErrorKind::WrongLastRevision => self.take_back().await,
            Ok(Err(error)) => {
                tracing::warn!(lease = self.name, error = explain(&error), "cannot renew the lease");
                sleep(renew_every() / 4).await;
                Ok(())
            }
        }
    }

    /// A wrong revision means our own renewal whose answer was lost, another process, or an entry that expired. An expired one
    /// is lost too, though nobody holds it: somebody may have held it meanwhile, done the work and given it up.
    async fn take_back(&mut self) -> Result<(), Lost> {
        match self.leases.bucket.entry(&self.name).await {
            Ok(Some(entry)) if entry.operation == Operation::Put && entry.value == self.leases.value => {
                // Until when it lasts is not known; the next renewal, which comes at once, tells.
                self.revision = entry.revision;
                Ok(())
            }
            Ok(_) => Err(Lost),
            Err(_) => Ok(()),
        }
    }

    /// Gives the lease up, so that others need not wait for its end.
    async fn release(self) {
        if let Err(error) = self.leases.bucket.delete_expect_revision(&self.name, Some(self.revision)).await {
            tracing::debug!(lease = self.name, error = explain(&error), "the lease was not released; it expires");
        }
    }
}

impl KeptLease {
    /// Whether nobody else has taken the lease, as far as is known.
    pub fn is_held(&self) -> bool {
        self.valid_until.borrow().is_some()
    }

    /// Ends when somebody else has taken the lease.
    pub async fn lost(&self) {
        let _ = self.valid_until.clone().wait_for(Option::is_none).await;
    }

    /// Whether nobody else can hold the lease at this moment, counted from before its last renewal was sent, by a clock
    /// that runs while the machine sleeps. Where that is in doubt it waits for the next renewal.
    pub async fn confirm(&self) -> bool {
        let certain = |until: &Option<Duration>| until.is_none_or(|until| since_start() < until);
        let mut known = self.valid_until.clone();
        known.wait_for(certain).await.is_ok_and(|until| until.is_some())
    }

    /// Gives the lease up.
    pub async fn release(mut self) {
        self.stop.cancel();
        let _ = (&mut self.task).await;
    }
}

impl Drop for KeptLease {
    /// Whoever is gone without giving it up, as by a panic, does not keep others from the work.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The name in the value of a lease.
fn holder(value: &[u8]) -> Cow<'_, str> {
    let name = value.split(|byte| char::from(*byte) == SEPARATOR).next().unwrap_or_default();
    String::from_utf8_lossy(name)
}
