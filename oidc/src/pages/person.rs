//! The users whose accounts a browser has.

use std::sync::Arc;

use base::fold::fold;
use domain::{
    person::{Contact, Person},
    resource::user::{contact::Kind, password::outdated},
};
use view::directory::Principal;

use super::browser::Account;

/// An account of a browser with its user.
pub(super) struct KnownAccount {
    pub(super) account: Account,
    pub(super) user: Arc<Principal>,
    /// When the password was checked in its session, in milliseconds since 1970.
    pub(super) checked_at: Option<i64>,
}

impl KnownAccount {
    /// Whether the person may log in, and need not enter or choose a password for that.
    pub(super) fn is_logged_in(&self) -> bool {
        let password = self.user.user.password.as_ref();
        self.user.is_live && self.checked_at.is_some_and(|checked_at| outdated(password, checked_at).is_none())
    }

    /// Returns the login name of the person.
    pub(super) fn login_name(&self) -> &str {
        login_name(&self.user)
    }

    /// Returns the person's contact of one of these kinds that equals what was entered.
    fn contact(&self, kinds: &[Kind], said: &str) -> Option<&Contact> {
        let person = self.user.user.person()?;
        let is_said = |kind: &Kind, contact: &Contact| {
            let plain = |written: &str| fold(&kind.claim(written).value);
            plain(&contact.value) == plain(said)
        };
        kinds.iter().find_map(|kind| kind.of(person).filter(|contact| is_said(kind, contact)))
    }

    /// Returns the name of the person, or the user name of a service user.
    pub(super) fn name(&self) -> String {
        self.user.user.person().map_or_else(|| self.user.user.username.clone(), Person::name)
    }
}

/// Finds an account by what was entered: by the login name, or else by a verified contact of one of these kinds, if
/// only one account has it.
pub(super) fn called<'a>(known: &'a [KnownAccount], said: &str, kinds: &[Kind]) -> Option<&'a KnownAccount> {
    let by_name = known.iter().find(|known| fold(known.login_name()) == fold(said));
    let has_it = |known: &&KnownAccount| known.contact(kinds, said).is_some_and(|it| it.is_verified);
    let mut having = known.iter().filter(has_it);
    by_name.or_else(|| having.next().filter(|_| having.next().is_none()))
}

/// An account as a page shows it.
pub(super) struct AccountView {
    pub(super) user_id: String,
    pub(super) login_name: String,
    pub(super) name: String,
}

impl From<&KnownAccount> for AccountView {
    fn from(known: &KnownAccount) -> Self {
        let (login_name, name) = (known.login_name().to_owned(), known.name());
        Self { user_id: known.account.user_id.clone(), login_name, name }
    }
}

/// Returns the login name of a user.
pub(super) fn login_name(user: &Principal) -> &str {
    user.user.person().map_or(&user.user.username, |person| &person.username)
}
