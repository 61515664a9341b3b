//! Client secrets: the newest one, and the one before while it is valid beside it.

use serde::{Deserialize, Serialize};

use crate::secret::Hashed;

/// The client secrets that something has. They stand in a state with `#[serde(flatten)]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSecrets {
    /// The keyed hash of the newest, while there is one.
    #[serde(flatten)]
    pub newest: Hashed,
    /// The one before, while it is valid beside its successor.
    #[serde(default)]
    pub previous: Option<Previous>,
}

/// A client secret that has a successor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    /// Its keyed hash.
    #[serde(flatten)]
    pub secret: Hashed,
    /// Until when it is valid, in milliseconds since the Unix epoch.
    pub valid_until: i64,
}

/// A new secret takes over.
#[derive(Debug, Clone)]
pub struct Renewal {
    /// Its keyed hash.
    pub secret: Hashed,
    /// Until when the one before is valid, in milliseconds since the Unix epoch; `None` where it ends at once.
    pub previous_until: Option<i64>,
}

impl ClientSecrets {
    /// One secret.
    pub fn one(newest: Hashed) -> Self {
        Self { newest, previous: None }
    }

    /// What there is after a new secret has taken over.
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
