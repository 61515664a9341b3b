//! One role of the platform in a process of its own.

use std::time::Duration;

use axum::Router;
use proto::operation::{Facts, OPERATIONS};
use store::secret::{self, Key};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::{mount, reflection, server};

use crate::{
    Failure, cli,
    data_dir::read_master_key,
    node::{Node, Place},
    standalone::external_url,
};

/// The roles that have a process of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Command,
    Query,
    Projector,
    Oidc,
}

/// The operations that no node answers yet. This list only shrinks.
pub(crate) const NOT_BUILT: &[&str] = &[
    "SearchTargets",
    "PutExecution",
    "DeleteExecution",
    "SearchExecutions",
    "ListAvailableExecutionFunctions",
    "ListAvailableExecutionMethods",
    "ListAvailableExecutionServices",
    "CreateCodeHostBIDP",
    "PatchCodeHostBIDP",
    "GetCodeHostBIDP",
    "DeleteIDP",
    "SearchIDPs",
    "SetLanguages",
    "ResolveLanguages",
];

/// Runs the role until `shutdown`.
pub(crate) async fn run(role: Role, options: Box<cli::Role>, shutdown: CancellationToken) -> Result<(), Failure> {
    let nats_url = options.nats.nats_url.clone().ok_or("--nats-url is missing: where is the log?")?;
    let file = options.serving.master_key_file.as_ref();
    let file = file.ok_or("--master-key-file is missing: the key that the log was set up with")?;
    let master_key = Key::new(read_master_key(file)?);
    let listener = TcpListener::bind(options.serving.listen).await?;
    let name = options.node_name.clone().unwrap_or_else(|| secret::random_text(22));
    let external = external_url(&options.serving, listener.local_addr()?)?;
    let place = Place {
        nats: options.nats,
        nats_url,
        postgres_url: options.postgres_url,
        name,
        number: options.serving.node_number,
        external,
        tail_limit: options.serving.tail_limit,
    };
    let node = Node::connect(place, master_key).await?;
    if role == Role::Projector {
        let mut units = node.start_projector(&shutdown)?;
        while units.join_next().await.is_some() {}
        return Ok(());
    }
    let mut writing = None;
    let writer = (role == Role::Command).then(|| {
        let (writer, task) = node.start_writer(shutdown.clone());
        writing = Some(task);
        writer
    });
    let edge = tokio::select! {
        edge = node.edge() => edge?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let router = match (role, writer) {
        (Role::Command, Some(writer)) => node.commands(&edge, writer),
        (Role::Query, _) => node.queries(&edge),
        _ => node.oidc(&edge),
    };
    tracing::info!(?role, address = %listener.local_addr()?, "serving");
    let serving = server::serve(listener, finished(router), shutdown.clone().cancelled_owned(), limits());
    match writing {
        None => serving.await,
        Some(mut task) => {
            tokio::select! {
                () = serving => {}
                failed = &mut task => return failed?.map_err(Into::into),
            }
            task.await??;
        }
    }
    Ok(())
}

/// The bounds of a node's server. A process ends within 15 s, so requests get less to finish.
pub(crate) fn limits() -> server::Limits {
    server::Limits { drain: Duration::from_secs(4), ..server::Limits::default() }
}

/// The router of a node with what belongs to every node: operations that are not built, reflection, answers to
/// unknown paths.
pub(crate) fn finished(router: Router) -> Router {
    let is_built = |facts: &&Facts| !NOT_BUILT.contains(&facts.method);
    let (built, not_built): (Vec<&'static Facts>, Vec<_>) = OPERATIONS.iter().copied().partition(is_built);
    let router = not_built.into_iter().fold(router, mount::mount_unbuilt);
    mount::fallbacks(router.merge(reflection::reflection(&built)))
}
