//! One role of the platform in a process of its own.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use store::secret::{self, Key};
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
    node::{Adapters, Face, Node, Place, SHARD},
    serving::{external_url, finished, limits, listen},
};

/// How long a writer may take to end.
const END_LIMIT: Duration = Duration::from_secs(8);

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
    let (indexes, rates) = (IndexFolder::of(&options.worker)?, options.serving.rates.clone());
    let node = connect(*options, listening.listener.local_addr()?).await?;
    match role {
        Role::Command => {
            let (writer, writing) = node.start_writer(&shutdown);
            let serving = serve(&node, (listening, &rates), &shutdown, |edge| node.commands(edge, writer));
            let served = serving.await;
            shutdown.cancel();
            // A record whose fate is not certain, because NATS is away, is not waited for any longer.
            timeout(END_LIMIT, writing).await.unwrap_or(Ok(Ok(())))??;
            served
        }
        Role::Query => {
            let Adapters { log, remote, .. } = &node.adapters;
            let (_following, indexes) = query::follow::follow(log, remote, indexes.path(), SHARD)?;
            serve(&node, (listening, &rates), &shutdown, |edge| node.queries(edge, indexes)).await
        }
        Role::Oidc => serve(&node, (listening, &rates), &shutdown, |edge| node.oidc(edge)).await,
    }
}

/// Runs a projector until `shutdown`. It serves nobody and needs no key.
pub(crate) async fn project(options: Box<cli::Worker>, shutdown: CancellationToken) -> Result<(), Failure> {
    let (folder, index) = (IndexFolder::of(&options)?, options.index.clone());
    let adapters = Adapters::connect(place(*options)?).await?;
    let (mut units, _) = adapters.projector(&index, folder.path().to_owned())?.start(&shutdown)?;
    while units.join_next().await.is_some() {}
    Ok(())
}

/// Where a node keeps search indexes.
enum IndexFolder {
    Kept(PathBuf),
    /// Removed at the end.
    Temporary(TempDir),
}

impl IndexFolder {
    fn of(worker: &cli::Worker) -> Result<Self, Failure> {
        Ok(match &worker.index_dir {
            Some(folder) => Self::Kept(folder.clone()),
            None => Self::Temporary(tempfile::Builder::new().prefix("platform-index-").tempdir()?),
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(folder) => folder,
            Self::Temporary(folder) => folder.path(),
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
    };
    let adapters = Adapters::connect(place).await?;
    Node::new(adapters, face, master_key).await
}

fn place(worker: cli::Worker) -> Result<Place, Failure> {
    Ok(Place {
        nats_url: worker.nats.nats_url.clone().ok_or("--nats-url is missing: where is the log?")?,
        postgres_url: worker.postgres_url,
        name: worker.node_name.unwrap_or_else(|| secret::random_text(22)),
        nats: worker.nats,
    })
}

async fn serve(
    node: &Node,
    (listening, rates): (Listening, &cli::Rates),
    shutdown: &CancellationToken,
    routes: impl FnOnce(&Arc<Edge>) -> Router,
) -> Result<(), Failure> {
    let edge = tokio::select! {
        edge = node.edge() => edge?,
        () = shutdown.cancelled() => return Ok(()),
    };
    tracing::info!(address = %listening.listener.local_addr()?, "serving");
    let router = finished(routes(&edge), rates, shutdown).await;
    server::serve(listening, router, shutdown.cancelled(), limits()).await;
    Ok(())
}
