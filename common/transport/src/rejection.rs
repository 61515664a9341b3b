//! How refusals of the core look to a client.

use domain::rejection::Rejection;

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
