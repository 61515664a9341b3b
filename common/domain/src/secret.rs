//! Ciphertexts and hashes of secrets in states. Each type serialises as a single member of its own name, and
//! [`catalog::without_secrets`](crate::catalog::without_secrets) removes members of these names from everything that
//! leaves the platform: such values are never returned, without anybody having to think of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The names of all members that contain something secret.
pub(crate) const MEMBERS: [&str; 3] = ["sealed", "secret", "wrapped"];

/// A secret, encrypted under a data key of its instance. It is part of a state with `#[serde(flatten)]`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    sealed: String,
}

/// The keyed hash of a secret, base64url, or none. It is part of a state with `#[serde(flatten)]`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hashed {
    secret: Option<String>,
}

/// A key, encrypted under the master key. It is part of a state with `#[serde(flatten)]`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrapped {
    wrapped: String,
}

impl Sealed {
    /// Wraps a ciphertext.
    pub fn new(ciphertext: impl Into<String>) -> Self {
        Self { sealed: ciphertext.into() }
    }

    /// Returns the ciphertext, to open it.
    pub fn expose(&self) -> &str {
        &self.sealed
    }
}

impl Hashed {
    /// Wraps a hash.
    pub fn new(hash: impl Into<String>) -> Self {
        Self { secret: Some(hash.into()) }
    }

    /// Returns the hash, to compare it.
    pub fn expose(&self) -> Option<&str> {
        self.secret.as_deref()
    }
}

impl Wrapped {
    /// Wraps a ciphertext.
    pub fn new(ciphertext: impl Into<String>) -> Self {
        Self { wrapped: ciphertext.into() }
    }

    /// Returns the ciphertext, to open it.
    pub fn expose(&self) -> &str {
        &self.wrapped
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sealed").finish_non_exhaustive()
    }
}

impl fmt::Debug for Hashed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hashed").finish_non_exhaustive()
    }
}

impl fmt::Debug for Wrapped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Wrapped").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{catalog::without_secrets, with_unknown::WithUnknown};

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct State {
        name: String,
        #[serde(flatten)]
        anything: Sealed,
        #[serde(flatten)]
        else_: Hashed,
        nested: Vec<Wrapped>,
    }

    #[test]
    fn what_is_secret_is_taken_out_whatever_it_is_called() {
        let (anything, else_, nested) = (Sealed::new("x"), Hashed::new("y"), vec![Wrapped::new("z")]);
        let state = WithUnknown::from(State { name: "n".into(), anything, else_, nested });
        let mut payload = serde_json::to_value(&state).unwrap();
        let written = json!({ "name": "n", "sealed": "x", "secret": "y", "nested": [{ "wrapped": "z" }] });
        assert_eq!(payload, written);
        assert_eq!(serde_json::from_value::<WithUnknown<State>>(payload.clone()).unwrap(), state);
        without_secrets(&mut payload);
        assert_eq!(payload, json!({ "name": "n", "nested": [{}] }));
        let of_newer = json!({ "name": "n", "sealed": "x", "secret": "y", "nested": [{ "wrapped": "z", "new": "v" }] });
        let of_newer: WithUnknown<State> = serde_json::from_value(of_newer).unwrap();
        assert!(!format!("{of_newer:?}").contains("\"v\"") && of_newer.unknown() == ["nested[0].new"]);
        let told = format!("{state:?} {of_newer:?}");
        assert!(["\"x\"", "\"y\"", "\"z\""].iter().all(|secret| !told.contains(secret)), "{told}");
        assert!(["Sealed { .. }", "Hashed { .. }", "Wrapped { .. }"].iter().all(|name| told.contains(name)), "{told}");
    }

    #[test]
    fn what_is_wrapped_is_exposed_as_it_is() {
        assert_eq!((Sealed::new("x").expose(), Wrapped::new("z").expose()), ("x", "z"));
        assert_eq!(Hashed::new("y").expose(), Some("y"));
    }

    #[test]
    fn no_hash_is_written_as_null_and_read_where_it_is_missing() {
        assert_eq!(serde_json::to_value(Hashed::default()).unwrap(), json!({ "secret": null }));
        for none in [json!({}), json!({ "secret": null })] {
            assert_eq!(serde_json::from_value::<Hashed>(none).unwrap().expose(), None);
        }
    }
}
