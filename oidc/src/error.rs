//! The errors of the OAuth endpoints, by their RFC names.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use base::explain::explain;
use edge::error::Reason;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use view::{database::DatabaseFailure, keyring::KeyringFailure};

/// An error of an endpoint that clients send forms to (RFC 6749, section 5.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Error {
    /// The request lacks, repeats or mangles a parameter.
    InvalidRequest(&'static str),
    /// Client authentication failed; the answer never says why.
    InvalidClient,
    /// The grant, such as a code, is not valid; the reason is for the developer of the client (RFC 6749, section 5.2).
    InvalidGrant(&'static str),
    /// The client may not use the grant type.
    UnauthorizedClient(&'static str),
    /// The grant type is not one of this server.
    UnsupportedGrantType,
    /// The token is of a type that cannot be revoked here (RFC 7009, section 2.2.1).
    UnsupportedTokenType(&'static str),
    /// The scope is missing or malformed.
    InvalidScope(&'static str),
    /// No token is issued for that audience or resource (RFC 8693, section 2.2.2).
    InvalidTarget(&'static str),
    /// A target of the operator has refused.
    AccessDenied(String),
    /// The request is valid, but cannot be answered at the moment.
    Unavailable,
    /// The server has failed.
    Server,
}

/// Why a request is refused. Only an unknown host is answered in the platform's own form.
pub(crate) enum Refused {
    OAuth(Error),
    Platform(edge::error::Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::OAuth(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::OAuth(error) => error.into_response(),
            Self::Platform(error) => error.into_response(),
        }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    error: &'a str,
    error_description: &'a str,
}

impl Error {
    fn parts(&self) -> (StatusCode, &'static str, &str) {
        match self {
            Self::InvalidRequest(description) => (StatusCode::BAD_REQUEST, "invalid_request", description),
            Self::InvalidClient => (StatusCode::UNAUTHORIZED, "invalid_client", "client authentication failed"),
            Self::InvalidGrant(description) => (StatusCode::BAD_REQUEST, "invalid_grant", description),
            Self::UnauthorizedClient(description) => (StatusCode::BAD_REQUEST, "unauthorized_client", description),
            Self::UnsupportedGrantType => (
                StatusCode::BAD_REQUEST,
                "unsupported_grant_type",
                "the discovery document of the server lists the grant types that it supports",
            ),
            Self::UnsupportedTokenType(description) => (StatusCode::BAD_REQUEST, "unsupported_token_type", description),
            Self::InvalidScope(description) => (StatusCode::BAD_REQUEST, "invalid_scope", description),
            Self::InvalidTarget(description) => (StatusCode::BAD_REQUEST, "invalid_target", description),
            Self::AccessDenied(description) => (StatusCode::BAD_REQUEST, "access_denied", description),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "temporarily_unavailable",
                "the request cannot be answered at the moment",
            ),
            Self::Server => (StatusCode::INTERNAL_SERVER_ERROR, "server_error", "something went wrong here"),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, error, error_description) = self.parts();
        let mut response = (status, Json(Body { error, error_description })).into_response();
        no_store(&mut response);
        response.extensions_mut().insert(edge::error::Refused(error));
        let headers = response.headers_mut();
        match self {
            Self::InvalidClient => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"token\""));
            }
            Self::Unavailable => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

impl From<KeyringFailure> for Error {
    fn from(failure: KeyringFailure) -> Self {
        tracing::warn!(error = %explain(&failure), "a data key is unavailable");
        match failure {
            KeyringFailure::WrongMasterKey => Self::Server,
            KeyringFailure::Absent { .. } | KeyringFailure::Lags | KeyringFailure::Database(_) => Self::Unavailable,
        }
    }
}

impl From<edge::error::Error> for Error {
    fn from(error: edge::error::Error) -> Self {
        tracing::warn!(reason = error.reason().name(), "the read model cannot be read, or not what has ended");
        Self::Unavailable
    }
}

impl From<Arc<DatabaseFailure>> for Error {
    fn from(failure: Arc<DatabaseFailure>) -> Self {
        tracing::warn!(error = %explain(&*failure), "the read model cannot be read");
        Self::Unavailable
    }
}

/// Converts an error for the API, which only reports that a request cannot be answered.
impl From<Error> for edge::error::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Server => Self::internal(&Unusable),
            _ => Self::new(Reason::ReadModelUnavailable, "the request cannot be answered at the moment")
                .retry_after(Duration::from_secs(1)),
        }
    }
}

/// A key or an entry of the platform cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("a key or an entry cannot be used; the line before has the cause")]
struct Unusable;

/// Keeps an answer out of every cache (RFC 6749, section 5.1).
pub(crate) fn no_store(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
}

/// Answers other methods than POST at the endpoints that clients send forms to (RFC 6749, section 3.2; RFC 7662,
/// section 2.1).
pub(crate) async fn takes_post() -> Response {
    method_not_allowed("POST")
}

/// Answers a method that an endpoint does not accept.
pub(crate) fn method_not_allowed(allowed: &'static str) -> Response {
    let error_description = &format!("this endpoint takes {allowed} only");
    let body = Body { error: "invalid_request", error_description };
    let mut response = (StatusCode::METHOD_NOT_ALLOWED, Json(body)).into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}
