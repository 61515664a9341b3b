//! Why a command is not decided: because it is refused, or because the turn lacks what the decision depends on.

use std::mem;

use domain::rejection::Rejection;
use edge::error::Error;
use eventlog::record::Undecodable;
use view::history::{Followed, Needs};

use super::Turn;

/// The refusal of a command, with its error.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Error>);

/// What a turn lacked for a valid verdict.
#[derive(Debug)]
pub(crate) enum Lack {
    /// Something has to be loaded first.
    Missing(Needs),
    /// An event was written by a newer build, which this one cannot read.
    Newer(Box<Undecodable>),
    /// Something cannot be read at all.
    Unreadable(Box<Error>),
}

impl Turn<'_> {
    /// Returns what the command lacked for a valid verdict. It is checked before any verdict is looked at.
    pub(crate) fn lack(&mut self) -> Option<Lack> {
        let mut missing = mem::take(&mut self.missing);
        if self.loads_found {
            missing.followed = Followed { claims: missing.claims.clone(), referrers: missing.referrers.clone() };
        }
        self.unreadable.take().or_else(|| (!missing.is_empty()).then_some(Lack::Missing(missing)))
    }

    /// Has the holders of missing claims, and those who refer to what is missing, loaded in the same load: no second
    /// load reveals that there are any. What they belong to is not, but mostly is in memory.
    pub(crate) fn load_found_aggregates(&mut self) {
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
