//! Reports how a work unit is, how far it is, and how long its batches take.

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

/// After how long without a lease a unit stands by: a free lease is had sooner.
const FREE_LEASE: Duration = Duration::from_secs(1);

/// Why a unit does not go on, as metrics have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An event cannot be processed, or too many.
    Event,
    /// The log cannot be trusted, or is another one.
    Log,
    /// NATS does not do what it is asked.
    Nats,
    /// Postgres does not do what it is asked.
    Postgres,
    /// The search index cannot be kept.
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
    /// Whether it ever was.
    was_outdated: AtomicBool,
    sequence: &'static Gauge,
    /// None of a generation that nobody reads: how that is says nothing of how well the node is, and once it is dropped nobody would be
    /// there to say so.
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
    /// A unit that waits for its lease.
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
        // Who has the lease measures it.
        if self.heartbeat.is_some() {
            PROJECTION_PARKED.with(&[self.projection]).set_integer(0);
        }
        // One that is outdated stays so: it is no stand-in for anybody.
        if !self.is_outdated.load(Relaxed) {
            self.is_now(State::Standby);
        }
        self.health.leave(&self.part);
        std::future::pending().await
    }

    /// Reports that the unit has begun, and where. One that stalled before has not shown yet that it gets any further.
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
        self.health.stand(&self.part, reached);
        self.sequence.set_integer(reached.sequence);
        if let Some(heartbeat) = self.heartbeat {
            heartbeat.set(clock::now().as_duration().as_secs_f64());
        }
    }

    /// Reports how long a batch took.
    pub(crate) fn applied(&self, took: Duration) {
        self.apply.record_time(took);
    }

    /// Reports why the unit does not go on.
    pub(crate) fn stalls(&self, cause: Cause, reason: String) {
        if cause == Cause::Fenced && self.heartbeat.is_some() {
            FENCE_REJECTIONS.with(&["projector"]).count();
        }
        self.stalled_by(Some(cause));
        self.is_now(State::Stalled(reason));
    }

    /// Reports that only a newer version of the platform can go on, and returns whether it did before: a newer one has not taken over, or
    /// is gone again.
    pub(crate) fn is_outdated(&self, reason: String) -> bool {
        self.stalled_by(Some(Cause::Event));
        self.is_outdated.store(true, Relaxed);
        self.is_now(State::Outdated(reason));
        self.was_outdated.swap(true, Relaxed)
    }

    fn stalled_by(&self, cause: Option<Cause>) {
        // A unit that works says so with every batch.
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
