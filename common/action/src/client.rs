//! Calls one target: only where it may be called, within bounds of time, size and number, and signed.
//!
//! An address is checked when a name is resolved and is the one that is connected to, so that a name which changes its
//! address in between (DNS rebinding) reaches nothing. Redirects are not followed. A call holds no thread while it waits.

mod resolve;

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use domain::{address::Allowed, resource::target::TargetKind};
use http::header::{CONTENT_TYPE, USER_AGENT};
use reqwest::{Response, redirect, retry};
use store::{
    clock,
    keyring::Keyring,
    metric::catalog::{TARGET_CALLS, TARGET_DURATION},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};
use url::{Host, Url};

use crate::{
    DEPTH,
    book::Called,
    signature::{self, Unsigned},
};

/// The largest answer, in bytes.
pub const LARGEST_ANSWER: usize = 1024 * 1024;
/// The largest list of headers of an answer, in bytes.
const LARGEST_HEADERS: u32 = 64 * 1024;
/// How many calls a node has under way.
const MOST_CALLS: usize = 2048;
/// How many calls that nobody waits for a node has under way or waiting for a seat.
const MOST_DETACHED: usize = 4096;
/// How many connections without a call stay open to one host, and for how long.
const IDLE_CONNECTIONS: usize = 64;
const IDLE: Duration = Duration::from_secs(30);
/// The header that names a delivery, the same whenever it is tried again.
pub const DELIVERY: &str = "platform-delivery-id";

/// Calls targets.
pub struct Client {
    http: reqwest::Client,
    allowed: Arc<Allowed>,
    keyring: Keyring,
    seats: Arc<Semaphore>,
    /// Places of calls that nobody waits for.
    detached: Arc<Semaphore>,
}

/// One call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The same whenever it is tried again.
    pub delivery_id: String,
    /// How many calls of targets it is nested in.
    pub depth: u32,
    /// The W3C `traceparent` that it belongs to.
    pub trace_context: String,
    /// The payload, as JSON.
    pub body: Bytes,
}

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It would reach a machine that it must not.
    #[error("the target is at an address that may not be called")]
    Forbidden,
    /// The URL is none that can be called.
    #[error("the URL of the target cannot be called")]
    Url,
    /// Too many calls that nobody waits for are under way.
    #[error("too many calls that nobody waits for are under way")]
    Busy,
    /// There is no answer in time.
    #[error("the target did not answer in time")]
    Timeout,
    /// There is no connection, or it broke.
    #[error("the target cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    /// The answer is no success.
    #[error("the target answered with status {0}")]
    Status(u16),
    /// The answer is too large.
    #[error("the answer of the target is too large")]
    TooLarge,
    /// The answer is no JSON, or not of the message.
    #[error("the answer of the target does not fit the message: {0}")]
    Malformed(String),
    /// The target says that it failed, and how.
    #[error("{message}")]
    Refused {
        /// The HTTP status that the caller shall get.
        status: Option<u16>,
        /// What the caller shall be told.
        message: String,
    },
    /// The call cannot be signed.
    #[error("the call cannot be signed")]
    Unsigned(#[from] Unsigned),
}

impl Failure {
    /// What metrics call it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Forbidden | Self::Url => "forbidden",
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::Unreachable(_) => "unreachable",
            Self::Status(_) => "status",
            Self::TooLarge => "too_large",
            Self::Malformed(_) => "malformed",
            Self::Refused { .. } => "refused",
            Self::Unsigned(_) => "unsigned",
        }
    }

    fn of(error: reqwest::Error) -> Self {
        if resolve::was_forbidden(&error) { Self::Forbidden } else { Self::Unreachable(error) }
    }
}

impl Client {
    /// A client that calls the public internet and what is allowed beyond.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub fn new(allowed: Arc<Allowed>, keyring: Keyring) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .no_gzip()
            .referer(false)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .dns_resolver(Arc::new(resolve::Checked(allowed.clone())))
            .http2_max_header_list_size(LARGEST_HEADERS)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE)
            .build()?;
        Ok(Self {
            http,
            allowed,
            keyring,
            seats: Arc::new(Semaphore::new(MOST_CALLS)),
            detached: Arc::new(Semaphore::new(MOST_DETACHED)),
        })
    }

    /// Calls a target and gives its answer; that of a webhook is not read. Waiting for a seat counts as waiting for it.
    pub async fn call(&self, called: &Called, call: &Call) -> Result<Bytes, Failure> {
        let begun = Instant::now();
        let limit = Duration::from_millis(called.target.timeout_ms);
        let answered = timeout(limit, self.seated(called, call)).await.unwrap_or(Err(Failure::Timeout));
        let kind = kind(called);
        TARGET_CALLS.with(&[kind, answered.as_ref().map_or_else(Failure::name, |_| "ok")]).count();
        TARGET_DURATION.with(&[kind]).record_time(begun.elapsed());
        answered
    }

    /// A place for a call that nobody waits for, unless too many are under way.
    pub(crate) fn detached(&self, called: &Called) -> Result<OwnedSemaphorePermit, Failure> {
        self.detached.clone().try_acquire_owned().map_err(|_| {
            TARGET_CALLS.with(&[kind(called), Failure::Busy.name()]).count();
            Failure::Busy
        })
    }

    async fn seated(&self, called: &Called, call: &Call) -> Result<Bytes, Failure> {
        // That of the target first: those that wait for a slow one take no seats from the others.
        let _of_target = called.seats.acquire().await.map_err(|_| Failure::Timeout)?;
        let _of_node = self.seats.acquire().await.map_err(|_| Failure::Timeout)?;
        let response = self.send(called, call).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(Failure::Status(status.as_u16()));
        }
        match called.target.kind {
            TargetKind::RestWebhook => Ok(Bytes::new()),
            TargetKind::RestRequestResponse => read(response).await,
        }
    }

    async fn send(&self, called: &Called, call: &Call) -> Result<Response, Failure> {
        let url = Url::parse(&called.target.url).map_err(|_| Failure::Url)?;
        let may = match url.host() {
            Some(Host::Domain(name)) => self.allowed.has_name(name),
            Some(Host::Ipv4(address)) => self.allowed.has_address(address.into()),
            Some(Host::Ipv6(address)) => self.allowed.has_address(address.into()),
            None => return Err(Failure::Url),
        };
        if !may {
            return Err(Failure::Forbidden);
        }
        let now = clock::now().as_second();
        let signed = (called.instance_id.as_str(), &called.target);
        let signature = signature::sign(&self.keyring, signed, now, &call.body).await?;
        let request = self
            .http
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, "platform")
            .header(signature::HEADER, signature)
            .header(DELIVERY, &call.delivery_id)
            .header(DEPTH, call.depth + 1)
            .header("traceparent", &call.trace_context)
            .body(call.body.clone());
        request.send().await.map_err(Failure::of)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

/// What metrics call the type of a target.
fn kind(called: &Called) -> &'static str {
    match called.target.kind {
        TargetKind::RestWebhook => "webhook",
        TargetKind::RestRequestResponse => "request_response",
    }
}

async fn read(mut response: Response) -> Result<Bytes, Failure> {
    if response.content_length().is_some_and(|length| length > LARGEST_ANSWER as u64) {
        return Err(Failure::TooLarge);
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(Failure::of)? {
        if body.len() + chunk.len() > LARGEST_ANSWER {
            return Err(Failure::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}
