//! Requests of pages to the API, in the name of the visitor.

use axum::{Router, body::Body, response::Response};
use bytes::Bytes;
use edge::error::Error;
use http::{HeaderValue, Method, Request, header, request::Parts};
use serde_json::Value;
use tower::ServiceExt;

use super::{refused::Refused, visit::Visit, writer::Writes};

/// The largest answer that is read: that of the longest list.
const LARGEST: usize = 32 << 20;

/// The operations of a platform, wherever they are executed.
pub(super) struct Api {
    reads: Router,
    pub(super) writes: Writes,
}

/// A request to the API.
pub(super) struct ApiRequest {
    method: Method,
    path: String,
    body: Option<Value>,
    /// The idempotency key, if it is a write.
    key: Option<String>,
    /// Whether the answer waits until the read models have the write.
    waits: bool,
}

impl ApiRequest {
    /// A request for one object.
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, key: None, waits: false }
    }

    /// A request for a list.
    pub(super) fn list(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::POST, path: path.into(), body: Some(body), key: None, waits: false }
    }

    /// A command, which is executed once however often it is sent with this key.
    pub(super) fn command(path: impl Into<String>, body: Value, key: impl Into<String>) -> Self {
        Self { method: Method::POST, path: path.into(), body: Some(body), key: Some(key.into()), waits: true }
    }

    /// A command whose effect no page reads, so it does not wait for read models, of which one may have stopped.
    pub(super) fn command_at_once(path: impl Into<String>, body: Value, key: impl Into<String>) -> Self {
        Self { waits: false, ..Self::command(path, body, key) }
    }

    /// Builds the request, as this visitor sends it.
    fn request(self, visit: &Visit) -> Result<(Parts, Bytes), http::Error> {
        let mut request = Request::builder().method(self.method).uri(self.path).header(header::HOST, &visit.authority);
        request = request.header(header::AUTHORIZATION, visit.bearer());
        request = request.header("x-request-id", &visit.request_id);
        let body = self.body.map(|body| body.to_string());
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = self.key {
            request = request.header("idempotency-key", key);
        }
        if self.waits {
            request = request.header("prefer", "wait=5");
        }
        let (parts, ()) = request.body(())?.into_parts();
        Ok((parts, body.unwrap_or_default().into()))
    }
}

impl Api {
    /// Uses these routes for reads, and this writer for commands.
    pub(super) fn new(reads: Router, writes: Writes) -> Self {
        Self { reads, writes }
    }

    /// Sends a request, and returns the answer.
    pub(super) async fn send(&self, visit: &Visit, asked: ApiRequest) -> Result<Value, Refused> {
        let is_command = asked.key.is_some();
        let (parts, body) = asked.request(visit).map_err(|error| Refused::of(&Error::internal(&error)))?;
        let response = if is_command {
            self.writes.answer(parts, body).await.map_err(|error| Refused::of(&error))?
        } else {
            let request = Request::from_parts(parts, Body::from(body));
            self.reads.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
        };
        answer(response).await
    }
}

async fn answer(response: Response) -> Result<Value, Refused> {
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), LARGEST).await;
    let body = body.map_err(|error| Refused::of(&Error::internal(&error)))?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status.is_success() {
        return Ok(answer);
    }
    Err(Refused { status, message: answer["message"].as_str().unwrap_or_default().to_owned() })
}
