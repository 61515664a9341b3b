//! Event executions: a relay on the log turns events into deliveries in a queue, and the node that holds the lease
//! delivers them, in order per aggregate and target, again and again until they succeed or are given up.
//!
//! A delivery is in the queue before the relay moves on, and leaves it only when it was answered with success or is
//! stored as failed. So each is made at least once, under the same id, and never again because read models are rebuilt.

mod attempts;
mod mender;
mod payload;
mod queue;
mod relay;
mod room;
mod target_worker;
mod unknown;

use std::{convert::Infallible, ops::ControlFlow, sync::Arc, time::Duration};

use action::Actions;
pub use attempts::Attempts;
use base::explain::explain;
use eventlog::{
    lease::{Lease, Leases},
    log::Log,
    unit::{Unit, supervise, while_held},
};
pub use queue::{Failed, QueuedDelivery, list};
use tokio_util::sync::CancellationToken;
use view::{database::Database, persons::Persons};

pub use self::unknown::UnknownTypes;
use self::{mender::Mender, queue::Queue, relay::Relay, room::Room, target_worker::TargetWorkers};

/// How long deliveries pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// What deliveries need.
#[derive(Clone)]
pub struct Deliveries {
    /// Calls targets.
    pub actions: Actions,
    /// The log.
    pub log: Log,
    /// The leases; the node that holds the lease of the deliveries makes them.
    pub leases: Leases,
    /// The database with the history.
    pub database: Database,
    /// Decrypts personal data when a target is called.
    pub persons: Persons,
    /// How deliveries are retried.
    pub patience: Patience,
    /// The last attempts, which are written to Postgres.
    pub attempts: Attempts,
    /// The types of events that were received and that this build does not know.
    pub unknown: UnknownTypes,
    /// The shard.
    pub shard: u16,
    /// The number of servers that store the queue.
    pub replicas: usize,
}

/// How deliveries are retried.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How often a delivery is tried before it is given up.
    pub tries: u32,
    /// The pause after the first try. Each later pause is twice as long as the one before, up to five minutes.
    pub pause: Duration,
    /// How long a delivery that was given up is stored.
    pub kept: Duration,
}

/// How many days a delivery that was given up is stored by default.
pub const KEPT_DAYS: u32 = 30;

impl Default for Patience {
    fn default() -> Self {
        Self { tries: 10, pause: Duration::from_secs(1), kept: Duration::from_hours(24) * KEPT_DAYS }
    }
}

/// Creates the queue if there is none, for nodes that are not permitted to.
///
/// # Errors
/// When NATS does not answer.
pub async fn prepare(log: &Log, shard: u16, replicas: usize) -> Result<(), eventlog::log::LogFailure> {
    let opened = Queue::open(log.client(), shard, replicas).await;
    opened.map(drop).map_err(|failure| eventlog::log::LogFailure::Nats(failure.to_string()))
}

/// Why deliveries are interrupted.
#[derive(Debug, thiserror::Error)]
enum DeliveryFailure {
    #[error("NATS: {0}")]
    Nats(String),
    #[error(transparent)]
    Log(#[from] eventlog::log::LogFailure),
    #[error(transparent)]
    Definitions(#[from] action::executions::LoadFailure),
    #[error(transparent)]
    Checkpoint(#[from] super::checkpoint::CheckpointFailure),
    #[error("the log ended")]
    LogEnded,
    #[error("history lags the deliveries")]
    HistoryLags,
}

/// The prefix of the depth in the cause of an event.
const CAUSE: &str = "execution:";

/// Returns the cause of an event that was requested by a target's call which is nested this deep; empty for 0.
pub fn causation(depth: u32) -> String {
    if depth == 0 { String::new() } else { format!("{CAUSE}{depth}") }
}

/// Returns the depth that a cause contains, or 0.
fn depth(causation_id: &str) -> u32 {
    causation_id.strip_prefix(CAUSE).and_then(|depth| depth.parse().ok()).unwrap_or(0)
}

impl DeliveryFailure {
    fn nats(error: impl std::error::Error + 'static) -> Self {
        Self::Nats(explain(&error))
    }
}

/// The deliveries as work under a lease.
struct Work(Arc<Deliveries>);

impl Unit for Work {
    type End = Infallible;

    fn name(&self) -> String {
        format!("reaction.actions.{}", self.0.shard)
    }

    async fn work(&mut self, lease: &Lease, shutdown: &CancellationToken) -> ControlFlow<Infallible, Duration> {
        if let Some(Err(failure)) = while_held(self.0.serve(lease), lease, shutdown).await {
            tracing::warn!(error = explain(&failure), "events are not delivered at the moment");
        }
        ControlFlow::Continue(PAUSE)
    }
}

impl Deliveries {
    /// Delivers whenever this node holds the lease, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        let leases = self.leases.clone();
        supervise(&mut Work(Arc::new(self)), &leases, &shutdown).await;
    }

    async fn serve(self: &Arc<Self>, lease: &Lease) -> Result<Infallible, DeliveryFailure> {
        let begin = async {
            let queue = Queue::open(self.log.client(), self.shard, self.replicas).await?;
            let (workers, wake) = TargetWorkers::new(self.clone(), queue.clone(), queue.subjects().await?);
            let mender = Mender::new(self, queue.clone(), wake.clone());
            let room = Arc::new(Room::new(queue.counted().await?.used));
            let relay = Relay::begin(self, queue.clone(), room.clone(), wake).await?;
            let counting = relay::count(queue, relay.reporter.clone(), room);
            Ok::<_, DeliveryFailure>((workers, mender, relay, counting))
        };
        // In an unoptimised build these are larger than the stack of a thread.
        let (workers, mender, relay, counting) = lease.during(Box::pin(begin)).await?;
        tokio::select! {
            ended = Box::pin(relay.run(lease)) => ended,
            ended = Box::pin(workers.run()) => ended,
            ended = Box::pin(mender.run()) => Ok(ended),
            ended = counting => Ok(ended),
            ended = Box::pin(self.attempts.clone().run(&self.database)) => Ok(ended),
        }
    }
}
