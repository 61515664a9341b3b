//! A node: the adapters that its roles share, and the parts of each role.

mod connect;
mod options;
mod writing;

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use action::{Actions, client::Client, executions::ExecutionIndex};
use axum::Router;
use base::{explain::explain, health::Health, id::Ids};
use command::{
    Challenges, Commands, LastLogin, Registrations,
    forward::{self, forwarding},
    internal::Taker,
    reaction::delivery::Patience,
    writer::Handle,
};
pub(crate) use connect::connect;
use connect::{ConnectError, renewing};
use domain::{
    address::Allowed,
    log_class::{LogClass, OfEach},
    object_limits::ObjectLimits,
};
use edge::{
    admission::{Edge, ReadModels},
    caller::{External, SystemUsers},
    consistency::Tokens,
    internal::Internal,
    seats::Seats,
};
use eventlog::{
    assets::Assets, blocks::Blocks, durability::Durability, flow::Flow, lease::Leases, log::Log, once::Once,
    tries::Tries,
};
use index::{Indexes, Remote};
pub(crate) use options::{NodeOptions, ServingOptions};
use projector::{Indexing, Joint, Projector};
use query::{
    Queries, SearchBounds,
    operate::{self, Nodes, Writes},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use view::{
    database::{AUDITS, Database, Pools},
    directory::{Directory, Sources},
    ended::Ended,
    keyring::Keyring,
    persons::Persons,
    progress::Progress,
    schema,
    settings::SettingsIndex,
};

use crate::{
    Failure, cli,
    data_dir::MasterKeyFile,
    external::external,
    management::Measuring,
    master_key::{self, proof::prove},
    presence,
    serving::built,
    sole::Sole,
};

/// The only shard.
pub(crate) const SHARD: u16 = 0;
/// Connections for projections; each holds one at a time.
const PROJECTOR_CONNECTIONS: usize = 4;
/// Connections for generations that nobody reads, and one for comparing them.
const BESIDE_CONNECTIONS: usize = 3;

/// The error where no flag names the NATS server.
pub(crate) const NO_NATS: &str = "--nats-url is missing: give the address of the NATS server that holds the log";

/// The connections of every node: the logs, the leases and Postgres.
pub(crate) struct Adapters {
    /// The log `EVENTS`, which is stored for ever.
    pub(crate) log: Log,
    /// The log `SESSIONS`, which ages out.
    pub(crate) sessions: Log,
    pub(crate) pools: Pools,
    pub(crate) remote: Remote,
    pub(crate) health: Health,
    clients: [(&'static str, async_nats::Client); 2],
    leases: Leases,
    once: Once,
    flow: Flow,
    tries: Tries,
    assets: Assets,
    blocks: Blocks,
    accepts_lost_keys: bool,
    replicas: usize,
    durability: Durability,
    postgres_url: String,
    /// The claim of its name and number.
    pub(crate) sole: Sole,
    /// Whether this node may write the log.
    writes: bool,
}

/// A node that serves.
pub(crate) struct Node {
    pub(crate) adapters: Adapters,
    /// The master key, until it is proved to be the one of the log.
    unproved: Option<MasterKeyFile>,
    pub(crate) keyring: Keyring,
    /// The keys of people.
    pub(crate) persons: Persons,
    pub(crate) ids: Arc<Ids>,
    pub(crate) directory: Directory,
    /// What was deactivated or removed.
    pub(crate) ended: Ended,
    /// The settings of every context.
    settings: SettingsIndex,
    pub(crate) progress: Progress,
    external: External,
    pub(crate) actions: Actions,
    patience: Patience,
    system_users: SystemUsers,
    tail_limit: usize,
    object_limits: ObjectLimits,
    targets: Arc<Allowed>,
    dns_server: Option<SocketAddr>,
    searches: SearchBounds,
}

impl Adapters {
    /// Connects to NATS and Postgres, checks that the log is safe there, and prepares the read models' schemas.
    pub(crate) async fn connect(options: NodeOptions) -> Result<Self, Failure> {
        let durability = durability(&options.nats);
        let connect = async |name: &str| connect(&options.nats, &options.nats_url, options.role, name).await;
        let client = connect(&options.name).await?;
        let sole = Sole::claim(&client, SHARD, options.role, &options.name, options.number).await?;
        if options.writes {
            durability.check().await?;
        }
        let replicas = usize::from(options.nats.nats_replicas);
        let reading = connect(&format!("{}, reading", options.name)).await?;
        let clients = [("main", client.clone()), ("reading", reading.clone())];
        let open = async |class| {
            let log = Log::open(client.clone(), class, SHARD, replicas).await?;
            log.read_through(reading.clone()).await
        };
        let (log, sessions) = (open(LogClass::Events).await?, open(LogClass::Sessions).await?);
        let leases = Leases::open(log.context(), options.role, &options.name, replicas, renewing(&options)).await?;
        let leases = if options.is_alone { leases.alone() } else { leases };
        let pools = Pools::new(&options.postgres_url)?;
        schema::prepare(&pools.reads).await.map_err(|error| ConnectError::Postgres(explain(&error)))?;
        let remote = Remote::open(log.context(), replicas).await?;
        let once = Once::open(log.context(), replicas).await?;
        let flow = Flow::open(log.context(), replicas).await?;
        let tries = Tries::open(log.context(), replicas).await?;
        let assets = Assets::open(log.context(), replicas).await?;
        let blocks = Blocks::open(log.context(), replicas).await?;
        sole.settle(options.stopping).await?;
        presence::announce(log.client(), SHARD, options.role, options.name.clone(), options.health.clone());
        let NodeOptions { health, postgres_url, writes, accepts_lost_keys, .. } = options;
        Ok(Self {
            log,
            sessions,
            pools,
            remote,
            health,
            clients,
            leases,
            once,
            flow,
            tries,
            assets,
            blocks,
            accepts_lost_keys,
            replicas,
            durability,
            postgres_url,
            sole,
            writes,
        })
    }

    /// Returns both logs.
    pub(crate) fn logs(&self) -> OfEach<Log> {
        OfEach { events: self.log.clone(), sessions: self.sessions.clone() }
    }

    /// Starts measuring what reports no metrics of its own: connections, these indexes, and projections with their
    /// pool.
    pub(crate) fn measure(&self, projector: Option<&Projector>, indexes: Indexes) {
        let of_projector = projector.into_iter().flat_map(|projector| [&projector.database, &projector.beside]);
        let databases = self.pools.all().into_iter().chain(of_projector);
        let measuring = Measuring {
            health: self.health.clone(),
            logs: self.logs(),
            shard: SHARD,
            clients: self.clients.clone(),
            databases: databases.cloned().collect(),
            database: self.pools.measure.clone(),
            indexes,
            lagging_since: HashMap::new(),
            counted_at: Instant::now(),
        };
        tokio::spawn(measuring.run());
    }

    /// Returns the keys of people, which data keys of the keyring wrap.
    fn persons(&self, keyring: &Keyring) -> Persons {
        let (blocks, keyring) = (self.blocks.clone(), keyring.clone());
        let persons = Persons::new(blocks, keyring, self.pools.reactions.clone(), self.log.clone(), SHARD);
        persons.accepting_lost(self.accepts_lost_keys)
    }

    /// Returns the projector, with its search indexes in a folder.
    pub(crate) fn projector(
        &self,
        keyring: &Keyring,
        read_models: &cli::ReadModels,
        folder: PathBuf,
    ) -> Result<Projector, Failure> {
        let database = Database::for_read_models(&self.postgres_url, "project", PROJECTOR_CONNECTIONS)?;
        let beside = Database::for_read_models(&self.postgres_url, "generations", BESIDE_CONNECTIONS)?;
        let grace = Duration::from_secs(read_models.index_grace);
        let indexing = Indexing { folder, remote: self.remote.clone(), grace };
        let (logs, leases, health) = (self.logs(), self.leases.clone(), self.health.clone());
        let persons = self.persons(keyring);
        let (scrub_every, joint) = (Duration::from_secs(read_models.scrub_every), Joint::default());
        Ok(Projector { logs, leases, database, beside, persons, indexing, scrub_every, health, joint, shard: SHARD })
    }
}

impl Node {
    /// Makes a node with these adapters.
    pub(crate) async fn new(
        adapters: Adapters,
        options: ServingOptions,
        file: &MasterKeyFile,
    ) -> Result<Self, Failure> {
        let is_proved = prove(&adapters.log, &adapters.pools.keys, file).await?;
        let progress = Progress::listen(&adapters.log.client(), SHARD).await?;
        let keyring = Keyring::new(file.keys.clone(), adapters.pools.keys.clone());
        tokio::spawn(master_key::keep_current(keyring.clone(), file.clone()));
        let targets = Arc::new(options.targets);
        let executions = ExecutionIndex::open(adapters.log.clone(), &adapters.pools.admission, SHARD).await?;
        let ended = Ended::open(adapters.logs(), &adapters.pools.admission, SHARD, options.silence).await?;
        let settings = SettingsIndex::open(adapters.log.clone(), &adapters.pools.admission, SHARD).await?;
        let sources =
            Sources { log: adapters.log.clone(), progress: progress.clone(), ended: ended.position().clone() };
        let database = adapters.pools.admission.clone();
        let directory = Directory::open(sources, database, SHARD, options.directory_size).await?;
        let client = Arc::new(Client::new(targets.clone(), keyring.clone())?);
        Ok(Self {
            unproved: (!is_proved).then(|| file.clone()),
            actions: Actions { executions, client },
            patience: options.patience,
            system_users: options.system_users,
            persons: adapters.persons(&keyring),
            keyring,
            ids: Arc::new(Ids::new(options.number)),
            ended,
            settings,
            directory,
            progress,
            external: external(&options.external),
            tail_limit: options.tail_limit,
            object_limits: options.object_limits,
            targets,
            dns_server: options.dns_server,
            searches: options.searches,
            adapters,
        })
    }

    /// Returns the edge, which admits requests. It waits for the first record of the log, which has the log's id; where
    /// another node writes, until the log is set up.
    pub(crate) async fn edge(&self) -> Result<Arc<Edge>, Failure> {
        let Adapters { log, pools, writes, .. } = &self.adapters;
        let record = loop {
            match log.last().await? {
                Some(record) if *writes || record.position().sequence > 0 => break record,
                _ => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        };
        if let Some(file) = &self.unproved {
            prove(log, &pools.keys, file).await?;
        }
        let tokens = Tokens::new(self.keyring.clone(), SHARD, &record.commit.log_id, record.commit.incarnation);
        let (directory, ended, settings) = (self.directory.clone(), self.ended.clone(), self.settings.clone());
        Ok(Arc::new(Edge::new(
            ReadModels { directory, ended, settings },
            tokens,
            self.external.clone(),
            self.system_users.clone(),
            self.actions.clone(),
        )))
    }

    /// Returns the operations of a command node. Requests that arrive while another node writes are forwarded to it.
    /// Requests that others forward to this node are served by tasks of their own, which end when it stops.
    pub(crate) async fn commands(
        &self,
        edge: &Arc<Edge>,
        writer: Handle,
        tasks: &TaskTracker,
        stopping: &CancellationToken,
    ) -> Result<Router, Failure> {
        let phases = writer.phases();
        let commands = Arc::new(Commands {
            writer,
            audit: self.adapters.pools.audit.clone(),
            indexes: self.adapters.remote.clone(),
            keyring: self.keyring.clone(),
            persons: self.persons.clone(),
            tries: self.adapters.tries.clone(),
            assets: self.adapters.assets.clone(),
            last_login: LastLogin::default(),
            registrations: Registrations::default(),
            ids: self.ids.clone(),
            tokens: edge.tokens.clone(),
            progress: self.progress.clone(),
            targets: self.targets.clone(),
            pairs: Seats::new(1),
            // Half of the processors are left for everything else, and more hashes at a time might need too much
            // memory.
            passwords: Seats::new(available_parallelism().map_or(1, |processors| processors.get() / 2).clamp(1, 8)),
            challenges: Challenges::new(self.targets.clone(), self.dns_server),
            actions: self.actions.clone(),
            settings: self.settings.clone(),
            ended: self.ended.clone(),
            external: self.external.clone(),
            operations: built(),
        });
        let routes = command::api::routes(Router::new(), edge, &commands);
        let Adapters { log, leases, .. } = &self.adapters;
        let taker = Taker::new(commands.clone(), log.client(), SHARD);
        tasks.spawn(taker.work(tasks.clone(), stopping.clone()));
        let bus = forward::Bus { client: log.client(), shard: SHARD, name: leases.holder().to_owned() };
        let scope = forward::TaskScope { tasks, stopping: stopping.clone() };
        Ok(forwarding(routes, edge, bus, phases, scope).await?)
    }

    /// Returns the operations of a query node, and the pages of operators, whose commands `writes` executes.
    pub(crate) async fn queries(&self, edge: &Arc<Edge>, indexes: Indexes, writes: Writes) -> Result<Router, Failure> {
        let Pools { reads, audit, .. } = self.adapters.pools.clone();
        let (progress, tokens) = (self.progress.clone(), edge.tokens.clone());
        let seats = std::thread::available_parallelism().map_or(2, usize::from) * 2;
        let (searches, audits) = (Seats::new(seats), Seats::new(AUDITS));
        let (ended, settings) = (self.ended.clone(), self.settings.clone());
        let (operations, bounds) = (built(), self.searches);
        let queries =
            Queries { reads, audit, progress, ended, settings, indexes, tokens, searches, audits, bounds, operations };
        let queries = Arc::new(queries);
        let routes = query::api::routes(Router::new(), edge, &queries);
        let nodes = Nodes::default();
        presence::listen(&self.adapters.log.client(), SHARD, nodes.clone()).await?;
        let (edge, keyring, once) = (edge.clone(), self.keyring.clone(), self.adapters.once.clone());
        let parts = operate::PageDependencies { edge, keyring, once, writes, nodes };
        Ok(routes.clone().merge(operate::routes(&queries, routes, parts)))
    }

    /// Returns the way to the writer from a node that does not write.
    pub(crate) fn elsewhere(&self) -> Writes {
        let log = &self.adapters.log;
        let bus = operate::Bus { client: log.client(), context: log.context().clone(), shard: SHARD };
        Writes::Elsewhere(Box::new(bus))
    }

    /// Returns the endpoints of an OpenID Connect node.
    pub(crate) fn oidc(&self, edge: &Arc<Edge>) -> Router {
        let internal = Internal::new(self.adapters.log.client(), SHARD, self.keyring.clone());
        let Adapters { once, flow, assets, sessions, pools, .. } = &self.adapters;
        oidc::routes(oidc::OidcDependencies {
            edge: edge.clone(),
            keyring: self.keyring.clone(),
            once: once.clone(),
            flow: flow.clone(),
            assets: assets.clone(),
            internal,
            sessions: sessions.clone(),
            database: pools.admission.clone(),
            progress: self.progress.clone(),
        })
    }
}

/// Returns the check that NATS syncs what it acknowledges.
pub(crate) fn durability(flags: &cli::Nats) -> Durability {
    Durability {
        monitor_url: flags.nats_monitor_url.clone(),
        system_url: flags.nats_system_url.clone(),
        replicas: usize::from(flags.nats_replicas),
        unsafe_durability: flags.unsafe_durability,
    }
}
