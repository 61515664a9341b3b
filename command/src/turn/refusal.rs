//! Why a command is not decided: because it is refused, or because the turn lacks what the decision rests on.

use domain::rejection::Rejection;
use edge::error::Error;
use eventlog::record::Undecodable;
use view::history::Needs;

/// A command is refused, with this error.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Error>);

/// What kept a turn from a verdict that counts.
#[derive(Debug)]
pub(crate) enum Lack {
    /// It has to be loaded first.
    Missing(Needs),
    /// An event was written by a newer build, which this one cannot read.
    Newer(Box<Undecodable>),
    /// It cannot be read at all.
    Unreadable(Box<Error>),
}

impl From<Refusal> for Box<Error> {
    fn from(refusal: Refusal) -> Self {
        refusal.0
    }
}

impl From<Undecodable> for Lack {
    fn from(event: Undecodable) -> Self {
        if event.is_newer() {
            Self::Newer(Box::new(event))
        } else {
            Self::Unreadable(Box::new(Error::internal(&event)))
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(Box::new(error))
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Error::from(rejection).into()
    }
}
