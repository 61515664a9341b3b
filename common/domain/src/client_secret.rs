//! Client secrets: the newest one, and the previous one while both are valid.

use serde::{Deserialize, Serialize};

use crate::secret::Hashed;

/// The client secrets of an object. They are part of its state with `#[serde(flatten)]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSecrets {
    /// The keyed hash of the newest secret, if there is one.
    #[serde(flatten)]
    pub newest: Hashed,
    /// The previous secret, while it is valid beside its successor.
    #[serde(default)]
    pub previous: Option<Previous>,
}

/// A client secret that was replaced but may still be valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    /// Its keyed hash.
    #[serde(flatten)]
    pub secret: Hashed,
    /// Until when it is valid, in milliseconds since the Unix epoch.
    pub valid_until: i64,
}

/// The replacement of a secret by a new one.
#[derive(Debug, Clone)]
pub struct Renewal {
    /// The keyed hash of the new secret.
    pub secret: Hashed,
    /// Until when the previous secret is valid, in milliseconds since the Unix epoch; `None` if it ends at once.
    pub previous_until: Option<i64>,
}

impl ClientSecrets {
    /// Creates a list of one secret.
    pub fn one(newest: Hashed) -> Self {
        Self { newest, previous: None }
    }

    /// Returns the secrets after a new one has replaced the newest.
    #[must_use]
    pub fn renewed(self, renewal: Renewal) -> Self {
        let until = renewal.previous_until.filter(|_| self.newest.expose().is_some());
        let previous = until.map(|valid_until| Previous { secret: self.newest, valid_until });
        Self { newest: renewal.secret, previous }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_old_secret_is_valid_beside_the_new_one_if_at_all() {
        let renew = |secrets: ClientSecrets, secret: &str, previous_until| {
            secrets.renewed(Renewal { secret: Hashed::new(secret), previous_until })
        };
        let first = renew(ClientSecrets::default(), "first", Some(10));
        assert_eq!(first, ClientSecrets::one(Hashed::new("first")), "there was none before");
        let second = renew(first, "second", Some(20));
        assert_eq!(second.previous, Some(Previous { secret: Hashed::new("first"), valid_until: 20 }));
        assert_eq!(second.newest.expose(), Some("second"));
        assert_eq!(renew(second, "third", None).previous, None);
    }
}
