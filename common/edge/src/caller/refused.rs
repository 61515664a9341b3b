//! Refused access tokens. The sender learns little; the operator finds the reason in the log, with the token's id.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;

use crate::error::{Error, Reason};

/// The scope that gives a token the audience of the platform's API.
const AUDIENCE: &str = "urn:platform:iam:org:project:id:platform:aud";
/// How much of an id is logged.
const LONGEST: usize = 64;

/// The signer of a refused token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signed {
    /// A key that this node trusts.
    Here,
    /// A key that this node does not know; strangers must not fill the log.
    Elsewhere,
}

/// The refusal of a token. It is not in the log before it is reported.
#[derive(Debug)]
pub struct RefusedToken {
    error: Error,
    line: Option<Line>,
}

/// The line about it in the log.
#[derive(Debug)]
struct Line {
    jti: Option<String>,
    signed: Signed,
    why: String,
}

impl RefusedToken {
    /// Returns the answer to the sender, and writes a line to the log for the operator.
    pub fn into_error(self) -> Error {
        if let Some(Line { jti, signed, why }) = self.line {
            match signed {
                Signed::Here => tracing::info!(jti, why, "an access token was refused"),
                Signed::Elsewhere => tracing::debug!(jti, why, "an access token was refused"),
            }
        }
        self.error
    }

    /// Why it is refused.
    pub(crate) fn reason(&self) -> Reason {
        self.error.reason()
    }

    /// The refusal of a personal access token, which counts as known if its secret is right.
    pub(crate) fn personal(id: &str, is_right: bool, error: Error, why: &str) -> Self {
        let signed = if is_right { Signed::Here } else { Signed::Elsewhere };
        Self { error, line: Some(Line { jti: Some(id.to_owned()), signed, why: why.to_owned() }) }
    }

    /// Returns the error without logging it, where it is not an answer to the user of the token.
    pub(crate) fn quietly(self) -> Error {
        self.error
    }

    fn new(jti: Option<String>, error: Error, signed: Signed, why: &str) -> Self {
        Self { error, line: Some(Line { jti, signed, why: why.to_owned() }) }
    }
}

impl From<Error> for RefusedToken {
    fn from(error: Error) -> Self {
        Self { error, line: None }
    }
}

/// The refusal of a token for a reason that is not revealed to its sender.
pub(super) fn refused(jti: Option<String>, signed: Signed, why: &str) -> RefusedToken {
    RefusedToken::new(jti, Error::new(Reason::TokenInvalid, "the access token is not valid here"), signed, why)
}

/// The refusal of a token with nothing wrong but its audience, which its owner can fix.
pub(super) fn without_audience(jti: Option<String>) -> RefusedToken {
    let message = format!("the access token is not for the platform's API: ask for one with the scope {AUDIENCE}");
    let error = Error::new(Reason::TokenInvalid, message);
    RefusedToken::new(jti, error, Signed::Here, "it is not for the platform's API")
}

/// The refusal of a token by which somebody acts as somebody else.
pub(super) fn impersonated(jti: String) -> RefusedToken {
    let message = "the access token is for acting as another user, which the platform's API does not accept";
    let error = Error::new(Reason::TokenInvalid, message);
    RefusedToken::new(Some(jti), error, Signed::Here, "it is for acting as another user")
}

/// The id that a signed token claims, as far as it can be logged.
pub(super) fn id_of(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Claims {
        jti: String,
    }
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let Claims { jti } = serde_json::from_slice(&payload).ok()?;
    Some(jti.chars().filter(char::is_ascii_graphic).take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_as_far_as_it_can_be() {
        let of = |claims: &str| id_of(&format!("e30.{}.x", URL_SAFE_NO_PAD.encode(claims)));
        assert_eq!(of(r#"{"jti":"a1"}"#).as_deref(), Some("a1"));
        assert_eq!(of(&format!(r#"{{"jti":"a\n{}"}}"#, "b".repeat(100))).map(|id| id.len()), Some(LONGEST));
        assert_eq!((of("{}"), id_of("x"), id_of("a.%.b")), (None, None, None));
    }
}
