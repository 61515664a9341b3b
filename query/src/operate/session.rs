//! Links and sessions: sealed texts that hold the token of a system user. Neither can be made, read or changed outside, and
//! none is taken for the other, nor for one of another instance.
//!
//! A session is the token: it ends when that does, within an hour, and does what that may do, on every node.

use std::{sync::Arc, time::Duration};

use base::{clock, secret, secret::Key};
use serde::{Deserialize, Serialize};
use view::keyring::{Keyring, KeyringFailure, Purpose, SYSTEM};

/// How long a link can be used.
pub(super) const LINK_LASTS: Duration = Duration::from_mins(5);
/// The cookie of a session.
pub(super) const SESSION: &str = "operate";
/// The cookie of a browser that was shown the form of a link.
pub(super) const BROWSER: &str = "operate-browser";

/// What a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// To sign in, once.
    Link,
    /// To look at pages.
    Session,
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
pub(super) struct Sealed {
    /// Names it.
    pub(super) id: String,
    /// The token of the system user.
    pub(super) token: String,
    /// When it ends, in seconds since the Unix epoch.
    pub(super) expires: i64,
}

/// The keys of the pages, each made of the system's own for one use.
pub(super) struct Keys {
    seal: Key,
    /// What forms are signed with.
    pub(super) form: Key,
}

impl Keys {
    /// The keys, which every node has.
    pub(super) async fn of(keyring: &Keyring) -> Result<Self, KeyringFailure> {
        let key: Arc<Key> = keyring.key(SYSTEM, Purpose::Resource).await?;
        let derived = |name: &str| Key::new(key.mac(&[b"ui/operate", name.as_bytes()]));
        Ok(Self { seal: derived("seal"), form: derived("form") })
    }

    /// Seals a token for a use on an instance, until a time.
    pub(super) fn seal(&self, what: For, instance_id: &str, (token, expires): (&str, i64)) -> String {
        let sealed = Sealed { id: secret::random_text(22), token: token.to_owned(), expires };
        let text = serde_json::to_vec(&sealed).unwrap_or_default();
        self.seal.seal(&what.purpose(instance_id), &text)
    }

    /// Opens what was sealed for the same use on the same instance, and has not ended.
    pub(super) fn open(&self, what: For, instance_id: &str, text: &str) -> Option<Sealed> {
        let opened = self.seal.open(&what.purpose(instance_id), text).ok()?;
        let sealed: Sealed = serde_json::from_slice(&opened).ok()?;
        (sealed.expires > clock::now().as_second()).then_some(sealed)
    }
}

impl For {
    fn purpose(self, instance_id: &str) -> String {
        let name = match self {
            Self::Link => "link",
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
        let keys = Keys { seal: Key::random(), form: Key::random() };
        let later = clock::now().as_second() + 60;
        let sealed = keys.seal(For::Link, "1", ("token", later));
        assert_eq!(keys.open(For::Link, "1", &sealed).map(|sealed| sealed.token).as_deref(), Some("token"));
        assert!(keys.open(For::Session, "1", &sealed).is_none() && keys.open(For::Link, "2", &sealed).is_none());
        let others = Keys { seal: Key::random(), form: Key::random() };
        assert!(others.open(For::Link, "1", &sealed).is_none());
        let ended = keys.seal(For::Link, "1", ("token", later - 61));
        assert!(keys.open(For::Link, "1", &ended).is_none());
        for wrong in ["", "x", &sealed[1..], &format!("{sealed}A")] {
            assert!(keys.open(For::Link, "1", wrong).is_none(), "{wrong}");
        }
    }
}
