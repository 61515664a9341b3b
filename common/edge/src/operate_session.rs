//! How somebody gets to the pages of operators and stays there: sealed texts, which can neither be made, read nor changed outside, and
//! none is taken for one of another use, nor for one of another instance.
//!
//! A session is a token: it ends when that does, and does what that may do, on every node. Query nodes have the pages, and oidc nodes
//! begin the sessions of people, so both are here at home.

use std::sync::Arc;

use base::{clock, secret, secret::SymmetricKey};
use domain::context::Owner;
use serde::{Deserialize, Serialize};
use view::{
    directory::Principal,
    keyring::{Keyring, KeyringFailure, Purpose, SYSTEM},
};

/// Where the pages are.
pub const PATH: &str = "/ui/operate";
/// The cookie of a session.
pub const SESSION: &str = "operate";
/// The cookie of a browser in which somebody is about to log in.
pub const LOGIN: &str = "operate-login";

/// What it takes to see the whole platform there, in the system.
pub const OF_SYSTEM: &str = "system.debug.read";
/// What it takes to see what failed of an instance, in that or in the system.
pub const OF_INSTANCE: &str = "failed_event.read";

/// Whether somebody may do in the system what a permission is for.
pub fn may_in_system(user: &Principal, permission: &str) -> bool {
    user.may(permission, &[Owner::system()])
}

/// Whether somebody may do in an instance what a permission is for. What the system gives counts in each.
pub fn may_in_instance(user: &Principal, instance_id: &str, permission: &str) -> bool {
    user.may(permission, &[Owner::instance(instance_id), Owner::system()])
}

/// Whether there is anything on the pages that a user of an instance may see.
pub fn shows_anything_to(user: &Principal, instance_id: &str) -> bool {
    may_in_system(user, OF_SYSTEM) || may_in_instance(user, instance_id, OF_INSTANCE)
}

/// What a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// To sign in, once.
    Link,
    /// To log in, and come back.
    Login,
    /// To look at pages.
    Session,
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
pub struct Sealed {
    /// Names it; of a login it is the `state`.
    pub id: String,
    /// The access token of the visitor; of a login the `code_verifier`.
    pub token: String,
    /// When it ends, in seconds since the Unix epoch.
    pub expires: i64,
}

/// The keys of the pages, each made of the system's own for one use.
pub struct Keys {
    seal: SymmetricKey,
    /// What forms are signed with.
    pub form: SymmetricKey,
}

impl Sealed {
    /// A token, or a verifier, until a time, under a name of its own.
    pub fn new(token: &str, expires: i64) -> Self {
        Self { id: secret::random_text(22), token: token.to_owned(), expires }
    }
}

impl Keys {
    /// The keys, which every node has.
    ///
    /// # Errors
    /// When the system's own key cannot be read.
    pub async fn of(keyring: &Keyring) -> Result<Self, KeyringFailure> {
        let key: Arc<SymmetricKey> = keyring.key(SYSTEM, Purpose::Resource).await?;
        let derived = |name: &str| SymmetricKey::new(key.mac(&[b"ui/operate", name.as_bytes()]));
        Ok(Self { seal: derived("seal"), form: derived("form") })
    }

    /// Seals something for a use on an instance.
    pub fn seal(&self, what: For, instance_id: &str, sealed: &Sealed) -> String {
        let text = serde_json::to_vec(sealed).unwrap_or_default();
        self.seal.seal(&what.purpose(instance_id), &text)
    }

    /// Opens what was sealed for the same use on the same instance, and has not ended.
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
