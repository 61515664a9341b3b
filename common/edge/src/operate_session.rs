//! Access to the pages of operators: sealed texts, which cannot be made, read or changed outside of the platform, and
//! are valid for one use and one instance only.
//!
//! A session holds a token: it ends with the token, and may do what the token may, on every node. Query nodes serve the
//! pages, and oidc nodes begin the sessions of people, so both parts are in this crate.

use std::sync::Arc;

use base::{clock, secret, secret::SymmetricKey};
use domain::context::Owner;
use serde::{Deserialize, Serialize};
use view::{
    directory::Principal,
    keyring::{Keyring, KeyringFailure, Purpose, SYSTEM},
};

/// The path of the pages.
pub const PATH: &str = "/ui/operate";
/// The cookie of a session.
pub const SESSION: &str = "operate";
/// The cookie of a browser in which somebody is about to log in.
pub const LOGIN: &str = "operate-login";

/// The permission to see the complete platform on the pages, in the system.
pub const OF_SYSTEM: &str = "system.debug.read";
/// The permission to see what failed of an instance, in that instance or in the system.
pub const OF_INSTANCE: &str = "failed_event.read";

/// Whether a user has a permission in the system.
pub fn may_in_system(user: &Principal, permission: &str) -> bool {
    user.may(permission, &[Owner::system()])
}

/// Whether a user has a permission in an instance. Permissions in the system hold in every instance.
pub fn may_in_instance(user: &Principal, instance_id: &str, permission: &str) -> bool {
    user.may(permission, &[Owner::instance(instance_id), Owner::system()])
}

/// Whether there is anything on the pages that a user of an instance may see.
pub fn shows_anything_to(user: &Principal, instance_id: &str) -> bool {
    may_in_system(user, OF_SYSTEM) || may_in_instance(user, instance_id, OF_INSTANCE)
}

/// The use of a sealed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// A link to sign in, once.
    Link,
    /// A login that is under way.
    Login,
    /// A session on the pages.
    Session,
}

/// The content of a sealed text.
#[derive(Serialize, Deserialize)]
pub struct Sealed {
    /// Its id; for a login, the `state`.
    pub id: String,
    /// The access token of the visitor; for a login, the `code_verifier`.
    pub token: String,
    /// When it ends, in seconds since the Unix epoch.
    pub expires: i64,
}

/// The keys of the pages, each derived from the system's key for one use.
pub struct Keys {
    seal: SymmetricKey,
    /// The key that forms are signed with.
    pub form: SymmetricKey,
}

impl Sealed {
    /// A token or a verifier until a time, with a new id.
    pub fn new(token: &str, expires: i64) -> Self {
        Self { id: secret::random_text(22), token: token.to_owned(), expires }
    }
}

impl Keys {
    /// Derives the keys, which are the same on every node.
    ///
    /// # Errors
    /// When the system's own key cannot be read.
    pub async fn of(keyring: &Keyring) -> Result<Self, KeyringFailure> {
        let key: Arc<SymmetricKey> = keyring.key(SYSTEM, Purpose::Resource).await?;
        let derived = |name: &str| SymmetricKey::new(key.mac(&[b"ui/operate", name.as_bytes()]));
        Ok(Self { seal: derived("seal"), form: derived("form") })
    }

    /// Seals a text for a use on an instance.
    pub fn seal(&self, what: For, instance_id: &str, sealed: &Sealed) -> String {
        let text = serde_json::to_vec(sealed).unwrap_or_default();
        self.seal.seal(&what.purpose(instance_id), &text)
    }

    /// Opens a text that was sealed for the same use on the same instance and has not expired.
    pub fn open(&self, what: For, instance_id: &str, text: &str) -> Option<Sealed> {
        let opened = self.seal.open(&what.purpose(instance_id), text).ok()?;
        let sealed: Sealed = serde_json::from_slice(&opened).ok()?;
        (sealed.expires > clock::now().as_second()).then_some(sealed)
    }
}

impl For {
    fn purpose(self, instance_id: &str) -> String {
        let name = match self {
            Self::Link => "link",
            Self::Login => "login",
            Self::Session => "session",
        };
        format!("ui/operate/{name}/{instance_id}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_text_is_for_one_use_on_one_instance_until_it_ends() {
        let keys = Keys { seal: SymmetricKey::random(), form: SymmetricKey::random() };
        let later = clock::now().as_second() + 60;
        let sealed = keys.seal(For::Link, "1", &Sealed::new("token", later));
        assert_eq!(keys.open(For::Link, "1", &sealed).map(|sealed| sealed.token).as_deref(), Some("token"));
        assert!([For::Session, For::Login].iter().all(|other| keys.open(*other, "1", &sealed).is_none()));
        assert!(keys.open(For::Link, "2", &sealed).is_none());
        let others = Keys { seal: SymmetricKey::random(), form: SymmetricKey::random() };
        assert!(others.open(For::Link, "1", &sealed).is_none());
        let ended = keys.seal(For::Link, "1", &Sealed::new("token", later - 61));
        assert!(keys.open(For::Link, "1", &ended).is_none());
        for wrong in ["", "x", &sealed[1..], &format!("{sealed}A")] {
            assert!(keys.open(For::Link, "1", wrong).is_none(), "{wrong}");
        }
    }
}
