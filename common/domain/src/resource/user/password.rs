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
}

/// The person has another password since, or none.
pub const CHANGED: &str = "the password was changed since it was checked: check it again";
/// The one that was checked is good for nothing else than to choose another one.
pub const MUST_CHOOSE: &str = "the person must choose another password first, and have it checked";

/// Why the password that somebody has is not the one that was checked at a time, in milliseconds since 1970, or is not enough any
/// more, where that is so.
pub fn outdated(password: Option<&Password>, checked_at: i64) -> Option<&'static str> {
    match password {
        Some(password) if password.changed_at > checked_at => Some(CHANGED),
        Some(password) if password.is_change_required => Some(MUST_CHOOSE),
        Some(_) => None,
        None => Some(CHANGED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_checked_is_enough_until_there_is_another_one() {
        let password = |is_change_required| Password { hash: Sealed::new("a"), changed_at: 7, is_change_required };
        let checked = |at| outdated(Some(&password(false)), at);
        assert_eq!((checked(7), checked(8)), (None, None));
        assert!(checked(6).is_some_and(|why| why.contains("was changed")));
        assert!(outdated(Some(&password(true)), 8).is_some_and(|why| why.contains("must choose")));
        assert!(outdated(None, 8).is_some(), "it was taken away");
    }
}
