//! Rate limits: token buckets per address, client and instance (`RateLimit` header fields for HTTP,
//! draft-ietf-httpapi-ratelimit-headers-10).
//!
//! A client is identified by its credentials, unchecked, since this comes before anything that costs. So somebody who
//! invents clients meets the bucket of the address. The bucket of an instance is for requests with a token that is
//! valid there; all others share a smaller one of the host, so that no stranger uses up what belongs to a tenant.
//!
//! Buckets are stored by hashes, so that clients cannot make them larger.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use base::{metric::catalog::RATE_LIMITED, secret::sha256};
use edge::{
    admission::Edge,
    error::{Error, Reason},
    mount,
};
use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock},
    middleware::{StateInformationMiddleware, StateSnapshot},
    state::keyed::DefaultKeyedStateStore,
};
use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use tokio::time::interval;

use crate::{
    connections::{Peer, network},
    cors,
};

const REMAINING: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// How many seconds' worth of requests a bucket holds.
const WINDOW: u32 = 5;
/// How often full buckets are removed.
const FORGET_EVERY: Duration = Duration::from_mins(1);

/// The allowed requests per second of each kind; without a number there is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// For each address, or /64 of IPv6.
    pub address: Option<NonZeroU32>,
    /// For each client, which is identified by its Authorization header.
    pub client: Option<NonZeroU32>,
    /// For all requests with a token of an instance, together.
    pub instance: Option<NonZeroU32>,
    /// For all other requests to a host, together.
    pub strangers: Option<NonZeroU32>,
    /// Whether requests from this machine are limited, too.
    pub includes_loopback: bool,
}

/// Finds out whether a request has a valid token.
pub trait Recognise: Send + Sync + 'static {
    /// Returns the instance whose token a request has. The result may be stored in its extensions.
    fn instance(&self, parts: &mut Parts) -> impl Future<Output = Option<String>> + Send;
}

impl Recognise for Edge {
    async fn instance(&self, parts: &mut Parts) -> Option<String> {
        self.recognise(parts).await.map(|tenant| tenant.id.clone())
    }
}

/// The key of a bucket.
type Name = [u8; 32];
type Buckets = RateLimiter<Name, DefaultKeyedStateStore<Name>, DefaultClock, StateInformationMiddleware>;

/// The buckets of one kind.
struct Kind {
    name: &'static str,
    size: u32,
    buckets: Buckets,
}

/// The buckets of a node.
pub struct Limiter<R> {
    address: Option<Kind>,
    client: Option<Kind>,
    instance: Option<Kind>,
    strangers: Option<Kind>,
    includes_loopback: bool,
    doorkeeper: Arc<R>,
}

/// The rest of the bucket that has the least left.
struct Remaining {
    name: &'static str,
    size: u32,
    remaining: u32,
}

/// An empty bucket, and the time until it has something again.
struct Empty {
    name: &'static str,
    size: u32,
    wait: Duration,
}

impl<R> std::fmt::Debug for Limiter<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Limiter").finish_non_exhaustive()
    }
}

impl Kind {
    fn new(name: &'static str, rate: Option<NonZeroU32>) -> Option<Self> {
        let rate = rate?;
        let size = rate.saturating_mul(NonZeroU32::new(WINDOW)?);
        let quota = Quota::per_second(rate).allow_burst(size);
        let buckets = RateLimiter::keyed(quota).with_middleware::<StateInformationMiddleware>();
        Some(Self { name, size: size.get(), buckets })
    }

    fn take(&self, whose: &[u8]) -> Result<Remaining, Empty> {
        let Self { name, size, buckets } = self;
        let taken: Result<StateSnapshot, _> = buckets.check_key(&sha256(whose));
        match taken {
            Ok(state) => Ok(Remaining { name, size: *size, remaining: state.remaining_burst_capacity() }),
            Err(until) => Err(Empty { name, size: *size, wait: until.wait_time_from(DefaultClock::default().now()) }),
        }
    }
}

impl<R: Recognise> Limiter<R> {
    /// Creates full buckets with these rates. Those of idle clients are removed as long as this lives.
    pub fn new(rates: Rates, doorkeeper: Arc<R>) -> Arc<Self> {
        let Rates { address, client, instance, strangers, includes_loopback } = rates;
        let limiter = Arc::new(Self {
            address: Kind::new("address", address),
            client: Kind::new("client", client),
            instance: Kind::new("instance", instance),
            strangers: Kind::new("strangers", strangers),
            includes_loopback,
            doorkeeper,
        });
        let forgetting = Arc::downgrade(&limiter);
        tokio::spawn(async move {
            let mut beat = interval(FORGET_EVERY);
            loop {
                beat.tick().await;
                let Some(limiter) = forgetting.upgrade() else { return };
                limiter.forget();
            }
        });
        limiter
    }

    fn forget(&self) {
        for kind in [&self.address, &self.client, &self.instance, &self.strangers].into_iter().flatten() {
            kind.buckets.retain_recent();
        }
    }

    /// Takes one token from each bucket that the request belongs to, the narrowest first; `None` if there is no limit.
    async fn take(&self, parts: &mut Parts) -> Result<Option<Remaining>, Empty> {
        let address = parts.extensions.get().map(|Peer(peer)| network(peer.ip()));
        if !self.includes_loopback && address.is_none_or(|address| address.is_loopback()) {
            return Ok(None);
        }
        let mut least: Option<Remaining> = None;
        let mut keep = |left: Remaining| {
            if least.as_ref().is_none_or(|least| left.remaining < least.remaining) {
                least = Some(left);
            }
        };
        if let (Some(kind), Some(address)) = (&self.address, address) {
            keep(kind.take(address.to_string().as_bytes())?);
        }
        let shown = parts.headers.get(header::AUTHORIZATION);
        let is_shown = shown.is_some();
        if let (Some(kind), Some(value)) = (&self.client, shown) {
            keep(kind.take(value.as_bytes())?);
        }
        if self.instance.is_none() && self.strangers.is_none() {
            return Ok(least);
        }
        let instance = if is_shown { self.doorkeeper.instance(parts).await } else { None };
        match (instance, edge::header::host(&parts.uri, &parts.headers)) {
            (Some(id), _) => {
                if let Some(kind) = &self.instance {
                    keep(kind.take(id.as_bytes())?);
                }
            }
            (None, Ok(host)) => {
                if let Some(kind) = &self.strangers {
                    keep(kind.take(host.as_bytes())?);
                }
            }
            // The request is refused before anything is looked up for it.
            (None, Err(_)) => {}
        }
        Ok(least)
    }
}

/// A middleware that refuses requests beyond the limits, and reports what is left.
pub async fn limit<R: Recognise>(State(limiter): State<Arc<Limiter<R>>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let taken = limiter.take(&mut parts).await;
    let request = Request::from_parts(parts, body);
    match taken {
        Ok(left) => {
            let mut response = next.run(request).await;
            let Some(Remaining { name, size, remaining }) = left else { return response };
            set_limit_headers(response.headers_mut(), name, size, &format!("r={remaining}"));
            response
        }
        Err(Empty { name, size, wait }) => {
            // The counter is not cached: a lookup takes less time than a refusal.
            RATE_LIMITED.with(&[name]).count();
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let message = format!("too many requests of this {name}; try again in {seconds} s");
            let error = Error::new(Reason::RateLimited, message).with("limit", name).retry_after(wait);
            let (path, origin) = (request.uri().path().to_owned(), request.headers().get(header::ORIGIN).cloned());
            let mut response = mount::refuse(request, error).await;
            cors::permit(&path, origin, response.headers_mut());
            set_limit_headers(response.headers_mut(), name, size, &format!("r=0;t={seconds}"));
            response
        }
    }
}

fn set_limit_headers(headers: &mut HeaderMap, name: &str, size: u32, left: &str) {
    let fields = [(REMAINING, format!("\"{name}\";{left}")), (POLICY, format!("\"{name}\";q={size};w={WINDOW}"))];
    for (field, value) in fields {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(field, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::{Router, body::Body, middleware::from_fn_with_state, routing::get};
    use tower::ServiceExt;

    use super::*;

    /// Knows one token of an instance.
    struct Door;

    impl Recognise for Door {
        async fn instance(&self, parts: &mut Parts) -> Option<String> {
            parts.headers.get(header::AUTHORIZATION).filter(|token| *token == "Bearer known").map(|_| "1".to_owned())
        }
    }

    async fn ask(router: &Router, peer: &str, host: &str, token: Option<&str>) -> u16 {
        let mut request = Request::get("/").header("host", host);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(Peer(SocketAddr::new(peer.parse().unwrap(), 1)));
        router.clone().oneshot(request).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn strangers_take_nothing_from_an_instance() {
        let rates = Rates { instance: NonZeroU32::new(2), strangers: NonZeroU32::new(1), ..Rates::default() };
        let layer = from_fn_with_state(Limiter::new(rates, Arc::new(Door)), limit::<Door>);
        let router = Router::new().route("/", get(async || "here")).layer(layer);
        let mut refused = 0;
        for number in 0..100 {
            let invented = format!("invented{number}");
            let token = if number % 2 == 0 { None } else { Some(invented.as_str()) };
            refused += usize::from(ask(&router, "192.0.2.1", "id.example", token).await == 429);
        }
        assert!(refused > 80, "strangers share a bucket: {refused}");
        for _ in 0..10 {
            assert_eq!(ask(&router, "192.0.2.2", "id.example", Some("known")).await, 200);
        }
        assert_eq!(ask(&router, "192.0.2.2", "alias.example", Some("known")).await, 429, "an instance has one bucket");
        assert_eq!(ask(&router, "192.0.2.2", "other.example", None).await, 200, "each host has strangers of its own");
    }
}
