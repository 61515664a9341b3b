//! Why a command is not decided: because it is refused, or because the turn lacks what the decision rests on.

use std::mem;

use domain::rejection::Rejection;
use edge::error::Error;
use eventlog::record::Undecodable;
use view::history::{Followed, Needs};

use super::Turn;

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

impl Turn<'_> {
    /// What kept the command from a verdict that counts. It is asked for before any verdict is looked at.
    pub(crate) fn lack(&mut self) -> Option<Lack> {
        let mut missing = mem::take(&mut self.missing);
        if self.loads_found {
            missing.followed = Followed { claims: missing.claims.clone(), referrers: missing.referrers.clone() };
        }
        self.unreadable.take().or_else(|| (!missing.is_empty()).then_some(Lack::Missing(missing)))
    }

    /// Has those loaded at once who hold the claims that are missing, or refer to what is: no second load tells that there are any.
    /// What they belong to is not, which is in memory mostly.
    pub(crate) fn loads_whoever_is_found(&mut self) {
        self.loads_found = true;
    }
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
