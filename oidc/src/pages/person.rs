//! Who somebody is that a browser knows, as pages need it.

use std::sync::Arc;

use base::fold::fold;
use domain::{
    person::{Contact, Person},
    resource::user::{
        contact::{EMAIL, Kind, PHONE},
        password::outdated,
    },
};
use view::directory::Principal;

use super::browser::Account;

/// An account of a browser whose user is known.
pub(super) struct Known {
    pub(super) account: Account,
    pub(super) user: Arc<Principal>,
    /// When the password was checked in its session, in milliseconds since 1970.
    pub(super) checked_at: Option<i64>,
}

impl Known {
    /// Whether the person may log in, and need not say or choose a password for that.
    pub(super) fn is_logged_in(&self) -> bool {
        let password = self.user.user.password.as_ref();
        self.user.is_live && self.checked_at.is_some_and(|checked_at| outdated(password, checked_at).is_none())
    }

    /// By what the person logs in.
    pub(super) fn login_name(&self) -> &str {
        login_name(&self.user)
    }

    /// Whether something is the e-mail address or the phone number of the person.
    fn is_reached_by(&self, said: &str) -> bool {
        let Some(person) = self.user.user.person() else { return false };
        let is_it = |(kind, contact): (Kind, &Option<Contact>)| {
            let plain = |written: &str| fold(&kind.hashed(written).value);
            contact.as_ref().is_some_and(|contact| plain(&contact.value) == plain(said))
        };
        [(EMAIL, &person.email), (PHONE, &person.phone)].into_iter().any(is_it)
    }

    /// What the person is called.
    pub(super) fn name(&self) -> String {
        self.user.user.person().map_or_else(|| self.user.user.username.clone(), Person::name)
    }
}

/// Whom of them somebody says to be: by the login name, or else by an e-mail address or phone number that only one of them has.
pub(super) fn called<'a>(known: &'a [Known], said: &str) -> Option<&'a Known> {
    let by_name = known.iter().find(|known| fold(known.login_name()) == fold(said));
    let mut by_contact = known.iter().filter(|known| known.is_reached_by(said));
    by_name.or_else(|| by_contact.next().filter(|_| by_contact.next().is_none()))
}

/// An account as a page shows it.
pub(super) struct Shown {
    pub(super) user_id: String,
    pub(super) login_name: String,
    pub(super) name: String,
}

impl From<&Known> for Shown {
    fn from(known: &Known) -> Self {
        let (login_name, name) = (known.login_name().to_owned(), known.name());
        Self { user_id: known.account.user_id.clone(), login_name, name }
    }
}

/// By what a person logs in.
pub(super) fn login_name(user: &Principal) -> &str {
    user.user.person().map_or(&user.user.username, |person| &person.username)
}
