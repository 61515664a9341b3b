//! What every node that serves has in common: its address, its bounds, and the answers that belong to no role.

use std::{io::ErrorKind, net::SocketAddr, num::NonZeroU32, time::Duration};

use axum::{Router, middleware::from_fn_with_state};
use proto::operation::{Facts, OPERATIONS};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::compression::{
    CompressionLayer,
    predicate::{DefaultPredicate, Predicate, SizeAbove},
};
use transport::{
    cors::cors,
    health::health,
    limit::{Limiter, Rates, limit},
    mount, openapi, reflection,
    server::{self, Listening},
    tls::Certificate,
};
use url::Url;

use crate::{Failure, cli, node};

/// Below this many bytes an answer is sent as it is.
const SMALLEST_COMPRESSED: u16 = 1024;

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
pub(crate) async fn listen(serving: &cli::Serving) -> Result<Listening, Failure> {
    let certificate = match (&serving.tls_cert, &serving.tls_key) {
        (Some(certificate), Some(key)) => Some(Certificate::load(certificate, key)?),
        _ => None,
    };
    let address = serving.listen;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "another program listens there; choose another address with --listen",
            ErrorKind::PermissionDenied => "ports below 1024 need privileges; choose a higher one with --listen",
            _ => "choose an address of this machine with --listen",
        };
        format!("cannot listen on {address}: {error}: {hint}")
    })?;
    Ok(Listening { listener, certificate })
}

/// How clients reach the node, where nobody says otherwise: as it listens.
pub(crate) fn external_url(serving: &cli::Serving, listening: SocketAddr) -> Result<Url, Failure> {
    let scheme = if serving.tls_cert.is_some() { "https" } else { "http" };
    match &serving.external_url {
        Some(url) => {
            // Before any server is started in vain.
            node::external(url)?;
            Ok(url.clone())
        }
        None if listening.ip().is_unspecified() => {
            Ok(Url::parse(&format!("{scheme}://localhost:{}", listening.port()))?)
        }
        None => Ok(Url::parse(&format!("{scheme}://{listening}"))?),
    }
}

/// The bounds of a node's server. A process ends within 15 s, so requests get less to finish.
pub(crate) fn limits(rates: &cli::Rates) -> server::Limits {
    server::Limits {
        connections_per_address: rates.connections_per_address,
        drain: Duration::from_secs(3),
        ..server::Limits::default()
    }
}

/// The router of a node with what belongs to every node: operations that are not built, reflection, health, the API's
/// description, answers to unknown paths, and what concerns all answers.
pub(crate) async fn finished(router: Router, rates: &cli::Rates, stopping: &CancellationToken) -> Router {
    let is_built = |facts: &&Facts| !NOT_BUILT.contains(&facts.method);
    let (built, not_built): (Vec<&'static Facts>, Vec<_>) = OPERATIONS.iter().copied().partition(is_built);
    let router = not_built.into_iter().fold(router, mount::mount_unbuilt);
    let router = router.merge(reflection::reflection(&built)).merge(health(&built, stopping.clone()).await);
    let router = router.merge(openapi::routes(&built, oidc::DESCRIPTION));
    let worth_it = DefaultPredicate::new().and(SizeAbove::new(SMALLEST_COMPRESSED));
    // The first is the outermost. Together, because each call of `layer` costs every request two allocations.
    mount::fallbacks(router).layer((
        CompressionLayer::new().compress_when(worth_it),
        cors(),
        from_fn_with_state(Limiter::new(rates.into()), limit),
    ))
}

impl From<&cli::Rates> for Rates {
    fn from(rates: &cli::Rates) -> Self {
        Self {
            address: NonZeroU32::new(rates.rate_limit_address),
            client: NonZeroU32::new(rates.rate_limit_client),
            instance: NonZeroU32::new(rates.rate_limit_instance),
            includes_loopback: rates.rate_limit_loopback,
        }
    }
}
