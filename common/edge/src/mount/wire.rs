//! What the transports have in common.

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use prost::Message;
use proto::{Validate, operation::Facts};
use serde::{Serialize, de::DeserializeOwned};

use crate::{answer::Answer, error::Error, observe::Transport};

/// A way in which requests and answers travel.
pub(super) trait Wire: Sync {
    /// What it is.
    fn transport(&self) -> Transport;

    /// Reads a request.
    fn read<I: Message + DeserializeOwned + Validate + Default + 'static>(
        &self,
        facts: &'static Facts,
        parts: Parts,
        body: Body,
    ) -> impl Future<Output = Result<I, Error>> + Send;

    /// Writes an answer.
    fn write<O: Message + Serialize>(&self, facts: &Facts, answer: Answer<O>) -> Result<Response, Error>;

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
