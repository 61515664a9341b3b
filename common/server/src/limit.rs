//! How often a client may ask: token buckets per address, client and instance (`RateLimit` header fields for HTTP,
//! draft-ietf-httpapi-ratelimit-headers-10).
//!
//! A client is known by what it authenticates with, unchecked: this comes before anything that costs. So whoever
//! invents clients meets the bucket of the address.

use std::{hash::Hash, num::NonZeroU32, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use base::{metric::catalog::RATE_LIMITED, secret::sha256};
use edge::{
    error::{Error, Reason},
    mount,
};
use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock},
    middleware::{StateInformationMiddleware, StateSnapshot},
    state::keyed::DefaultKeyedStateStore,
};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::time::interval;

use crate::{
    connections::{Peer, network},
    cors,
};

const REMAINING: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// A bucket holds what this many seconds allow.
const WINDOW: u32 = 5;
/// How often buckets that are full again are forgotten.
const FORGET_EVERY: Duration = Duration::from_mins(1);

/// How many requests a second each may send; without a number there is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    /// An address, or a /64 of IPv6.
    pub address: Option<NonZeroU32>,
    /// A client: what is sent as Authorization.
    pub client: Option<NonZeroU32>,
    /// An instance: its host name.
    pub instance: Option<NonZeroU32>,
    /// Whether requests from this machine count too.
    pub includes_loopback: bool,
}

type Buckets<K> = RateLimiter<K, DefaultKeyedStateStore<K>, DefaultClock, StateInformationMiddleware>;

/// The buckets of one kind.
struct Kind<K: Hash + Eq + Clone> {
    name: &'static str,
    size: u32,
    buckets: Buckets<K>,
}

/// The buckets of a node.
pub struct Limiter {
    address: Option<Kind<std::net::IpAddr>>,
    client: Option<Kind<[u8; 32]>>,
    instance: Option<Kind<String>>,
    includes_loopback: bool,
}

/// What is left in the bucket that has the least.
struct Left {
    name: &'static str,
    size: u32,
    remaining: u32,
}

/// A bucket that is empty, and for how long.
struct Empty {
    name: &'static str,
    size: u32,
    wait: Duration,
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Limiter").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Clone> Kind<K> {
    fn new(name: &'static str, rate: Option<NonZeroU32>) -> Option<Self> {
        let rate = rate?;
        let size = rate.saturating_mul(NonZeroU32::new(WINDOW)?);
        let quota = Quota::per_second(rate).allow_burst(size);
        let buckets = RateLimiter::keyed(quota).with_middleware::<StateInformationMiddleware>();
        Some(Self { name, size: size.get(), buckets })
    }

    fn take(&self, key: &K) -> Result<Left, Empty> {
        let Self { name, size, buckets } = self;
        let taken: Result<StateSnapshot, _> = buckets.check_key(key);
        match taken {
            Ok(state) => Ok(Left { name, size: *size, remaining: state.remaining_burst_capacity() }),
            Err(until) => Err(Empty { name, size: *size, wait: until.wait_time_from(DefaultClock::default().now()) }),
        }
    }
}

impl Limiter {
    /// Full buckets of these rates. What they know of those that ask no more is forgotten as long as this lives.
    pub fn new(rates: Rates) -> Arc<Self> {
        let Rates { address, client, instance, includes_loopback } = rates;
        let limiter = Arc::new(Self {
            address: Kind::new("address", address),
            client: Kind::new("client", client),
            instance: Kind::new("instance", instance),
            includes_loopback,
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
        if let Some(kind) = &self.address {
            kind.buckets.retain_recent();
        }
        if let Some(kind) = &self.client {
            kind.buckets.retain_recent();
        }
        if let Some(kind) = &self.instance {
            kind.buckets.retain_recent();
        }
    }

    /// Takes one from each bucket that the request belongs to, the narrowest first; `None` where there is no limit.
    fn take(&self, request: &Request) -> Result<Option<Left>, Empty> {
        let address = request.extensions().get().map(|Peer(peer)| network(peer.ip()));
        if !self.includes_loopback && address.is_none_or(|address| address.is_loopback()) {
            return Ok(None);
        }
        let mut least: Option<Left> = None;
        let mut keep = |left: Left| {
            if least.as_ref().is_none_or(|least| left.remaining < least.remaining) {
                least = Some(left);
            }
        };
        if let (Some(kind), Some(address)) = (&self.address, address) {
            keep(kind.take(&address)?);
        }
        if let (Some(kind), Some(value)) = (&self.client, request.headers().get(header::AUTHORIZATION)) {
            keep(kind.take(&sha256(value.as_bytes()))?);
        }
        if let (Some(kind), Ok(host)) = (&self.instance, edge::header::host(request.uri(), request.headers())) {
            keep(kind.take(&host)?);
        }
        Ok(least)
    }
}

/// A layer that refuses what is too much and tells what is left.
pub async fn limit(State(limiter): State<Arc<Limiter>>, request: Request, next: Next) -> Response {
    match limiter.take(&request) {
        Ok(None) => next.run(request).await,
        Ok(Some(Left { name, size, remaining })) => {
            let mut response = next.run(request).await;
            set_limit_headers(response.headers_mut(), (name, size), &format!("r={remaining}"));
            response
        }
        Err(Empty { name, size, wait }) => {
            // Not kept: a name is looked up in less time than a refusal takes.
            RATE_LIMITED.with(&[name]).count();
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let message = format!("too many requests of this {name}; try again in {seconds} s");
            let error = Error::new(Reason::RateLimited, message).with("limit", name).retry_after(wait);
            let (path, origin) = (request.uri().path().to_owned(), request.headers().get(header::ORIGIN).cloned());
            let mut response = mount::refuse(request, error).await;
            cors::permit(&path, origin, response.headers_mut());
            set_limit_headers(response.headers_mut(), (name, size), &format!("r=0;t={seconds}"));
            response
        }
    }
}

fn set_limit_headers(headers: &mut HeaderMap, (name, size): (&str, u32), left: &str) {
    let fields = [(REMAINING, format!("\"{name}\";{left}")), (POLICY, format!("\"{name}\";q={size};w={WINDOW}"))];
    for (field, value) in fields {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(field, value);
        }
    }
}
