//! Conversions of rejections by the core, and by the API's vocabulary, to errors for clients.

use api::condition::Unknown;
use domain::rejection::{NOT_BUILT, Rejection};
use proto::Violation;

use crate::error::{Error, FieldFault, Reason};

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        let message = rejection.to_string();
        match rejection {
            Rejection::Invalid(violations) => {
                Self::invalid(violations.iter().map(|it| Violation::new(it.field, it.rule)).collect())
            }
            Rejection::NotFound(kind) => Self::new(Reason::ResourceNotFound, message).with("resource", kind),
            Rejection::AlreadyExists(kind) => Self::new(Reason::ResourceExists, message).with("resource", kind),
            Rejection::Precondition(_) => Self::new(Reason::PreconditionFailed, message),
            Rejection::NotBuilt(field) => {
                Self::of_fields(Reason::SettingNotBuilt, vec![FieldFault::new(field, NOT_BUILT)])
            }
        }
    }
}

impl From<Unknown> for Error {
    fn from(unknown: Unknown) -> Self {
        let Unknown { kind, path } = unknown;
        let fault = FieldFault::new(path, format!("must name an existing {kind}"));
        let fault = fault.worded(format!("no {kind} has the name given in "), "");
        Self::of_fields(Reason::ResourceNotFound, vec![fault]).with("resource", kind)
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Self::invalid(vec![violation])
    }
}
