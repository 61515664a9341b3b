//! What every node that serves has in common: its address, its bounds, and the answers that belong to no role.

use std::{io::ErrorKind, net::SocketAddr, time::Duration};

use axum::Router;
use proto::operation::{Facts, OPERATIONS};
use tokio::net::TcpListener;
use transport::{mount, reflection, server};
use url::Url;

use crate::{Failure, cli};

/// The operations that no node answers yet. This list only shrinks.
pub(crate) const NOT_BUILT: &[&str] = &[
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
    "SearchFailedEvents",
    "SearchViews",
    "DiscardFailedEvent",
    "RetryFailedEvents",
    "RetryFailedEvent",
    "GetFailedEvent",
];

/// Listens, or says what to do instead.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "another program listens there; choose another address with --listen",
            ErrorKind::PermissionDenied => "ports below 1024 need privileges; choose a higher one with --listen",
            _ => "choose an address of this machine with --listen",
        };
        format!("cannot listen on {address}: {error}: {hint}").into()
    })
}

/// How clients reach the node, where nobody says otherwise: as it listens.
pub(crate) fn external_url(serving: &cli::Serving, listening: SocketAddr) -> Result<Url, Failure> {
    match &serving.external_url {
        Some(url) => Ok(url.clone()),
        None if listening.ip().is_unspecified() => Ok(Url::parse(&format!("http://localhost:{}", listening.port()))?),
        None => Ok(Url::parse(&format!("http://{listening}"))?),
    }
}

/// The bounds of a node's server. A process ends within 15 s, so requests get less to finish.
pub(crate) fn limits() -> server::Limits {
    server::Limits { drain: Duration::from_secs(3), ..server::Limits::default() }
}

/// The router of a node with what belongs to every node: operations that are not built, reflection, answers to
/// unknown paths.
pub(crate) fn finished(router: Router) -> Router {
    let is_built = |facts: &&Facts| !NOT_BUILT.contains(&facts.method);
    let (built, not_built): (Vec<&'static Facts>, Vec<_>) = OPERATIONS.iter().copied().partition(is_built);
    let router = not_built.into_iter().fold(router, mount::mount_unbuilt);
    mount::fallbacks(router.merge(reflection::reflection(&built)))
}
