//! What is kept of a password, and for how long one that was checked is enough.

use serde::{Deserialize, Serialize};

use crate::secret::Sealed;

/// What is kept of a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Password {
    /// Its hash, under the key of the person.
    #[serde(flatten)]
    pub hash: Sealed,
    /// When it was set, in milliseconds since 1970.
    pub changed_at: i64,
    /// Whether the person has to choose another one at the next login.
    #[serde(default)]
    pub is_change_required: bool,
    /// From when it lets nobody in any more, in milliseconds since 1970, where it is not for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

impl Password {
    /// Whether it lets nobody in any more at a time, in milliseconds since 1970.
    pub fn has_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// Why the password that was checked is not enough any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    /// The person has another one since, or none.
    Changed,
    /// It is good for nothing else than to choose another one.
    MustChoose,
}

impl Outdated {
    /// What is said of it.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Changed => "the password was changed since it was checked: check it again",
            Self::MustChoose => "the person must choose another password first, and have it checked",
        }
    }
}

/// Why the password that somebody has is not the one that was checked at a time, in milliseconds since 1970, or is not enough any
/// more, where that is so.
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
