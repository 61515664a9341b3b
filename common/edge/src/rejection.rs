//! How refusals of the core, and of the API's words, look to a client.

use api::condition::Unknown;
use domain::rejection::Rejection;
use proto::Violation;

use crate::error::{Error, Reason};

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        let message = rejection.to_string();
        match rejection {
            Rejection::Invalid(violations) => {
                let invalid = Self::new(Reason::InvalidRequest, message);
                violations.iter().fold(invalid, |error, violation| error.violation(violation.field, violation.rule))
            }
            Rejection::NotFound(kind) => Self::new(Reason::ResourceNotFound, message).with("resource", kind),
            Rejection::AlreadyExists(kind) => Self::new(Reason::ResourceExists, message).with("resource", kind),
            Rejection::Precondition(_) => Self::new(Reason::PreconditionFailed, message),
        }
    }
}

impl From<Unknown> for Error {
    fn from(unknown: Unknown) -> Self {
        let (kind, message) = (unknown.kind, unknown.to_string());
        let rule = format!("names no {kind} that there is");
        Self::new(Reason::ResourceNotFound, message).with("resource", kind).violation(unknown.path, rule)
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Self::invalid(vec![violation])
    }
}
