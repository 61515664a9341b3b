//! System users: operators who are named in the configuration and sign short-lived tokens themselves. No execution runs on
//! their calls, so that none can lock them out.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    context::Owner,
    resource::{membership::Membership, user::User},
};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, jwk::Jwk};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{clock, directory::Standing};

use crate::error::{Error, Reason};

/// The longest that a token of a system user may be valid, in seconds.
pub const LONGEST: i64 = 3600;
/// How far its clock may be ahead, in seconds.
const AHEAD: i64 = 60;

/// A system user as the configuration names it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemUser {
    /// The name.
    pub name: String,
    /// The public key, as a JSON Web Key for ES256.
    pub public: Value,
    /// The names of the roles.
    pub roles: Vec<String>,
}

/// The claims of a token that a system user signs.
#[derive(Debug, Serialize, Deserialize)]
pub struct SystemToken {
    /// Its name.
    pub iss: String,
    /// Its name.
    pub sub: String,
    /// The issuer of the instance.
    pub aud: String,
    /// When it was made.
    pub iat: i64,
    /// When it expires.
    pub exp: i64,
}

/// A system user who may sign.
pub(super) struct Known {
    name: String,
    key: DecodingKey,
    pub(super) standing: Arc<Standing>,
}

impl Known {
    /// A user whose key is none of ES256 is nobody, and is told in the log.
    pub(super) fn of(user: SystemUser) -> Option<Self> {
        let SystemUser { name, public, roles } = user;
        let key = serde_json::from_value::<Jwk>(public).ok().and_then(|jwk| DecodingKey::from_jwk(&jwk).ok());
        let Some(key) = key else {
            tracing::error!(name, "the public key of a system user cannot be read");
            return None;
        };
        let memberships = vec![Membership { user_id: name.clone(), context: Owner::system(), roles }];
        let user = User { username: name.clone(), secret: None, is_active: true };
        let standing = Standing { processed: 0, id: name.clone(), user, owner: Owner::system(), memberships };
        Some(Self { name, key, standing: Arc::new(standing) })
    }

    /// Whether a token says that it is of this user, which is to be checked.
    pub(super) fn may_have_signed(&self, token: &str) -> bool {
        #[derive(Deserialize)]
        struct Issuer {
            iss: String,
        }
        let payload = token.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
        payload.and_then(|it| serde_json::from_slice::<Issuer>(&it).ok()).is_some_and(|it| it.iss == self.name)
    }

    /// When the token expires, if it is of this user and for this issuer.
    pub(super) fn check(&self, token: &str, issuer: &str) -> Result<i64, Error> {
        let invalid = || Error::new(Reason::TokenInvalid, "the access token is not valid here");
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_issuer(&[&self.name]);
        validation.set_audience(&[issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.leeway = 0;
        let SystemToken { sub, iat, exp, .. } = decode(token, &self.key, &validation).map_err(|_| invalid())?.claims;
        let now = clock::now().as_second();
        let is_short = exp.checked_sub(iat).is_some_and(|age| age <= LONGEST) && iat <= now + AHEAD;
        if sub != self.name || !is_short { Err(invalid()) } else { Ok(exp) }
    }
}
