//! Personal access tokens: an id and a secret. They say nothing by themselves, and are looked up by their ids.

use std::sync::Arc;

use serde_json::Map;
use view::directory::PersonalToken;

use super::{AccessToken, Verified};
use crate::error::{Error, Reason};

/// What they begin with, so that they are told from others, also by who looks for secrets where none should be.
const PREFIX: &str = "pat-";
/// The longest id, in digits.
const LONGEST_ID: usize = 20;
/// What they give.
const SCOPE: &str =
    "openid urn:platform:iam:org:projects:roles urn:platform:iam:user:resourceowner urn:platform:iam:user:metadata";

/// The token of an id and its secret.
pub fn token(id: &str, secret: &str) -> String {
    format!("{PREFIX}{id}-{secret}")
}

/// A personal access token as it was sent. Nothing of it is known to be true.
pub(crate) struct Sent<'a> {
    pub(crate) id: &'a str,
    pub(crate) secret: &'a str,
}

/// The parts of a token, where it is a personal one: an id of digits, and a secret.
pub(crate) fn parse(token: &str) -> Option<Sent<'_>> {
    let (id, secret) = token.strip_prefix(PREFIX)?.split_once('-')?;
    let is_id = (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then_some(Sent { id, secret })
}

impl Verified {
    /// What a personal access token says.
    pub(crate) fn personal(found: Arc<PersonalToken>) -> Self {
        Self {
            user_id: found.token.user_id.clone(),
            sequence: found.processed,
            system: None,
            key_id: None,
            id: None,
            expires: found.token.expires_at.div_euclid(1000),
            personal: Some(found),
        }
    }
}

/// The refusal of a token that nobody knows, or that was deleted.
pub(crate) fn invalid() -> Error {
    Error::new(Reason::TokenInvalid, "the access token is not valid")
}

/// What a personal access token says where a project asks what it is worth: all that there is to be told.
pub(crate) fn claims(found: &PersonalToken, iss: String, project_id: &str) -> AccessToken {
    let PersonalToken { processed, id, created_at, token } = found;
    AccessToken {
        iss,
        sub: token.user_id.clone(),
        aud: vec![project_id.to_owned()],
        exp: token.expires_at.div_euclid(1000),
        iat: *created_at,
        nbf: *created_at,
        jti: id.clone(),
        client_id: token.user_id.clone(),
        scope: SCOPE.to_owned(),
        seq: *processed,
        session_seq: 0,
        added: Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_an_id_and_a_secret() {
        let text = token("117486514211913731", "a-b_c");
        let Sent { id, secret } = parse(&text).expect("it is one");
        assert_eq!((id, secret), ("117486514211913731", "a-b_c"));
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
            assert!(parse(other).is_none(), "{other}");
        }
    }
}
