//! The parts that all serving nodes share: the address, the limits, and the answers that belong to no role.

use std::{io::ErrorKind, num::NonZeroU32, sync::Arc, time::Duration};

use axum::{
    Router,
    body::HttpBody,
    http::{Response, header},
    middleware::from_fn_with_state,
};
use edge::{admission::Edge, mount};
use proto::operation::{Facts, OPERATIONS};
use server::{
    connections::{self, Listening},
    cors::cors,
    health::health,
    limit::{Limiter, Rates, limit},
    openapi, protos, reflection,
    tls::Certificate,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::compression::{
    CompressionLayer,
    predicate::{DefaultPredicate, Predicate, SizeAbove},
};

use crate::{Failure, cli};

/// The size of an answer, in bytes, below which it is not compressed: it takes a few packets only, and compressing it
/// would be nearly all of its cost.
const SMALLEST_COMPRESSED: u16 = 4096;

/// Permits the compression of answers without `Cache-Control: no-store`. Answers with it have secrets together with
/// text that others may choose, and their compressed length would disclose something about the secrets; and most of the
/// cost of a token would be its compression.
#[derive(Clone, Copy)]
struct MayBeStored;

impl Predicate for MayBeStored {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        response.headers().get(header::CACHE_CONTROL).is_none_or(|value| value != "no-store")
    }
}

/// Refuses malformed addresses of servers, before anything is created. They are not quoted: they may hold a password.
pub(crate) fn check_servers(nats: Option<&str>, postgres: Option<&str>) -> Result<(), Failure> {
    if nats.is_some_and(|url| !is_nats(url)) {
        return Err("--nats-url is not the address of a NATS server, such as nats://127.0.0.1:4222".into());
    }
    if postgres.is_some_and(|url| !is_postgres(url)) {
        return Err(
            "--postgres-url is not an address of Postgres, such as postgres://user:password@127.0.0.1/database".into(),
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

/// Listens, or fails with a remedy.
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

/// The port of a node, and the bounds of what it serves there.
pub(crate) struct ServingPort<'a> {
    pub(crate) listening: Listening,
    pub(crate) rates: &'a cli::Rates,
    pub(crate) searches: cli::Searches,
}

/// Returns the limits of a node's server. A process ends within 15 s, so requests get less to finish.
pub(crate) fn limits(rates: &cli::Rates) -> connections::Limits {
    connections::Limits {
        connections_per_address: rates.connections_per_address,
        drain: Duration::from_secs(3),
        ..connections::Limits::default()
    }
}

/// Returns the operations that are built.
pub(crate) fn built() -> Vec<&'static Facts> {
    OPERATIONS.iter().copied().filter(|facts| facts.is_built).collect()
}

/// Completes the router of a node with the parts of every node: operations that are not built, reflection, health, the
/// API's description, answers to unknown paths, and the layers of all answers.
pub(crate) async fn finished(
    router: Router,
    edge: &Arc<Edge>,
    ServingPort { rates, searches, .. }: &ServingPort<'_>,
    stopping: &CancellationToken,
) -> Router {
    let built = built();
    let not_built = OPERATIONS.iter().copied().filter(|facts| !facts.is_built);
    let router = not_built.fold(router, |router, facts| mount::mount_unbuilt(router, edge, facts));
    let descriptors = reflection::restricted(&built);
    let router = router.merge(reflection::reflection(&descriptors)).merge(protos::routes(descriptors));
    let router = router.merge(openapi::routes(&built, oidc::DESCRIPTION, searches.limits()));
    let router = router.merge(health(&built, stopping.clone()).await);
    let worth_it = DefaultPredicate::new().and(SizeAbove::new(SMALLEST_COMPRESSED)).and(MayBeStored);
    // The first layer is the outermost. They are added together, because each call of `layer` costs every request two
    // allocations.
    mount::fallbacks(router).layer((
        CompressionLayer::new().compress_when(worth_it),
        // Outside of CORS, which answers preflight requests itself.
        from_fn_with_state(Limiter::new((*rates).into(), edge.clone()), limit::<Edge>),
        cors(),
    ))
}

impl From<&cli::Rates> for Rates {
    fn from(rates: &cli::Rates) -> Self {
        Self {
            address: NonZeroU32::new(rates.rate_limit_address),
            client: NonZeroU32::new(rates.rate_limit_client),
            instance: NonZeroU32::new(rates.rate_limit_instance),
            strangers: NonZeroU32::new(rates.rate_limit_strangers),
            includes_loopback: rates.rate_limit_loopback,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_server_is_told_without_its_password() {
        check_servers(Some("nats://127.0.0.1:4222"), Some("postgres://a:b@127.0.0.1/x")).unwrap();
        check_servers(None, None).unwrap();
        for wrong in ["postgres://a:hunter2@[/x", "mysql://a:hunter2@b/x", "hunter2"] {
            let told = check_servers(None, Some(wrong)).unwrap_err().to_string();
            assert!(told.starts_with("--postgres-url is not an address") && !told.contains("hunter2"), "{told}");
        }
        let told = check_servers(Some("nats://"), None).unwrap_err().to_string();
        assert!(told.starts_with("--nats-url is not the address"), "{told}");
    }
}
