//! One role of the platform in a process of its own.

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use store::secret::{self, Key};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::{edge::Edge, server};

use crate::{
    Failure, cli,
    data_dir::read_master_key,
    node::{Node, Place},
    serving::{external_url, finished, limits, listen},
};

/// The roles that have a process of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Command,
    Query,
    Projector,
    Oidc,
}

/// Runs the role until `shutdown`.
pub(crate) async fn run(role: Role, options: Box<cli::Role>, shutdown: CancellationToken) -> Result<(), Failure> {
    let listener = listen(options.serving.listen).await?;
    let node = connect(*options, listener.local_addr()?).await?;
    match role {
        Role::Command => {
            let (writer, writing) = node.start_writer(&shutdown);
            let serving = serve(&node, listener, &shutdown, |edge| node.commands(edge, writer));
            let (served, written) = tokio::join!(serving, writing);
            written??;
            served
        }
        Role::Query => serve(&node, listener, &shutdown, |edge| node.queries(edge)).await,
        Role::Oidc => serve(&node, listener, &shutdown, |edge| node.oidc(edge)).await,
        Role::Projector => {
            let mut units = node.start_projector(&shutdown)?;
            while units.join_next().await.is_some() {}
            Ok(())
        }
    }
}

async fn connect(options: cli::Role, listening: SocketAddr) -> Result<Node, Failure> {
    let nats_url = options.nats.nats_url.clone().ok_or("--nats-url is missing: where is the log?")?;
    let file = options.serving.master_key_file.as_ref();
    let file = file.ok_or("--master-key-file is missing: the key that the log was set up with")?;
    let place = Place {
        nats_url,
        postgres_url: options.postgres_url,
        name: options.node_name.unwrap_or_else(|| secret::random_text(22)),
        number: options.serving.node_number,
        external: external_url(&options.serving, listening)?,
        tail_limit: options.serving.tail_limit,
        nats: options.nats,
    };
    Node::connect(place, Key::new(read_master_key(file)?)).await
}

async fn serve(
    node: &Node,
    listener: TcpListener,
    shutdown: &CancellationToken,
    routes: impl FnOnce(&Arc<Edge>) -> Router,
) -> Result<(), Failure> {
    let edge = tokio::select! {
        edge = node.edge() => edge?,
        () = shutdown.cancelled() => return Ok(()),
    };
    tracing::info!(address = %listener.local_addr()?, "serving");
    server::serve(listener, finished(routes(&edge)), shutdown.cancelled(), limits()).await;
    Ok(())
}
