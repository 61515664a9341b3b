//! The lease of a process, which all of its units depend on: what is known of it, and the units.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use base::{
    clock::since_start,
    fault,
    metric::{GaugeGuard, catalog::LEASE_HELD},
    secret,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::entries::{ProcessKey, process_key};

/// Returns the time without progress after which a unit is left to others.
pub(super) fn liveness_timeout() -> Duration {
    fault::shortened_lease(Duration::from_secs(10), Duration::from_secs(5))
}

/// This process as a holder of leases.
#[derive(Debug)]
pub(super) struct Process {
    role: &'static str,
    pub(super) name: String,
    /// The lease. It ends only while `units` is locked, so that every unit in there depends on it.
    tenure: watch::Sender<Option<Tenure>>,
    units: Mutex<Vec<Arc<HeldUnit>>>,
    /// The number of tasks that are about to take a unit.
    wanting: AtomicUsize,
    /// Notified when the lease is wanted, and when a unit is given up.
    wanted: Notify,
    given_up: Notify,
}

/// The lease of this process, as far as it knows.
#[derive(Debug, Clone)]
pub(super) struct Tenure {
    pub(super) process: ProcessKey,
    /// The end by [`since_start`], counted from before the last renewal was sent.
    pub(super) valid_until: Duration,
}

/// A unit that this process holds.
#[derive(Debug)]
pub(super) struct HeldUnit {
    pub(super) unit: String,
    pub(super) process: ProcessKey,
    pub(super) epoch: u64,
    /// The revision of its entry.
    pub(super) revision: u64,
    /// When it last signalled progress, in milliseconds by [`since_start`].
    sign: AtomicU64,
    /// Cancelled when somebody else may hold it.
    pub(super) lost: CancellationToken,
    /// Cancelled when others need not wait for it any longer, or this process can do nothing more about it.
    pub(super) freed: CancellationToken,
    _counted: GaugeGuard,
}

/// Has the lease renewed until it is dropped, even though nothing is held yet.
pub(super) struct RenewalGuard<'a>(&'a Process);

impl HeldUnit {
    pub(super) fn new(unit: &str, process: ProcessKey, epoch: u64, revision: u64) -> Self {
        let held = Self {
            unit: unit.to_owned(),
            process,
            epoch,
            revision,
            sign: AtomicU64::new(0),
            lost: CancellationToken::new(),
            freed: CancellationToken::new(),
            _counted: LEASE_HELD.with(&[unit.split('.').next().unwrap_or_default()]).hold(),
        };
        held.tick();
        held
    }

    /// Signals progress.
    pub(super) fn tick(&self) {
        self.sign.store(milliseconds(since_start()), Relaxed);
    }

    fn is_silent(&self) -> bool {
        milliseconds(since_start()).saturating_sub(self.sign.load(Relaxed)) > milliseconds(liveness_timeout())
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Process {
    pub(super) fn new(role: &'static str, name: &str) -> Self {
        Self {
            role,
            name: name.to_owned(),
            tenure: watch::Sender::new(None),
            units: Mutex::default(),
            wanting: AtomicUsize::new(0),
            wanted: Notify::new(),
            given_up: Notify::new(),
        }
    }

    /// Watches the lease; `None` while there is none.
    pub(super) fn tenures(&self) -> watch::Receiver<Option<Tenure>> {
        self.tenure.subscribe()
    }

    /// Has the lease renewed until the guard is dropped, or a unit is held.
    pub(super) fn keep_renewed(&self) -> RenewalGuard<'_> {
        self.wanting.fetch_add(1, SeqCst);
        self.wanted.notify_one();
        RenewalGuard(self)
    }

    /// Whether the lease has to be renewed.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanting.load(SeqCst) > 0 || !self.units().is_empty()
    }

    /// Waits until the lease is wanted.
    pub(super) async fn requested(&self) {
        while !self.is_wanted() {
            self.wanted.notified().await;
        }
    }

    /// Returns the name of an entry for a new tenure.
    pub(super) fn new_key(&self) -> ProcessKey {
        process_key(self.role, &hex::encode(secret::random::<8>()))
    }

    /// Notes that the lease was taken or renewed.
    pub(super) fn note_renewal(&self, process: &ProcessKey, valid_until: Duration) {
        self.tenure.send_replace(Some(Tenure { process: process.clone(), valid_until }));
    }

    /// Notes that the lease has ended, and every unit with it.
    pub(super) fn note_end(&self) {
        let mut units = self.units();
        self.tenure.send_replace(None);
        for held in units.drain(..) {
            held.lost.cancel();
            held.freed.cancel();
        }
    }

    /// Whether this is the tenure in which the unit was taken.
    pub(super) fn is_of(&self, held: &HeldUnit) -> bool {
        self.tenure.borrow().as_ref().is_some_and(|tenure| tenure.process == held.process)
    }

    /// Notes that a unit is held; `None` if the lease has ended since it was taken.
    pub(super) fn add(&self, held: HeldUnit) -> Option<Arc<HeldUnit>> {
        let mut units = self.units();
        if !self.is_of(&held) {
            return None;
        }
        let held = Arc::new(held);
        units.push(held.clone());
        Some(held)
    }

    /// Gives a unit up.
    pub(super) fn give_up(&self, held: &HeldUnit) {
        held.lost.cancel();
        self.given_up.notify_one();
    }

    /// Waits until a unit may have been given up.
    pub(super) async fn wait_released(&self) {
        self.given_up.notified().await;
    }

    /// Removes and returns the units that others may take: those that were given up, and those without progress.
    pub(super) fn take_released(&self) -> Vec<Arc<HeldUnit>> {
        let over = self.units().extract_if(.., |held| held.lost.is_cancelled() || held.is_silent()).collect::<Vec<_>>();
        for silent in over.iter().filter(|held| !held.lost.is_cancelled()) {
            tracing::error!(
                lease = silent.unit,
                "what is done under the lease gives no sign of life and is left to others"
            );
            silent.lost.cancel();
        }
        over
    }

    fn units(&self) -> MutexGuard<'_, Vec<Arc<HeldUnit>>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RenewalGuard<'_> {
    fn drop(&mut self) {
        self.0.wanting.fetch_sub(1, SeqCst);
    }
}
