//! What the transports have in common.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use proto::operation::Facts;

use super::operation::{Asked, Operation};
use crate::{answer::Answer, error::Error, message::AnyMessage, observe::Transport};

/// A way in which requests and answers travel.
pub(super) trait Wire: Sync {
    /// What it is.
    fn transport(&self) -> Transport;

    /// Reads a request.
    fn read<C: 'static>(
        &self,
        operation: &Arc<dyn Operation<C>>,
        parts: Parts,
        body: Body,
    ) -> impl Future<Output = Result<Box<dyn Asked<C>>, Error>> + Send;

    /// Writes an answer.
    fn write(&self, facts: &Facts, answer: Answer<Box<dyn AnyMessage>>) -> Result<Response, Error>;

    /// Writes an error.
    fn refuse(&self, error: Error) -> Response;
}

/// Adds metadata to headers; what cannot be a header is left out.
pub(super) fn add(headers: &mut HeaderMap, metadata: Vec<(&str, String)>) {
    for (name, value) in metadata {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}
