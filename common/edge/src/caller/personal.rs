//! Personal access tokens: an id and a secret. They carry no claims, and are looked up by their ids.

use std::sync::Arc;

use serde_json::Map;
use view::directory::PersonalToken;

use super::{AccessToken, Verified};
use crate::error::{Error, Reason};

/// The scope of personal access tokens.
const SCOPE: &str =
    "openid urn:platform:iam:org:projects:roles urn:platform:iam:user:resourceowner urn:platform:iam:user:metadata";

impl Verified {
    /// Returns a personal access token as a verified one.
    pub(crate) fn personal(found: Arc<PersonalToken>) -> Self {
        Self {
            user_id: found.token.user_id.clone(),
            sequence: found.as_of.get(),
            system: None,
            key_id: None,
            id: None,
            expires: found.token.expires_at.div_euclid(1000),
            bases: vec![],
            personal: Some(found),
        }
    }
}

/// The refusal of a token that is unknown or was deleted.
pub(crate) fn invalid() -> Error {
    Error::new(Reason::TokenInvalid, "the access token is not valid")
}

/// The claims of a personal access token for a project that introspects it: everything that there is to report.
pub(crate) fn claims(found: &PersonalToken, iss: String, project_id: &str) -> AccessToken {
    let PersonalToken { as_of, id, created_at, token } = found;
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
        seq: as_of.get(),
        session_seq: 0,
        sid: None,
        grant_id: None,
        auth_time: None,
        amr: vec![],
        act: None,
        exchanged_for: vec![],
        added: Map::new(),
    }
}
