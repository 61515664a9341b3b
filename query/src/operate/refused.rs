//! Refusals of the API.

use edge::error::Error;
use http::StatusCode;

/// A refusal of the API.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Refused {
    /// A request that failed before it was sent.
    pub(super) fn of(error: &Error) -> Self {
        Self { status: error.reason().http_status(), message: error.to_string() }
    }

    /// The refusal if nothing has this name.
    pub(super) fn not_found() -> Self {
        Self { status: StatusCode::NOT_FOUND, message: String::new() }
    }
}
