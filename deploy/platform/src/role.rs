//! A process of a single role.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use base::secret;
use edge::{admission::Edge, caller::SystemUsers};
use index::Indexes;
use server::connections;
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use view::keyring::Keyring;

use crate::{
    Failure, cli,
    data_dir::MasterKeyFile,
    external::external_url,
    management::Managed,
    master_key::{self, proof::prove},
    node::{Adapters, NO_NATS, Node, NodeOptions, SHARD, ServingOptions},
    serving::{ServingPort, finished, limits, listen},
    system_user, telemetry,
};

/// The error where no flag names the file of the master key.
const NO_MASTER_KEY: &str = "--master-key-file is missing: the file with the key that the log was set up with";

/// How long a writer may take to end.
const END_LIMIT: Duration = Duration::from_secs(8);
/// How long answers to forwarded requests of other nodes may take at the end.
const PASSED_ON_LIMIT: Duration = Duration::from_secs(2);
/// The age from which an unused temporary folder is removed.
const OLD: Duration = Duration::from_hours(1);

/// The roles that have a process of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Command,
    Query,
    Oidc,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Query => "query",
            Self::Oidc => "oidc",
        }
    }
}

/// Runs the role until `shutdown`.
pub(crate) async fn run(role: Role, mut options: Box<cli::Role>, shutdown: CancellationToken) -> Result<(), Failure> {
    let name = name(&mut options.worker);
    let exporting = telemetry::start_node(role.name(), &name, &options.worker.observing)?;
    let managed = Managed::open(&options.worker.observing, role.name(), &name, &shutdown).await?;
    let delay = Duration::from_secs(options.serving.drain_delay);
    let ended = run_managed(role, *options, &managed, later(shutdown, delay)).await;
    if let Some(exporting) = exporting {
        exporting.end().await;
    }
    ended
}

/// Returns a token that is cancelled some time after `stopping`: the node goes on serving while load balancers notice
/// that it drains.
fn later(stopping: CancellationToken, delay: Duration) -> CancellationToken {
    let shutdown = CancellationToken::new();
    let cancelled = shutdown.clone();
    tokio::spawn(async move {
        stopping.cancelled().await;
        tokio::time::sleep(delay).await;
        cancelled.cancel();
    });
    shutdown
}

async fn run_managed(
    role: Role,
    options: cli::Role,
    managed: &Managed,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let listening = listen(&options.serving).await?;
    let (index_dir, rates) = (options.worker.index_dir.clone(), options.serving.rates.clone());
    let port = ServingPort { listening, rates: &rates, searches: options.serving.searches };
    // A log that is long, damaged or unavailable does not keep the node from ending.
    let node = tokio::select! {
        node = connect(role, options, port.listening.listener.local_addr()?, managed) => node?,
        () = managed.stopping.cancelled() => return Ok(()),
    };
    // A command node does not wait: failed events can be dealt with only while there is a writer.
    if role != Role::Command {
        tokio::select! {
            () = managed.wait_for_read_models(&node.adapters.pools.admission, SHARD) => {}
            () = managed.stopping.cancelled() => return Ok(()),
        }
    }
    let ended = match role {
        Role::Command => {
            node.adapters.measure(None, Indexes::default());
            let (writer, writing) = node.start_writer(&shutdown);
            let _reacting = node.start_reactions(&writer, &shutdown);
            let passed_on = TaskTracker::new();
            let routes = async |edge: &Arc<Edge>| node.commands(edge, writer, &passed_on, &shutdown).await;
            let served = serve(&node, port, managed, &shutdown, routes).await;
            shutdown.cancel();
            // While NATS is unavailable, a record may have an unknown outcome: it is not waited for any longer.
            timeout(END_LIMIT, writing).await.unwrap_or(Ok(Ok(())))??;
            end_of(passed_on, &node.adapters.log.client()).await;
            served
        }
        Role::Query => {
            let folder = IndexFolder::open(index_dir)?;
            let (logs, remote) = (node.adapters.logs(), &node.adapters.remote);
            let (_following, indexes) = query::follow::follow(&logs, remote, folder.path(), SHARD)?;
            node.adapters.measure(None, indexes.clone());
            serve(&node, port, managed, &shutdown, async |edge: &Arc<Edge>| {
                node.queries(edge, indexes, node.elsewhere()).await
            })
            .await
        }
        Role::Oidc => {
            node.adapters.measure(None, Indexes::default());
            serve(&node, port, managed, &shutdown, async |edge: &Arc<Edge>| Ok(node.oidc(edge))).await
        }
    };
    node.adapters.sole.verdict().and(ended)
}

/// Runs a projector until `shutdown`. It serves no clients.
pub(crate) async fn project(mut options: Box<cli::Projector>, shutdown: CancellationToken) -> Result<(), Failure> {
    let name = name(&mut options.worker);
    let exporting = telemetry::start_node("projector", &name, &options.worker.observing)?;
    let managed = Managed::open(&options.worker.observing, "projector", &name, &shutdown).await?;
    let ended = project_managed(*options, &managed, shutdown).await;
    if let Some(exporting) = exporting {
        exporting.end().await;
    }
    ended
}

async fn project_managed(
    cli::Projector { worker, master_key_file }: cli::Projector,
    managed: &Managed,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let file = MasterKeyFile::read(master_key_file.ok_or(NO_MASTER_KEY)?)?;
    let (folder, read_models) = (IndexFolder::open(worker.index_dir.clone())?, worker.read_models.clone());
    let connect = async {
        let adapters = Adapters::connect(node_options(worker, managed, "projector")?).await?;
        let keyring = proved(&adapters, &file).await?;
        Ok::<_, Failure>((adapters, keyring))
    };
    let (adapters, keyring) = tokio::select! {
        connected = connect => connected?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let projector = adapters.projector(&keyring, &read_models, folder.path().to_owned())?;
    let (mut units, _) = projector.start(&shutdown)?;
    adapters.measure(Some(&projector), Indexes::default());
    managed.serves();
    while let Some(ended) = units.join_next().await {
        // The supervisor of processes starts another one; without a work unit this one would be incomplete.
        ended?;
    }
    adapters.sole.verdict()
}

/// Returns the data keys, for a node that may begin before the log is set up: in that case the key is proved only when
/// it opens a data key.
async fn proved(adapters: &Adapters, file: &MasterKeyFile) -> Result<Keyring, Failure> {
    prove(&adapters.log, &adapters.pools.keys, file).await?;
    let keyring = Keyring::new(file.keys.clone(), adapters.pools.keys.clone());
    tokio::spawn(master_key::keep_current(keyring.clone(), file.clone()));
    Ok(keyring)
}

/// Waits until the forwarded requests of other nodes are answered.
pub(crate) async fn end_of(passed_on: TaskTracker, client: &async_nats::Client) {
    passed_on.close();
    let answered = async {
        passed_on.wait().await;
        client.flush().await.is_ok()
    };
    if !timeout(PASSED_ON_LIMIT, answered).await.unwrap_or(false) {
        tracing::warn!("the time to answer commands that other nodes forwarded is over");
    }
}

/// The folder in which a node stores search indexes.
enum IndexFolder {
    Kept(PathBuf),
    /// A folder that is removed at the end.
    Temporary(TempDir),
}

const TEMPORARY: &str = "platform-index-";

impl IndexFolder {
    fn open(kept: Option<PathBuf>) -> Result<Self, Failure> {
        if let Some(folder) = kept {
            let shown = folder.display();
            fs::create_dir_all(&folder).map_err(|error| {
                format!("cannot store search indexes in {shown}: {error}; name a writable folder with --index-dir")
            })?;
            return Ok(Self::Kept(folder));
        }
        sweep(&std::env::temp_dir());
        Ok(Self::Temporary(tempfile::Builder::new().prefix(TEMPORARY).tempdir()?))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(folder) => folder,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// Removes temporary folders of nodes that were killed. A folder of a node that has just started is younger than an
/// hour.
fn sweep(folder: &Path) {
    let is_left = |path: &Path| {
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(TEMPORARY));
        let is_old =
            || path.metadata().and_then(|it| it.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > OLD));
        let is_free = |index: fs::DirEntry| index::Folder::open(&index.path()).is_ok();
        is_ours && is_old() && fs::read_dir(path).is_ok_and(|indexes| indexes.flatten().all(is_free))
    };
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if is_left(&path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

async fn connect(role: Role, options: cli::Role, listening: SocketAddr, managed: &Managed) -> Result<Node, Failure> {
    let cli::Role { serving, worker } = options;
    let writes = role == Role::Command;
    let number = writes.then_some(serving.node_number);
    let node_options = NodeOptions { number, writes, ..node_options(worker, managed, role.name())? };
    let file = MasterKeyFile::read(serving.master_key_file.clone().ok_or(NO_MASTER_KEY)?)?;
    let serving_options = ServingOptions {
        external: external_url(&serving, listening)?,
        number: serving.node_number,
        tail_limit: serving.writes.tail_limit,
        object_limits: serving.writes.object_limits,
        patience: serving.deliveries.patience(),
        system_users: SystemUsers::new(serving.system_users.as_deref().map_or(Ok(vec![]), system_user::read)?)?,
        targets: serving.allow_targets,
        dns_server: serving.dns_server,
        silence: Duration::from_secs(serving.silence_limit),
        directory_size: serving.directory_size,
        searches: serving.searches.bounds(),
    };
    let adapters = Adapters::connect(node_options).await?;
    Node::new(adapters, serving_options, &file).await
}

/// Returns the name of the node, which is generated where none is given.
fn name(worker: &mut cli::Worker) -> String {
    worker.node_name.get_or_insert_with(|| secret::random_text(22)).clone()
}

fn node_options(mut worker: cli::Worker, managed: &Managed, role: &'static str) -> Result<NodeOptions, Failure> {
    let name = name(&mut worker);
    Ok(NodeOptions {
        nats_url: worker.nats.nats_url.clone().ok_or(NO_NATS)?,
        postgres_url: worker.postgres.postgres_url,
        role,
        name,
        number: None,
        health: managed.health.clone(),
        stopping: managed.stopping.clone(),
        writes: false,
        is_alone: false,
        accepts_lost_keys: worker.people.accept_lost_keys,
        nats: worker.nats,
    })
}

async fn serve(
    node: &Node,
    port: ServingPort<'_>,
    managed: &Managed,
    shutdown: &CancellationToken,
    routes: impl AsyncFnOnce(&Arc<Edge>) -> Result<Router, Failure>,
) -> Result<(), Failure> {
    let edge = tokio::select! {
        edge = node.edge() => edge?,
        () = shutdown.cancelled() => return Ok(()),
    };
    tracing::info!(address = %port.listening.listener.local_addr()?, "serving");
    let served = finished(routes(&edge).await?, &edge, &port, &managed.stopping).await;
    managed.serves();
    connections::serve(port.listening, served, shutdown.cancelled(), limits(port.rates)).await;
    Ok(())
}
