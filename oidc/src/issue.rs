//! Issuing access tokens: self-contained, signed with the instance's key.

use std::sync::Arc;

use base::{clock, explain::explain, secret, signing};
use domain::{resource::signing_key::SigningKey, settings::Milliseconds};
use edge::caller::{AccessToken, External, LONGEST, TOKEN_TYPE};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use quick_cache::sync::Cache;
use serde_json::{Map, Value};
use view::{
    directory::Tenant,
    keyring::{Keyring, Purpose},
};

use crate::{error::Error, subject::Subject};

/// Access tokens are signed with this unless the client wants another one.
const ALGORITHM: Algorithm = Algorithm::ES256;

/// What a token says beside whose it is.
pub(crate) struct Content {
    pub(crate) audience: Vec<String>,
    pub(crate) scope: String,
    /// Further claims.
    pub(crate) added: Map<String, Value>,
}

/// Signs tokens and keeps the private keys that it has opened.
pub(crate) struct Issuer {
    keyring: Keyring,
    opened: Cache<(String, String), Arc<EncodingKey>>,
}

impl Issuer {
    pub(crate) fn new(keyring: Keyring) -> Self {
        Self { keyring, opened: Cache::new(10_000) }
    }

    /// An access token for a service user in its own name.
    ///
    /// # Errors
    /// `invalid_scope` where it would be longer than what the platform takes.
    pub(crate) async fn access_token(
        &self,
        external: &External,
        Subject { tenant, user, sequence, .. }: &Subject,
        Content { audience, scope, added }: Content,
        lifetime: Milliseconds,
    ) -> Result<String, Error> {
        let now = clock::now();
        let (kid, key) = signing_key(tenant, now.as_millisecond()).ok_or(Error::Unavailable)?;
        let encoding = self.open(&tenant.id, kid, key).await?;
        let claims = AccessToken {
            iss: external.issuer(tenant),
            sub: user.id.clone(),
            aud: audience,
            exp: now.as_second() + i64::try_from(lifetime.whole_seconds()).unwrap_or_default(),
            iat: now.as_second(),
            nbf: now.as_second(),
            jti: secret::random_text(22),
            client_id: user.id.clone(),
            scope,
            seq: *sequence,
            added,
        };
        let header = Header { typ: Some(TOKEN_TYPE.into()), kid: Some(kid.to_owned()), ..Header::new(ALGORITHM) };
        let token = encode(&header, &claims, &encoding).map_err(|error| {
            tracing::error!(error = %explain(&error), kid, "a token cannot be signed");
            Error::Server
        })?;
        let advice =
            "the token would be too long: ask for fewer projects, for single roles, or for those of one organization";
        if token.len() > LONGEST { Err(Error::InvalidScope(advice)) } else { Ok(token) }
    }

    async fn open(&self, instance_id: &str, kid: &str, key: &SigningKey) -> Result<Arc<EncodingKey>, Error> {
        let name = (instance_id.to_owned(), kid.to_owned());
        if let Some(opened) = self.opened.get(&name) {
            return Ok(opened);
        }
        let data_key = self.keyring.key(instance_id, Purpose::SigningKey).await?;
        let private = data_key.open(signing::SEALED, key.sealed.expose()).map_err(|error| {
            tracing::error!(error = %explain(&error), kid, "a signing key cannot be opened");
            Error::Server
        })?;
        let opened = Arc::new(EncodingKey::from_ec_der(&private));
        self.opened.insert(name, opened.clone());
        Ok(opened)
    }
}

/// The newest key that signs now.
fn signing_key(tenant: &Tenant, now: i64) -> Option<(&str, &SigningKey)> {
    let signs = |key: &SigningKey| key.signs_from <= now && key.signs_until.is_none_or(|until| now < until);
    let keys = tenant.signing_keys.iter().filter(|(_, key)| key.algorithm == "ES256" && signs(key));
    keys.max_by_key(|(_, key)| key.signs_from).map(|(kid, key)| (kid.as_str(), key))
}
