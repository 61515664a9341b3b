//! What the transports have in common.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use proto::operation::Facts;

use super::operation::{Invocation, Operation};
use crate::{answer::Answer, error::Error, message::AnyMessage, observe::Transport};

/// A transport of requests and answers.
pub(super) trait Wire: Sync {
    /// The kind of transport.
    fn transport(&self) -> Transport;

    /// Reads a request.
    fn read<C: 'static>(
        &self,
        operation: &Arc<dyn Operation<C>>,
        parts: Parts,
        body: Body,
    ) -> impl Future<Output = Result<Box<dyn Invocation<C>>, Error>> + Send;

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
