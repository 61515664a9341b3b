//! The tasks of a node that may write: the writer, and the reactions that accompany it.

use command::{
    reaction::{
        Steps,
        assets::AssetSweeps,
        delivery::{Attempts, Deliveries, UnknownTypes},
        erasure::Erasures,
        purge::Purges,
        rotation::Rotations,
        session_end::SessionEnds,
        sweep::Sweeps,
    },
    writer::{Handle, Phase, Writer},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Adapters, Node, SHARD};

impl Node {
    /// Starts the writer. When it ends, for whatever reason, `shutdown` is cancelled.
    pub(crate) fn start_writer(
        &self,
        shutdown: &CancellationToken,
    ) -> (Handle, JoinHandle<Result<(), command::writer::WriterFailure>>) {
        let Adapters { log, pools, leases, durability, health, .. } = &self.adapters;
        let writer = Writer {
            logs: self.adapters.logs(),
            leases: leases.clone(),
            database: pools.history.clone(),
            progress: self.progress.clone(),
            durability: durability.clone(),
            ids: self.ids.clone(),
            health: health.clone(),
            shard: SHARD,
            tail_limit: self.tail_limit,
            object_limits: self.object_limits.clone(),
            record_limit: log.client().server_info().max_payload / 2,
        };
        let (handle, writing) = writer.start(shutdown.clone());
        let last = shutdown.clone().drop_guard();
        let watched = tokio::spawn(async move {
            let _last = last;
            writing.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
        });
        (handle, watched)
    }

    /// Starts delivering events to targets whenever no other node does. A node that takes over the log has enough to
    /// read, so deliveries begin only after that.
    fn start_deliveries(&self, writer: &Handle, shutdown: &CancellationToken) -> JoinHandle<()> {
        let Adapters { log, pools, leases, replicas, .. } = &self.adapters;
        let deliveries = Deliveries {
            actions: self.actions.clone(),
            log: log.clone(),
            leases: leases.clone(),
            database: pools.reactions.clone(),
            persons: self.persons.clone(),
            patience: self.patience,
            attempts: Attempts::default(),
            unknown: UnknownTypes::default(),
            shard: SHARD,
            replicas: *replicas,
        };
        let (mut phases, shutdown) = (writer.phases(), shutdown.clone());
        tokio::spawn(async move {
            let settled = phases.wait_for(|phase| matches!(phase, Phase::Active | Phase::Standby(Some(_))));
            let is_settled = tokio::select! {
                settled = settled => settled.is_ok(),
                () = shutdown.cancelled() => false,
            };
            if is_settled {
                deliveries.work(shutdown).await;
            }
        })
    }

    /// Starts all reactions, which work while this node writes or holds their lease, until `shutdown`.
    pub(crate) fn start_reactions(&self, writer: &Handle, shutdown: &CancellationToken) -> [JoinHandle<()>; 7] {
        [
            self.start_deliveries(writer, shutdown),
            self.start_sweeps(writer, shutdown),
            self.start_erasures(writer, shutdown),
            self.start_rotations(writer, shutdown),
            self.start_session_ends(writer, shutdown),
            self.start_purges(writer, shutdown),
            self.start_asset_sweeps(writer, shutdown),
        ]
    }

    /// Starts sweeping what refers to removed objects.
    fn start_sweeps(&self, writer: &Handle, shutdown: &CancellationToken) -> JoinHandle<()> {
        let Adapters { log, pools, replicas, .. } = &self.adapters;
        let (log, database, steps) = (log.clone(), pools.reactions.clone(), self.steps(writer));
        let settings = self.settings.clone();
        let sweeps = Sweeps { log, steps, database, settings, shard: SHARD, replicas: *replicas };
        tokio::spawn(sweeps.work(shutdown.clone()))
    }

    /// Starts destroying the keys of people who were removed.
    fn start_erasures(&self, writer: &Handle, shutdown: &CancellationToken) -> JoinHandle<()> {
        let Adapters { log, pools, .. } = &self.adapters;
        let (log, database, steps) = (log.clone(), pools.reactions.clone(), self.steps(writer));
        let erasures = Erasures { log, steps, database, persons: self.persons.clone(), shard: SHARD };
        tokio::spawn(erasures.work(shutdown.clone()))
    }

    /// Starts rotating signing keys.
    fn start_rotations(&self, writer: &Handle, shutdown: &CancellationToken) -> JoinHandle<()> {
        let (database, settings) = (self.adapters.pools.reactions.clone(), self.settings.clone());
        let rotations = Rotations { steps: self.steps(writer), ids: self.ids.clone(), database, settings };
        tokio::spawn(rotations.work(shutdown.clone()))
    }

    /// Starts ending the sessions of users who may not log in any more.
    fn start_session_ends(&self, writer: &Handle, shutdown: &CancellationToken) -> JoinHandle<()> {
        let Adapters { pools, replicas, .. } = &self.adapters;
        let (logs, database, steps) = (self.adapters.logs(), pools.reactions.clone(), self.steps(writer));
        let ends = SessionEnds { logs, steps, database, shard: SHARD, replicas: *replicas };
        tokio::spawn(ends.work(shutdown.clone()))
    }

    /// Starts purging records that have aged out from the log of sessions.
    fn start_purges(&self, writer: &Handle, shutdown: &CancellationToken) -> JoinHandle<()> {
        let log = self.adapters.logs().sessions;
        let purges =
            Purges { log, steps: self.steps(writer), database: self.adapters.pools.reactions.clone(), shard: SHARD };
        tokio::spawn(purges.work(shutdown.clone()))
    }

    /// Starts removing pictures and fonts that no branding uses any more.
    fn start_asset_sweeps(&self, writer: &Handle, shutdown: &CancellationToken) -> JoinHandle<()> {
        let (assets, settings) = (self.adapters.assets.clone(), self.settings.clone());
        tokio::spawn(AssetSweeps { assets, steps: self.steps(writer), settings }.work(shutdown.clone()))
    }

    fn steps(&self, writer: &Handle) -> Steps {
        Steps { writer: writer.clone(), keyring: self.keyring.clone() }
    }
}
