//! What goes wrong, told in one way over gRPC and HTTP.
//!
//! Every error has a [`Reason`], which is stable and listed in docs/errors.md; code and HTTP status follow from it.

mod reason;
mod wire;

use std::{fmt, time::Duration};

use base::{explain::explain, secret};
use http::StatusCode;
use proto::Violation;
use tonic::Code;

pub use reason::Reason;

/// Why a request was not served.
#[derive(Debug)]
pub struct Error(Box<Told>);

/// What a client is told.
#[derive(Debug)]
struct Told {
    reason: Reason,
    message: String,
    metadata: Vec<(&'static str, String)>,
    headers: Vec<(&'static str, String)>,
    violations: Vec<Violation>,
    retry_after: Option<Duration>,
    request_id: Option<String>,
    /// The code and status that a target has chosen.
    forwarded: Option<(Code, StatusCode)>,
}

/// Why a request was refused, among the extensions of its answer.
#[derive(Debug, Clone, Copy)]
pub struct Refused(pub &'static str);

impl Error {
    /// An error with a message for people: lowercase, without a full stop.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self(Box::new(Told {
            reason,
            message: message.into(),
            metadata: Vec::new(),
            headers: Vec::new(),
            violations: Vec::new(),
            retry_after: None,
            request_id: None,
            forwarded: None,
        }))
    }

    /// A failure that is none of the client's business: it is logged here, once, and the client gets the number under
    /// which it stands in the log.
    pub fn internal(failure: &(dyn std::error::Error + 'static)) -> Self {
        let error_id = secret::random_text(12);
        tracing::error!(error_id, error = %explain(failure), "a request failed");
        Self::new(Reason::Internal, format!("internal error {error_id}")).with("errorId", error_id)
    }

    /// Fields that break their rules; all of them are in the message too.
    pub fn invalid(violations: Vec<Violation>) -> Self {
        let sentences: Vec<_> =
            violations.iter().map(|violation| format!("{} {}", violation.field, violation.description)).collect();
        Self::new(Reason::InvalidRequest, sentences.join("; ")).violations(violations)
    }

    /// Adds what programs may want to know.
    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.0.metadata.push((key, value.into()));
        self
    }

    /// Adds an HTTP header, which is gRPC metadata too, as an answer would have it.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.headers.push((name, value.into()));
        self
    }

    /// Adds a field that breaks its rule.
    pub fn violation(self, field: impl Into<String>, description: impl Into<String>) -> Self {
        self.violations(vec![Violation { field: field.into(), description: description.into() }])
    }

    /// Adds fields that break their rules.
    pub fn violations(mut self, violations: Vec<Violation>) -> Self {
        self.0.violations.extend(violations);
        self
    }

    /// Tells when it makes sense to try again.
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.0.retry_after = Some(delay);
        self
    }

    /// Names the request.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.0.request_id = Some(id.into());
        self
    }

    /// Answers with the HTTP status that a target has chosen, and with the code that goes with it.
    pub fn forwarded(mut self, status: StatusCode) -> Self {
        let code = match status.as_u16() {
            400 => Code::InvalidArgument,
            401 => Code::Unauthenticated,
            403 => Code::PermissionDenied,
            404 => Code::NotFound,
            409 => Code::AlreadyExists,
            429 => Code::ResourceExhausted,
            _ => Code::FailedPrecondition,
        };
        self.0.forwarded = Some((code, status));
        self
    }

    /// The gRPC code and the HTTP status.
    fn codes(&self) -> (Code, StatusCode) {
        self.0.forwarded.unwrap_or((self.0.reason.code(), self.0.reason.http_status()))
    }

    /// The reason.
    pub fn reason(&self) -> Reason {
        self.0.reason
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}
