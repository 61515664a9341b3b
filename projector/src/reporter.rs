//! Reports the state and the progress of a work unit, and how long its batches take.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use base::{
    clock,
    health::{Health, Reached, State},
    metric::{
        Gauge, Histogram,
        catalog::{
            FENCE_REJECTIONS, PROJECTION_APPLY, PROJECTION_HEARTBEAT, PROJECTION_LAG_EVENTS, PROJECTION_LAG_SECONDS,
            PROJECTION_PARKED, PROJECTION_SEQUENCE, PROJECTION_STALLED,
        },
    },
};
use tokio::time::sleep;
use view::projection::Projection;

/// How long a unit without a lease waits before it reports standby: a free lease is taken sooner.
const FREE_LEASE: Duration = Duration::from_secs(1);

/// Why a unit has stopped, as in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An event cannot be processed, or too many.
    Event,
    /// The log cannot be trusted, or is another one.
    Log,
    /// NATS fails.
    Nats,
    /// Postgres fails.
    Postgres,
    /// The search index cannot be written.
    Index,
    /// Another worker took it over.
    Fenced,
}

/// Reports for one unit, to health and metrics.
#[derive(Debug)]
pub(crate) struct Reporter {
    health: Health,
    projection: &'static str,
    part: String,
    is_stalled: AtomicBool,
    is_outdated: AtomicBool,
    /// Whether it was ever outdated.
    was_outdated: AtomicBool,
    sequence: &'static Gauge,
    /// `None` for a generation that nobody reads: its state says nothing about the health of the node, and nobody would
    /// update the metric once it is dropped.
    heartbeat: Option<&'static Gauge>,
    apply: &'static Histogram,
}

impl Cause {
    const ALL: [Self; 6] = [Self::Event, Self::Log, Self::Nats, Self::Postgres, Self::Index, Self::Fenced];

    fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Log => "log",
            Self::Nats => "nats",
            Self::Postgres => "postgres",
            Self::Index => "index",
            Self::Fenced => "fenced",
        }
    }
}

impl Reporter {
    /// A reporter of a unit that waits for its lease.
    pub(crate) fn new(health: &Health, projection: &Projection, shard: u16) -> Self {
        let labels = [projection.name, &projection.version.to_string(), &shard.to_string()];
        let is_read = !projection.is_beside();
        if is_read {
            PROJECTION_LAG_EVENTS.with(&labels);
            PROJECTION_LAG_SECONDS.with(&labels);
        }
        let reporter = Self {
            health: health.clone(),
            projection: projection.name,
            part: projection.part(),
            is_stalled: AtomicBool::new(false),
            is_outdated: AtomicBool::new(false),
            was_outdated: AtomicBool::new(false),
            sequence: PROJECTION_SEQUENCE.with(&labels),
            heartbeat: is_read.then(|| PROJECTION_HEARTBEAT.with(&labels)),
            apply: PROJECTION_APPLY.with(&[projection.name]),
        };
        reporter.show_stall(None);
        reporter.is_now(State::Standby);
        reporter
    }

    fn is_now(&self, state: State) {
        if self.heartbeat.is_some() {
            self.health.report(&self.part, state);
        }
    }

    /// Reports that the unit is on standby when the lease is not free at once. It never ends.
    pub(crate) async fn stand_by(&self) -> Infallible {
        sleep(FREE_LEASE).await;
        self.stalled_by(None);
        // The holder of the lease measures it.
        if self.heartbeat.is_some() {
            PROJECTION_PARKED.with(&[self.projection]).set_integer(0);
        }
        // An outdated unit stays so: it cannot stand in for another one.
        if !self.is_outdated.load(Relaxed) {
            self.is_now(State::Standby);
        }
        self.health.clear_position(&self.part);
        std::future::pending().await
    }

    /// Reports that the unit has begun, and where. After a stall it is not known yet whether it gets any further.
    pub(crate) fn has_begun(&self, reached: Reached) {
        if !self.is_stalled.load(Relaxed) {
            self.works(reached);
        }
    }

    /// Reports that the unit works, and how far it is.
    pub(crate) fn works(&self, reached: Reached) {
        self.stalled_by(None);
        self.is_outdated.store(false, Relaxed);
        self.is_now(State::Ok);
        self.health.report_position(&self.part, reached);
        self.sequence.set_integer(reached.sequence);
        if let Some(heartbeat) = self.heartbeat {
            heartbeat.set(clock::now().as_duration().as_secs_f64());
        }
    }

    /// Reports how long a batch took.
    pub(crate) fn applied(&self, took: Duration) {
        self.apply.record_time(took);
    }

    /// Reports why the unit has stopped.
    pub(crate) fn stalls(&self, cause: Cause, reason: String) {
        if cause == Cause::Fenced && self.heartbeat.is_some() {
            FENCE_REJECTIONS.with(&["projector"]).count();
        }
        self.stalled_by(Some(cause));
        self.is_now(State::Stalled(reason));
    }

    /// Reports that only a newer version of the platform can go on. Returns whether that was so before: a newer one has
    /// not taken over, or is gone again.
    pub(crate) fn is_outdated(&self, reason: String) -> bool {
        self.stalled_by(Some(Cause::Event));
        self.is_outdated.store(true, Relaxed);
        self.is_now(State::Outdated(reason));
        self.was_outdated.swap(true, Relaxed)
    }

    fn stalled_by(&self, cause: Option<Cause>) {
        // A working unit reports this with every batch.
        if self.is_stalled.swap(cause.is_some(), Relaxed) || cause.is_some() {
            self.show_stall(cause);
        }
    }

    fn show_stall(&self, cause: Option<Cause>) {
        if self.heartbeat.is_none() {
            return;
        }
        for known in Cause::ALL {
            PROJECTION_STALLED.with(&[self.projection, known.name()]).set_bool(Some(known) == cause);
        }
    }
}
