//! One role of the platform in a process of its own.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use store::{
    index,
    secret::{self, Key},
};
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use transport::{
    edge::Edge,
    server::{self, Listening},
};

use crate::{
    Failure, cli,
    data_dir::read_master_key,
    node::{Adapters, Face, NO_NATS, Node, Place, SHARD},
    serving::{external_url, finished, limits, listen},
};

/// How long a writer may take to end.
const END_LIMIT: Duration = Duration::from_secs(8);
/// After what time a temporary folder that nobody uses is removed.
const OLD: Duration = Duration::from_hours(1);

/// The roles that have a process of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Command,
    Query,
    Oidc,
}

/// Runs the role until `shutdown`.
pub(crate) async fn run(role: Role, options: Box<cli::Role>, shutdown: CancellationToken) -> Result<(), Failure> {
    let listening = listen(&options.serving).await?;
    let (index_dir, rates) = (options.worker.index_dir.clone(), options.serving.rates.clone());
    let node = connect(*options, listening.listener.local_addr()?).await?;
    match role {
        Role::Command => {
            let (writer, writing) = node.start_writer(&shutdown);
            let routes = async |edge: &Arc<Edge>| node.commands(edge, writer).await;
            let served = serve(&node, (listening, &rates), &shutdown, routes).await;
            shutdown.cancel();
            // A record whose fate is not certain, because NATS is away, is not waited for any longer.
            timeout(END_LIMIT, writing).await.unwrap_or(Ok(Ok(())))??;
            served
        }
        Role::Query => {
            let Adapters { log, remote, .. } = &node.adapters;
            let folder = IndexFolder::open(index_dir)?;
            let (_following, indexes) = query::follow::follow(log, remote, folder.path(), SHARD)?;
            serve(&node, (listening, &rates), &shutdown, async |edge: &Arc<Edge>| Ok(node.queries(edge, indexes))).await
        }
        Role::Oidc => serve(&node, (listening, &rates), &shutdown, async |edge: &Arc<Edge>| Ok(node.oidc(edge))).await,
    }
}

/// Runs a projector until `shutdown`. It serves nobody and needs no key.
pub(crate) async fn project(options: Box<cli::Worker>, shutdown: CancellationToken) -> Result<(), Failure> {
    let (folder, index) = (IndexFolder::open(options.index_dir.clone())?, options.index.clone());
    let adapters = Adapters::connect(place(*options)?).await?;
    let (mut units, _) = adapters.projector(&index, folder.path().to_owned())?.start(&shutdown)?;
    while let Some(ended) = units.join_next().await {
        // Whoever starts processes starts another one; without a unit this one would go on in part.
        ended?;
    }
    Ok(())
}

/// Where a node keeps search indexes.
enum IndexFolder {
    Kept(PathBuf),
    /// Removed at the end.
    Temporary(TempDir),
}

const TEMPORARY: &str = "platform-index-";

impl IndexFolder {
    fn open(kept: Option<PathBuf>) -> Result<Self, Failure> {
        if let Some(folder) = kept {
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

/// Removes what nodes left that were killed. One that has just begun is no hour old.
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

async fn connect(options: cli::Role, listening: SocketAddr) -> Result<Node, Failure> {
    let cli::Role { serving, worker } = options;
    let place = place(worker)?;
    let file = serving.master_key_file.as_ref();
    let file = file.ok_or("--master-key-file is missing: the key that the log was set up with")?;
    let master_key = Key::new(read_master_key(file)?);
    let face = Face {
        external: external_url(&serving, listening)?,
        number: serving.node_number,
        tail_limit: serving.tail_limit,
        targets: serving.allow_targets,
    };
    let adapters = Adapters::connect(place).await?;
    Node::new(adapters, face, master_key).await
}

fn place(worker: cli::Worker) -> Result<Place, Failure> {
    Ok(Place {
        nats_url: worker.nats.nats_url.clone().ok_or(NO_NATS)?,
        postgres_url: worker.postgres_url,
        name: worker.node_name.unwrap_or_else(|| secret::random_text(22)),
        nats: worker.nats,
    })
}

async fn serve(
    node: &Node,
    (listening, rates): (Listening, &cli::Rates),
    shutdown: &CancellationToken,
    routes: impl AsyncFnOnce(&Arc<Edge>) -> Result<Router, Failure>,
) -> Result<(), Failure> {
    let edge = tokio::select! {
        edge = node.edge() => edge?,
        () = shutdown.cancelled() => return Ok(()),
    };
    tracing::info!(address = %listening.listener.local_addr()?, "serving");
    let served = finished(routes(&edge).await?, rates, shutdown).await;
    server::serve(listening, served, shutdown.cancelled(), limits(rates)).await;
    Ok(())
}
