//! The stored data of a password, and whether a check of it is still sufficient.

use serde::{Deserialize, Serialize};

use crate::secret::Sealed;

/// The stored data of a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Password {
    /// Its hash, encrypted under the key of the person.
    #[serde(flatten)]
    pub hash: Sealed,
    /// When it was set, in milliseconds since 1970.
    pub changed_at: i64,
    /// Whether the person has to choose another one at the next login.
    #[serde(default)]
    pub is_change_required: bool,
    /// When it expires, in milliseconds since 1970; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

impl Password {
    /// Whether it has expired at a time, in milliseconds since 1970.
    pub fn has_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// Why a check of the password is not sufficient any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    /// The person has set another one since, or has none.
    Changed,
    /// The password may only be used to choose another one.
    MustChoose,
}

impl Outdated {
    /// Returns the message for the caller.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Changed => "the password was changed since it was checked: check it again",
            Self::MustChoose => "the person must choose another password first, and have it checked",
        }
    }
}

/// Returns why a check of the password at a time, in milliseconds since 1970, is not sufficient any more, if so.
pub fn outdated(password: Option<&Password>, checked_at: i64) -> Option<Outdated> {
    match password {
        Some(password) if password.changed_at > checked_at => Some(Outdated::Changed),
        Some(password) if password.is_change_required => Some(Outdated::MustChoose),
        Some(_) => None,
        None => Some(Outdated::Changed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(changed_at: i64) -> Password {
        Password { hash: Sealed::new("a"), changed_at, is_change_required: false, expires_at: None }
    }

    #[test]
    fn a_password_lets_in_until_it_expires() {
        assert!(!of(7).has_expired(i64::MAX));
        let expiring = Password { expires_at: Some(9), ..of(7) };
        assert_eq!((expiring.has_expired(8), expiring.has_expired(9)), (false, true));
    }

    #[test]
    fn whoever_has_to_do_something_is_told_what() {
        for (outdated, message) in [
            (Outdated::Changed, "the password was changed since it was checked: check it again"),
            (Outdated::MustChoose, "the person must choose another password first, and have it checked"),
        ] {
            assert_eq!(outdated.message(), message);
        }
    }

    #[test]
    fn what_was_checked_is_enough_until_there_is_another_one() {
        let password = |is_change_required| Password { is_change_required, ..of(7) };
        let checked = |at| outdated(Some(&password(false)), at);
        assert_eq!((checked(7), checked(8)), (None, None));
        assert_eq!(checked(6), Some(Outdated::Changed));
        assert_eq!(outdated(Some(&password(true)), 8), Some(Outdated::MustChoose));
        assert_eq!(outdated(Some(&password(true)), 6), Some(Outdated::Changed), "first the new one is checked");
        assert_eq!(outdated(None, 8), Some(Outdated::Changed), "it was taken away");
    }
}
