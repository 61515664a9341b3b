//! Calls one target: only at permitted addresses, within bounds of time, size and number, and signed.
//!
//! An address is checked when a name is resolved, and the checked address is connected to, so that a name which changes
//! its address in between (DNS rebinding) achieves nothing. Redirects are not followed. A call holds no thread while it
//! waits.

mod resolve;

use std::{sync::Arc, time::Duration};

use base::{
    clock,
    metric::catalog::{TARGET_CALLS, TARGET_DURATION},
};
use bytes::{Bytes, BytesMut};
use domain::{address::Allowed, resource::target::TargetKind};
use http::header::{CONTENT_TYPE, USER_AGENT};
use reqwest::{Response, redirect, retry};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};
use url::{Host, Url};
use view::keyring::Keyring;

use crate::{
    DEPTH,
    executions::CallableTarget,
    signature::{self, Unsigned},
};

/// The largest answer, in bytes.
pub const LARGEST_ANSWER: usize = 1024 * 1024;
/// The largest list of headers of an answer, in bytes.
const LARGEST_HEADERS: u32 = 64 * 1024;
/// The most concurrent calls of a node: several times what one instance may have.
const MOST_CALLS: usize = 4096;
/// The most memory of a node for calls that nobody waits for, in KiB. Each counts as one at least.
const MOST_DETACHED: usize = 64 * 1024;
/// How many idle connections to one host stay open, and for how long.
const IDLE_CONNECTIONS: usize = 64;
const IDLE: Duration = Duration::from_secs(30);
/// The header with the id of a delivery, the same for every retry.
pub const DELIVERY: &str = "platform-delivery-id";

/// Calls targets.
pub struct Client {
    http: reqwest::Client,
    allowed: Arc<Allowed>,
    keyring: Keyring,
    seats: Arc<Semaphore>,
    /// The memory left for calls that nobody waits for, in KiB.
    detached: Arc<Semaphore>,
}

/// A call of a target.
#[derive(Debug, Clone)]
pub struct Call {
    /// The id of the delivery, the same for every retry.
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
pub enum CallFailure {
    /// It would be sent to a machine that must not be called.
    #[error("the target is at an address that may not be called")]
    Forbidden,
    /// The URL cannot be called.
    #[error("the URL of the target cannot be called")]
    Url,
    /// Too many calls are under way or waiting.
    #[error("too many calls of targets are under way")]
    Busy,
    /// There was no answer in time.
    #[error("the target did not answer in time")]
    Timeout,
    /// There was no connection, or it broke.
    #[error("the target cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    /// The answer was not a success.
    #[error("the target answered with status {0}")]
    Status(u16),
    /// The answer is too large.
    #[error("the answer of the target is too large")]
    TooLarge,
    /// The answer is not JSON, or does not fit the message.
    #[error("the answer of the target does not fit the message: {0}")]
    Malformed(String),
    /// The target answered that it failed, and how.
    #[error("{message}")]
    Refused {
        /// The HTTP status for the caller.
        status: Option<u16>,
        /// The message for the caller.
        message: String,
    },
    /// The call cannot be signed.
    #[error("the call cannot be signed")]
    Unsigned(#[from] Unsigned),
}

impl CallFailure {
    /// Returns the name in metrics.
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
        // URLs may contain secrets.
        if resolve::was_forbidden(&error) { Self::Forbidden } else { Self::Unreachable(error.without_url()) }
    }
}

impl Client {
    /// Creates a client that calls the public internet and what is allowed beyond.
    ///
    /// # Errors
    /// If the machine's certificates cannot be read.
    pub fn new(allowed: Arc<Allowed>, keyring: Keyring) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .no_gzip()
            .referer(false)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .dns_resolver(Arc::new(resolve::Checked::new(allowed.clone())))
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

    /// Calls a target and returns its answer; that of a webhook is not read. If its instance already has too many
    /// calls, it fails at once, so that waiting requests do not pile up.
    pub async fn call(&self, called: &CallableTarget, call: &Call) -> Result<Bytes, CallFailure> {
        let Ok(_place) = called.share.places.try_acquire() else { return Err(busy(called)) };
        self.in_time(called, call, called.target.kind == TargetKind::RestRequestResponse).await
    }

    /// Delivers an event to a target, once fewer than the most are in progress. Only the status of the answer matters.
    pub async fn notify(&self, called: &CallableTarget, call: &Call) -> Result<(), CallFailure> {
        let _place = called.share.notifications.acquire().await.map_err(|_| CallFailure::Busy)?;
        self.in_time(called, call, false).await.map(drop)
    }

    /// Reserves room for a call that nobody waits for, unless there are too many.
    pub(crate) fn detached(
        &self,
        called: &CallableTarget,
        call: &Call,
    ) -> Result<[OwnedSemaphorePermit; 2], CallFailure> {
        let size = u32::try_from(call.body.len().div_ceil(1024)).unwrap_or(u32::MAX).max(1);
        let room = |of: &Arc<Semaphore>| of.clone().try_acquire_many_owned(size).map_err(|_| busy(called));
        Ok([room(&called.share.detached)?, room(&self.detached)?])
    }

    /// Waiting for a seat counts as waiting for the target.
    async fn in_time(
        &self,
        called: &CallableTarget,
        call: &Call,
        is_answer_wanted: bool,
    ) -> Result<Bytes, CallFailure> {
        let begun = Instant::now();
        let limit = Duration::from_millis(called.target.timeout_ms);
        let answered = timeout(limit, self.call_with_seats(called, call, is_answer_wanted)).await;
        let answered = answered.unwrap_or(Err(CallFailure::Timeout));
        let kind = kind(called);
        TARGET_CALLS.with(&[kind, answered.as_ref().map_or_else(CallFailure::name, |_| "ok")]).count();
        TARGET_DURATION.with(&[kind]).record_time(begun.elapsed());
        answered
    }

    async fn call_with_seats(
        &self,
        called: &CallableTarget,
        call: &Call,
        is_answer_wanted: bool,
    ) -> Result<Bytes, CallFailure> {
        // The target's seat first: calls that wait for a slow target take no seats from the others.
        let _of_target = called.seats.acquire().await.map_err(|_| CallFailure::Timeout)?;
        let _of_node = self.seats.acquire().await.map_err(|_| CallFailure::Timeout)?;
        let response = self.send(called, call).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(CallFailure::Status(status.as_u16()));
        }
        if is_answer_wanted { read(response).await } else { Ok(Bytes::new()) }
    }

    async fn send(&self, called: &CallableTarget, call: &Call) -> Result<Response, CallFailure> {
        let url = Url::parse(&called.target.url).map_err(|_| CallFailure::Url)?;
        if !may_call(&self.allowed, &url) {
            return Err(CallFailure::Forbidden);
        }
        let signature = signature::sign(&self.keyring, called, clock::now().as_millisecond(), &call.body).await?;
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
        request.send().await.map_err(CallFailure::of)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

/// Whether a URL may be called, as far as the URL alone shows. The addresses of its name are checked when it is called.
pub fn may_call(allowed: &Allowed, url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => allowed.has_name(name),
        Some(Host::Ipv4(address)) => allowed.has_address(address.into()),
        Some(Host::Ipv6(address)) => allowed.has_address(address.into()),
        None => false,
    }
}

/// Returns the type of a target as named in metrics.
fn kind(called: &CallableTarget) -> &'static str {
    match called.target.kind {
        TargetKind::RestWebhook => "webhook",
        TargetKind::RestRequestResponse => "request_response",
    }
}

fn busy(called: &CallableTarget) -> CallFailure {
    TARGET_CALLS.with(&[kind(called), CallFailure::Busy.name()]).count();
    CallFailure::Busy
}

async fn read(mut response: Response) -> Result<Bytes, CallFailure> {
    if response.content_length().is_some_and(|length| length > LARGEST_ANSWER as u64) {
        return Err(CallFailure::TooLarge);
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(CallFailure::of)? {
        if body.len() + chunk.len() > LARGEST_ANSWER {
            return Err(CallFailure::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}
