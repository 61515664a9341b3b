//! What the transports have in common.

use std::sync::LazyLock;

use axum::{body::Body, extract::Request, response::Response};
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use prost::Message;
use proto::{Validate, operation::Facts};
use serde::{Serialize, de::DeserializeOwned};

use super::{body, over_grpc::Grpc, over_http::Http};
use crate::{
    answer::Answer,
    error::Error,
    observe::{Meter, Transport},
    request_id::{identified, identify},
};

/// A way in which requests and answers travel.
pub(super) trait Wire: Sync {
    /// What it is.
    fn transport(&self) -> Transport;

    /// Reads a request.
    fn read<I: Message + DeserializeOwned + Validate + Default>(
        &self,
        facts: &Facts,
        parts: Parts,
        body: Body,
    ) -> impl Future<Output = Result<I, Error>> + Send;

    /// Writes an answer.
    fn write<O: Message + Serialize>(&self, facts: &Facts, answer: Answer<O>) -> Result<Response, Error>;

    /// Writes an error.
    fn refuse(&self, error: Error) -> Response;
}

/// Refuses a request that belongs to no handler, in the form it came in.
pub async fn refuse(request: Request, error: Error) -> Response {
    static METER: LazyLock<Meter> = LazyLock::new(|| Meter::new("none", "none"));
    refuse_of(&METER, request, error).await
}

/// Refuses a request to an operation, in the form it came in.
pub(super) async fn refuse_of(meter: &Meter, request: Request, error: Error) -> Response {
    let (mut parts, body) = request.into_parts();
    let id = identify(&mut parts.headers);
    let grpc = Grpc::of(&parts.headers);
    let transport = grpc.map_or(Transport::Http, |grpc| grpc.transport());
    let answer = async {
        body::discard(&parts.headers, body).await;
        let reason = error.reason();
        let error = error.request_id(&id);
        let response = match grpc {
            Some(grpc) => grpc.refuse(error),
            None => Http.refuse(error),
        };
        (identified(response, &id), Some(reason))
    };
    meter.observe(transport, meter.span(&parts.headers, &id), answer).await
}

/// Adds metadata to headers; what cannot be a header is left out.
pub(super) fn add(headers: &mut HeaderMap, metadata: Vec<(&str, String)>) {
    for (name, value) in metadata {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}
