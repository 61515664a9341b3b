//! Tokens that consist of an id and a secret. They carry no claims, and are looked up by their ids.

use base::secret::constant_time_eq;
use domain::secret::Hashed;

/// The longest id, in digits.
const LONGEST_ID: usize = 20;

/// A kind of tokens, by their prefix, by which they, and secret scanners, can tell them from others.
#[derive(Debug, Clone, Copy)]
pub struct Kind(&'static str);

/// Personal access tokens.
pub const PERSONAL: Kind = Kind("pat-");
/// Tokens of sessions.
pub const SESSION: Kind = Kind("sess-");

/// A token as it was sent, before any verification.
#[derive(Debug, PartialEq, Eq)]
pub struct UnverifiedSecretToken<'a> {
    /// The id.
    pub id: &'a str,
    /// The secret.
    pub secret: &'a str,
}

impl Kind {
    /// Makes the token of an id and its secret.
    pub fn token(self, id: &str, secret: &str) -> String {
        format!("{}{id}-{secret}", self.0)
    }

    /// Splits a token of this kind into its parts: an id of digits, and a secret.
    pub fn parse(self, token: &str) -> Option<UnverifiedSecretToken<'_>> {
        let (id, secret) = token.strip_prefix(self.0)?.split_once('-')?;
        let is_id = (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit());
        is_id.then_some(UnverifiedSecretToken { id, secret })
    }
}

/// Whether the hash of what was sent is the stored one, in a time that reveals nothing about either.
pub fn is_kept(sent: &Hashed, kept: &Hashed) -> bool {
    let [sent, kept] = [sent, kept].map(|hash| hash.expose().unwrap_or_default().as_bytes());
    !kept.is_empty() && constant_time_eq(sent, kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_an_id_and_a_secret_and_is_of_one_kind() {
        for (kind, other, begins) in [(PERSONAL, SESSION, "pat-"), (SESSION, PERSONAL, "sess-")] {
            let text = kind.token("117486514211913731", "a-b_c");
            assert_eq!(text, format!("{begins}117486514211913731-a-b_c"));
            assert_eq!(kind.parse(&text), Some(UnverifiedSecretToken { id: "117486514211913731", secret: "a-b_c" }));
            assert_eq!(other.parse(&text), None);
        }
        for other in [
            "",
            "pat",
            "pat-1",
            "eyJhbGciOiJFUzI1NiJ9.e30.AA",
            "PAT-1-2",
            "pat--x",
            "pat-x-1",
            "pat-123456789012345678901-1",
        ] {
            assert_eq!(PERSONAL.parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_there_is_nobodys() {
        let hash = |text: &str| Hashed::new(text);
        assert!(is_kept(&hash("a"), &hash("a")));
        assert!(!is_kept(&hash("a"), &hash("b")) && !is_kept(&hash("a"), &Hashed::default()));
        assert!(!is_kept(&Hashed::default(), &Hashed::default()));
    }
}
