//! Answers to requests that no operation is mounted for.

use axum::{Router, extract::Request, response::Response};

use super::{over_grpc::Grpc, refuse::refuse};
use crate::error::{Error, Reason};

/// Makes unknown paths and methods answer like everything else. This comes last: axum gives these answers to the routes
/// that it has by then, and routers that both have such answers cannot be merged.
pub fn fallbacks(router: Router) -> Router {
    router.fallback(not_found).method_not_allowed_fallback(not_allowed)
}

async fn not_found(request: Request) -> Response {
    let (reason, what) = match Grpc::of(request.headers()) {
        Some(_) => (Reason::NotImplemented, "method"),
        None => (Reason::RouteNotFound, "path"),
    };
    let message = format!("there is no {what} {}", request.uri().path());
    refuse(request, Error::new(reason, message)).await
}

async fn not_allowed(request: Request) -> Response {
    let message = format!("{} has no method {}", request.uri().path(), request.method());
    refuse(request, Error::new(Reason::MethodNotAllowed, message)).await
}
