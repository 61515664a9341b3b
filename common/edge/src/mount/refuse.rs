//! Refuses requests before or instead of a handler, over the transport that they came by.

use std::sync::LazyLock;

use axum::{extract::Request, response::Response};

use super::{body, over_grpc::Grpc, over_http::Http, wire::Wire};
use crate::{
    error::Error,
    observe::{Meter, Transport},
    request_id::{identified, identify},
};

/// Refuses a request that belongs to no handler, over the transport that it came by.
pub async fn refuse(request: Request, error: Error) -> Response {
    static METER: LazyLock<Meter> = LazyLock::new(|| Meter::new("none", "none"));
    refuse_of(&METER, request, error).await
}

/// Refuses a request to an operation, over the transport that it came by.
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
