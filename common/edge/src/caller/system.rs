//! System users: operators who are named in the configuration and sign short-lived tokens themselves. No execution runs
//! on their calls, so that none can lock them out.

use std::sync::Arc;

use base::clock;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{
    context::Owner,
    resource::{membership::Membership, user::User},
    role::{ROLES, role},
};
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use view::directory::{AsOf, Principal};

use super::refused::{RefusedToken, Signed, id_of, refused};

/// The longest that a token of a system user may be valid, in seconds.
pub const LONGEST: i64 = 3600;
/// How far the clock of a system user may be ahead, in seconds.
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
    /// The name of the system user.
    pub iss: String,
    /// The name of the system user, as in `iss`.
    pub sub: String,
    /// The issuer of the instance.
    pub aud: String,
    /// When it was made.
    pub iat: i64,
    /// When it expires.
    pub exp: i64,
}

/// The system users that a node knows.
#[derive(Clone, Default)]
pub struct SystemUsers(Arc<[SigningUser]>);

/// A system user who may sign.
pub(super) struct SigningUser {
    name: String,
    key: DecodingKey,
    pub(super) principal: Arc<Principal>,
}

impl SystemUsers {
    /// The system users that the configuration names.
    ///
    /// # Errors
    /// The first user that is invalid, and why, in words for the author of the configuration.
    pub fn new(users: Vec<SystemUser>) -> Result<Self, String> {
        let mut known: Vec<SigningUser> = vec![];
        for user in users {
            let user = SigningUser::of(user)?;
            if known.iter().any(|other| other.name == user.name) {
                return Err(format!("two system users have the name {}: give each a name of its own", user.name));
            }
            known.push(user);
        }
        Ok(Self(known.into()))
    }

    /// Returns the system user that a token names as its issuer, before it is verified.
    pub(super) fn signer(&self, token: &str) -> Option<&SigningUser> {
        #[derive(Deserialize)]
        struct Issuer {
            iss: String,
        }
        if self.0.is_empty() {
            return None;
        }
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        let Issuer { iss } = serde_json::from_slice(&payload).ok()?;
        self.0.iter().find(|user| user.name == iss)
    }
}

impl SigningUser {
    fn of(user: SystemUser) -> Result<Self, String> {
        let SystemUser { name, public, roles } = user;
        // Issuers are URLs, which no system user is taken for. A person may have brought its name along as an id.
        let is_name = |char: char| char.is_ascii_alphanumeric() || "-_.@".contains(char);
        if !name.starts_with(|char: char| char.is_ascii_alphabetic()) || !name.chars().all(is_name) {
            return Err(format!(
                "{name:?} cannot be a system user: a name begins with a letter and has letters, digits, -, _, . and @"
            ));
        }
        // A system user has its roles everywhere, so none that is for a part of something.
        if let Some(unknown) = roles.iter().find(|name| role(name).is_none_or(|role| role.part.is_some())) {
            let known = ROLES.iter().filter(|role| role.part.is_none());
            let known = known.map(|role| role.name).collect::<Vec<_>>().join(", ");
            return Err(format!("the system user {name} has the unknown role {unknown}; possible roles are {known}"));
        }
        let key = serde_json::from_value::<Jwk>(public).ok().filter(|key| match &key.algorithm {
            AlgorithmParameters::EllipticCurve(key) => key.curve == EllipticCurve::P256,
            _ => false,
        });
        let key = key.and_then(|key| DecodingKey::from_jwk(&key).ok());
        let key =
            key.ok_or_else(|| format!("the public key of the system user {name} is not a JSON Web Key for ES256"))?;
        let memberships = vec![Membership::new(&name, &Owner::system(), Owner::system(), roles)];
        let user = User { username: name.clone(), is_active: true, ..User::default() };
        let (id, owner) = (name.clone(), Owner::system());
        let principal = Principal { as_of: AsOf::default(), id, user, owner, is_live: true, memberships };
        Ok(Self { name, key, principal: Arc::new(principal) })
    }

    /// Verifies that the token is of this user and for this issuer, and returns when it expires.
    pub(super) fn check(&self, token: &str, issuer: &str) -> Result<i64, RefusedToken> {
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_issuer(&[&self.name]);
        validation.set_audience(&[issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        // There is one clock, which is checked below.
        validation.validate_exp = false;
        let claims = decode(token, &self.key, &validation).map_err(|error| {
            let why = format!("it is not a valid token of the system user {}: {:?}", self.name, error.kind());
            refused(id_of(token), Signed::Elsewhere, &why)
        });
        let SystemToken { sub, iat, exp, .. } = claims?.claims;
        let now = clock::now().as_second();
        let is_short = exp.checked_sub(iat).is_some_and(|age| age <= LONGEST) && iat <= now + AHEAD;
        if sub != self.name || !is_short || exp <= now {
            return Err(refused(
                id_of(token),
                Signed::Here,
                "its subject is not its issuer, it lasts longer than an hour, it is from the future, or it has expired",
            ));
        }
        Ok(exp)
    }
}

#[cfg(test)]
mod tests {
    use base::signing;
    use serde_json::json;

    use super::*;

    fn user(name: &str, role: &str) -> SystemUser {
        SystemUser { name: name.to_owned(), public: signing::es256(name).public, roles: vec![role.to_owned()] }
    }

    #[test]
    fn what_cannot_be_a_system_user_is_told() {
        let refused = |users: Vec<SystemUser>| SystemUsers::new(users).err().unwrap_or_default();
        assert_eq!(refused(vec![user("operator", "IAM_OWNER"), user("a.b@c", "SYSTEM_OWNER")]), "");
        for name in ["", "117486514211913731", "https://id.example.com", "a b"] {
            assert!(refused(vec![user(name, "IAM_OWNER")]).contains("cannot be a system user"), "{name}");
        }
        assert!(refused(vec![user("a", "IAM_OWNER"), user("a", "IAM_OWNER")]).contains("two system users"));
        assert!(refused(vec![user("a", "NOBODY")]).contains("unknown role"));
        for public in
            [json!({}), json!({ "kty": "oct", "k": "c2VjcmV0" }), json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" })]
        {
            let wrong = SystemUser { public, ..user("a", "IAM_OWNER") };
            assert!(refused(vec![wrong]).contains("is not a JSON Web Key for ES256"));
        }
    }
}
