//! That the API has refused something, and why.

use edge::error::Error;
use http::StatusCode;

/// What the API has said.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl Refused {
    /// What never reached it.
    pub(super) fn of(error: &Error) -> Self {
        Self { status: error.reason().http_status(), message: error.to_string() }
    }

    /// There is nothing of this name.
    pub(super) fn not_found() -> Self {
        Self { status: StatusCode::NOT_FOUND, message: String::new() }
    }
}
