//! What the transports have in common.

use std::time::Duration;

use axum::{body::Body, extract::Request, middleware::Next, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use prost::Message;
use proto::{Validate, operation::Facts};
use serde::{Serialize, de::DeserializeOwned};

use super::{Answer, body, over_grpc::Grpc, over_http::Http};
use crate::{edge, error::Error};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A way in which requests and answers travel.
pub(super) trait Wire: Sync {
    /// Reads a request.
    fn read<I: Message + DeserializeOwned + Validate + Default>(
        &self,
        facts: &Facts,
        parts: Parts,
        body: Body,
    ) -> impl Future<Output = Result<I, Error>> + Send;

    /// Writes an answer.
    fn write<O: Message + Serialize>(&self, facts: &Facts, answer: Answer<O>) -> Result<Response, Error>;

    /// How long the client waits, where it says so.
    fn patience(&self, _: &HeaderMap) -> Option<Duration> {
        None
    }

    /// Writes an error.
    fn refuse(&self, error: Error) -> Response;
}

/// The id of a request. It stands in the headers from here on, whether the client gave one or not.
pub(super) fn identify(headers: &mut HeaderMap) -> String {
    let id = edge::request_id(headers);
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    id
}

/// An answer that names its request.
pub(super) fn identified(mut response: Response, id: &str) -> Response {
    add(response.headers_mut(), vec![(REQUEST_ID.as_str(), id.to_owned())]);
    response
}

/// Refuses a request that belongs to no handler, in the form it came in.
pub async fn refuse(request: Request, error: Error) -> Response {
    let (mut parts, body) = request.into_parts();
    let id = identify(&mut parts.headers);
    body::discard(&parts.headers, body).await;
    let error = error.request_id(&id);
    let response = match Grpc::of(&parts.headers) {
        Some(grpc) => grpc.refuse(error),
        None => Http.refuse(error),
    };
    identified(response, &id)
}

/// Adds metadata to headers; what cannot be a header is left out.
pub(super) fn add(headers: &mut HeaderMap, metadata: Vec<(&str, String)>) {
    for (name, value) in metadata {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}

/// A layer for routes that are no operations: it gives their requests and answers an id too.
pub async fn with_request_id(mut request: Request, next: Next) -> Response {
    let id = identify(request.headers_mut());
    identified(next.run(request).await, &id)
}
