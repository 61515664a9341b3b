//! Errors, reported in the same way over gRPC and HTTP.
//!
//! Every error has a [`Reason`], which is stable and listed in docs/errors.md; code and HTTP status follow from it.

mod fault;
mod reason;
mod wire;

use std::{borrow::Cow, fmt, time::Duration};

use base::{explain::explain, secret};
use http::StatusCode;
use proto::{Rule, Violation};
use tonic::Code;

use self::fault::Names;
pub use self::{fault::FieldFault, reason::Reason};

/// Why a request was not served.
#[derive(Debug)]
pub struct Error(Box<Details>);

/// What a client gets to know.
#[derive(Debug)]
struct Details {
    reason: Reason,
    /// The message for people; where there is none, it is made of the faults of the fields.
    message: Option<String>,
    metadata: Vec<(&'static str, String)>,
    /// The metadata key of the path of the first field.
    path_as: Option<&'static str>,
    headers: Vec<(&'static str, String)>,
    fields: Vec<FieldFault>,
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
        Self::with_fields(reason, Some(message.into()), vec![])
    }

    /// An error about fields; its message is made of their faults.
    pub fn of_fields(reason: Reason, fields: Vec<FieldFault>) -> Self {
        Self::with_fields(reason, None, fields)
    }

    fn with_fields(reason: Reason, message: Option<String>, fields: Vec<FieldFault>) -> Self {
        Self(Box::new(Details {
            reason,
            message,
            metadata: Vec::new(),
            path_as: None,
            headers: Vec::new(),
            fields,
            retry_after: None,
            request_id: None,
            forwarded: None,
        }))
    }

    /// A failure that is not revealed to the client: it is logged here, once, and the client gets the number under
    /// which it is found in the log.
    pub fn internal(failure: &(dyn std::error::Error + 'static)) -> Self {
        let error_id = secret::random_text(12);
        tracing::error!(error_id, error = %explain(failure), "a request failed");
        Self::new(Reason::Internal, format!("internal error {error_id}")).with("errorId", error_id)
    }

    /// Fields that break their rules; all of them are in the message too.
    pub fn invalid(violations: Vec<Violation>) -> Self {
        Self::of_fields(Reason::InvalidRequest, violations.into_iter().map(FieldFault::from).collect())
    }

    /// Adds an entry to the metadata for programs.
    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.0.metadata.push((key, value.into()));
        self
    }

    /// Adds an HTTP header, which is gRPC metadata too, as an answer would have it.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.headers.push((name, value.into()));
        self
    }

    /// Adds the path of the first field to the metadata.
    pub(crate) fn with_path(mut self, key: &'static str) -> Self {
        self.0.path_as = Some(key);
        self
    }

    /// Adds a field that breaks its rule.
    pub fn violation(mut self, field: impl Into<String>, rule: impl Into<Rule>) -> Self {
        self.0.fields.push(FieldFault::new(field, rule));
        self
    }

    /// Adds the time after which a retry makes sense.
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.0.retry_after = Some(delay);
        self
    }

    /// Adds the id of the request.
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

    /// The message for people, with these names of fields.
    fn message(&self, names: Names) -> Cow<'_, str> {
        let told = &*self.0;
        let of_fields = || told.fields.iter().map(|fault| fault.sentence(names)).collect::<Vec<_>>().join("; ").into();
        told.message.as_deref().map_or_else(of_fields, Cow::Borrowed)
    }

    /// The metadata for programs, with these names of fields.
    fn metadata(&self, names: Names) -> Vec<(&'static str, String)> {
        let path = self.0.path_as.zip(self.0.fields.first()).map(|(key, fault)| (key, fault.field(names)));
        path.into_iter().chain(self.0.metadata.iter().cloned()).collect()
    }

    /// The gRPC code and the HTTP status.
    fn codes(&self) -> (Code, StatusCode) {
        self.0.forwarded.unwrap_or((self.0.reason.code(), self.0.reason.http_status()))
    }

    /// The time after which a retry makes sense, if it is known.
    pub fn delay(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The reason.
    pub fn reason(&self) -> Reason {
        self.0.reason
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message(Names::Proto))
    }
}

impl std::error::Error for Error {}
