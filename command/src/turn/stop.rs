//! Why a turn ends without a decision.

use domain::rejection::Rejection;
use edge::error::Error;
use eventlog::record::Undecodable;

/// Why a command is not decided.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It needs to know more; see [`Turn::into_missing`](super::Turn::into_missing).
    Missing,
    /// It is refused.
    Refused(Box<Error>),
    /// It rests on an event of a newer build.
    Newer(Box<Undecodable>),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl From<Rejection> for Stop {
    fn from(rejection: Rejection) -> Self {
        Error::from(rejection).into()
    }
}
