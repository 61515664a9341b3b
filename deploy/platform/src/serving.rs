//! What every node that serves has in common: its address, its bounds, and the answers that belong to no role.

use std::{
    io::ErrorKind,
    net::{SocketAddr, ToSocketAddrs},
    num::NonZeroU32,
    time::Duration,
};

use axum::{Router, middleware::from_fn_with_state};
use edge::mount;
use proto::operation::{Facts, OPERATIONS};
use server::{
    connections::{self, Listening},
    cors::cors,
    health::health,
    limit::{Limiter, Rates, limit},
    openapi, reflection,
    tls::Certificate,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::compression::{
    CompressionLayer,
    predicate::{DefaultPredicate, Predicate, SizeAbove},
};
use url::Url;

use crate::{Failure, cli, node};

/// Below this many bytes an answer is sent as it is.
const SMALLEST_COMPRESSED: u16 = 1024;

/// The operations that no node answers yet. This list only shrinks.
pub(crate) const NOT_BUILT: &[&str] = &[
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

/// An address to listen on: one of numbers, or a name that has one.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let example = "such as 127.0.0.1:8080, localhost:8080, or 0.0.0.0:8080 for every address of this machine";
    if !text.contains(':') || text.starts_with(':') {
        return Err(format!("it must be an address and a port, {example}"));
    }
    let found =
        text.to_socket_addrs().map_err(|error| format!("{error}: it must be an address and a port, {example}"))?;
    let found: Vec<_> = found.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("the name has no address; give one, {example}"))
}

/// Refuses addresses of servers that are none, before anything is made. They are not quoted: they may hold a password.
pub(crate) fn check_servers(nats: Option<&str>, postgres: Option<&str>) -> Result<(), Failure> {
    if nats.is_some_and(|url| !is_nats(url)) {
        return Err("--nats-url is no address of a NATS server, such as nats://127.0.0.1:4222".into());
    }
    if postgres.is_some_and(|url| !is_postgres(url)) {
        return Err(
            "--postgres-url is no address of Postgres, such as postgres://user:password@127.0.0.1/database".into()
        );
    }
    Ok(())
}

fn is_nats(url: &str) -> bool {
    let is_server = |server: &str| {
        server.trim().parse::<async_nats::ServerAddr>().is_ok_and(|address| address.into_inner().has_host())
    };
    url.split(',').all(is_server)
}

fn is_postgres(url: &str) -> bool {
    url.parse::<tokio_postgres::Config>().is_ok_and(|config| !config.get_hosts().is_empty())
}

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
    Ok(Listening { listener, certificate, proxies: serving.trusted_proxies.clone() })
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
pub(crate) fn limits(rates: &cli::Rates) -> connections::Limits {
    connections::Limits {
        connections_per_address: rates.connections_per_address,
        drain: Duration::from_secs(3),
        ..connections::Limits::default()
    }
}

/// The operations that nodes answer.
pub(crate) fn built() -> Vec<&'static Facts> {
    OPERATIONS.iter().copied().filter(|facts| !NOT_BUILT.contains(&facts.method)).collect()
}

/// The router of a node with what belongs to every node: operations that are not built, reflection, health, the API's
/// description, answers to unknown paths, and what concerns all answers.
pub(crate) async fn finished(router: Router, rates: &cli::Rates, stopping: &CancellationToken) -> Router {
    let built = built();
    let not_built = OPERATIONS.iter().copied().filter(|facts| !built.contains(facts));
    let router = not_built.fold(router, mount::mount_unbuilt);
    let router = router.merge(reflection::reflection(&built)).merge(health(&built, stopping.clone()).await);
    let router = router.merge(openapi::routes(&built, oidc::DESCRIPTION));
    let worth_it = DefaultPredicate::new().and(SizeAbove::new(SMALLEST_COMPRESSED));
    // The first is the outermost. Together, because each call of `layer` costs every request two allocations.
    mount::fallbacks(router).layer((
        CompressionLayer::new().compress_when(worth_it),
        // Outside of CORS, which answers what browsers ask beforehand itself.
        from_fn_with_state(Limiter::new(rates.into()), limit),
        cors(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_a_name() {
        assert_eq!(address("127.0.0.1:80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(address("[::1]:0").unwrap().to_string(), "[::1]:0");
        assert!(address("localhost:8080").unwrap().ip().is_loopback());
        for wrong in ["8080", ":8080", "localhost", "localhost:http", "127.0.0.1:99999", ""] {
            let told = address(wrong).unwrap_err();
            assert!(told.contains("such as 127.0.0.1:8080"), "{wrong}: {told}");
        }
    }

    #[test]
    fn a_malformed_server_is_told_without_its_password() {
        check_servers(Some("nats://127.0.0.1:4222"), Some("postgres://a:b@127.0.0.1/x")).unwrap();
        check_servers(None, None).unwrap();
        for wrong in ["postgres://a:hunter2@[/x", "mysql://a:hunter2@b/x", "hunter2"] {
            let told = check_servers(None, Some(wrong)).unwrap_err().to_string();
            assert!(told.starts_with("--postgres-url is no address") && !told.contains("hunter2"), "{told}");
        }
        let told = check_servers(Some("nats://"), None).unwrap_err().to_string();
        assert!(told.starts_with("--nats-url is no address"), "{told}");
    }
}
