//! The person who logged in last with a password. For a name that does not exist this person is looked up and compared
//! in the same way, so that it takes as long.

use std::sync::{Mutex, PoisonError};

use domain::{
    context::Owner,
    resource::user::{Human, Password},
};
use eventlog::record::AggregateKey;

/// A person who may log in, and with what.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: AggregateKey,
    pub(crate) owner: Owner,
    pub(crate) human: Human,
    pub(crate) password: Password,
}

/// The person who logged in last with a password.
#[derive(Default)]
pub struct LastLogin(Mutex<Option<Login>>);

impl LastLogin {
    pub(crate) fn last(&self) -> Option<Login> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn remember(&self, login: &Login) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(login.clone());
    }
}
