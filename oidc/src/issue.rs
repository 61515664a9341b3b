//! Issuing tokens: self-contained, signed with the instance's keys, or encrypted where only the platform reads them.

use std::sync::Arc;

use base::{clock, explain::explain, key_pair::private_pem, secret, signing};
use domain::{
    context::Owner,
    resource::signing_key::{SigningKey, Stage},
    settings::Milliseconds,
    standard::Resource,
};
use edge::caller::{AccessToken, Actor, External, LONGEST, TOKEN_TYPE, opaque};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use quick_cache::sync::Cache;
use serde::Serialize;
use serde_json::{Map, Value};
use view::{
    directory::Tenant,
    ended::Ended,
    keyring::{Keyring, Purpose},
};

use crate::{
    error::Error,
    recipient::{Login, Recipient},
    subject::Subject,
};

/// The algorithm for access tokens where the client has not chosen one.
const ACCESS: Algorithm = Algorithm::ES256;
/// The algorithm for ID tokens where the client has not chosen one (OpenID Connect Core 1.0, section 15.1).
pub(crate) const ID: Algorithm = Algorithm::RS256;
/// The `typ` of ID tokens (RFC 7519, section 5.1).
pub(crate) const ID_TYPE: &str = "JWT";

/// The authentication method of a person (RFC 8176, section 2).
const PASSWORD: &str = "pwd";

/// How many private keys are cached: of each instance two that sign, and some former ones.
const MOST_OPENED: usize = 40_000;

/// The contents of a token, except for the user.
#[derive(Clone)]
pub(crate) struct Content {
    pub(crate) audience: Vec<String>,
    pub(crate) scope: String,
    /// Further claims.
    pub(crate) added: Map<String, Value>,
}

/// The claims of an ID token (OpenID Connect Core 1.0, section 2).
#[derive(Default, Serialize)]
pub(crate) struct IdToken {
    iss: String,
    sub: String,
    aud: [String; 1],
    azp: String,
    client_id: String,
    exp: i64,
    iat: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_time: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amr: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sid: Option<String>,
    /// The hash of the access token that is issued together with the ID token (section 3.1.3.6).
    #[serde(skip_serializing_if = "Option::is_none")]
    at_hash: Option<String>,
    /// Who acts as the user (RFC 8693, section 4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    act: Option<Actor>,
    /// Further claims; never one of those above.
    #[serde(flatten)]
    added: Map<String, Value>,
}

/// Signs tokens, and caches the private keys that it has opened.
pub(crate) struct Issuer {
    external: External,
    keyring: Keyring,
    ended: Ended,
    opened: Cache<(String, String), Arc<EncodingKey>>,
}

impl Issuer {
    pub(crate) fn new(external: External, keyring: Keyring, ended: Ended) -> Self {
        Self { external, keyring, ended, opened: Cache::new(MOST_OPENED) }
    }

    /// Issues an access token for a user, and returns it with its lifetime in seconds: it never outlives the session.
    ///
    /// # Errors
    /// `invalid_scope` where the token would be longer than the platform accepts.
    pub(crate) async fn access_token(
        &self,
        Subject { tenant, user, sequence, .. }: &Subject,
        recipient: &Recipient,
        Content { audience, scope, added }: Content,
        lifetime: Milliseconds,
    ) -> Result<(String, u64), Error> {
        let now = clock::now().as_second();
        let login = recipient.login.as_ref();
        let exp = login.map_or(i64::MAX, |login| login.ends).min(end(now, lifetime));
        let claims = AccessToken {
            iss: self.external.issuer(tenant),
            sub: user.id.clone(),
            aud: audience,
            exp,
            iat: now,
            nbf: now,
            jti: secret::random_text(22),
            client_id: recipient.client_id.clone(),
            scope,
            seq: *sequence,
            session_seq: login.map_or_else(|| self.ended.revoked().sequence(), |login| login.session_seq),
            sid: login.and_then(|login| login.session_id.clone()),
            grant_id: login.and_then(|login| login.grant_id.clone()),
            auth_time: login.and_then(|login| login.auth_time),
            amr: checked_by(login).into_iter().flatten().map(str::to_owned).collect(),
            act: recipient.exchange().and_then(|exchange| exchange.act.clone()),
            exchanged_for: recipient.exchange().map(|exchange| exchange.bases.clone()).unwrap_or_default(),
            added,
        };
        let algorithm = chosen(recipient.access_token_alg.as_deref(), ACCESS);
        let token = if recipient.is_opaque {
            self.seal(tenant, algorithm, &claims).await?
        } else {
            self.sign(tenant, algorithm, TOKEN_TYPE, &claims).await?
        };
        let advice =
            "the token would be too long: ask for fewer projects, for single roles, or for those of one organization";
        let lasts = u64::try_from(exp - now).unwrap_or_default();
        if token.len() > LONGEST { Err(Error::InvalidScope(advice)) } else { Ok((token, lasts)) }
    }

    /// Issues an ID token, together with an access token or alone: for a person who has logged in, or for a service
    /// user that has just signed an assertion. `None` for a service user where an earlier build made the instance, and
    /// it has no key for ID tokens yet.
    pub(crate) async fn id_token(
        &self,
        Subject { tenant, user, .. }: &Subject,
        recipient: &Recipient,
        access_token: Option<&str>,
        added: Map<String, Value>,
        lifetime: Milliseconds,
    ) -> Result<Option<String>, Error> {
        let algorithm = chosen(recipient.id_token_alg.as_deref(), ID);
        let is_chosen = recipient.id_token_alg.is_some();
        if !is_chosen && !tenant.signing_keys.iter().any(|(_, key)| is_for(key, algorithm)) {
            tracing::warn!(instance = tenant.id, "there is no key for ID tokens yet");
            return if recipient.login.is_some() { Err(Error::Unavailable) } else { Ok(None) };
        }
        let (now, login) = (clock::now().as_second(), recipient.login.as_ref());
        // An ID token of a login may outlive the session; one of an exchange ends with the tokens it was exchanged for.
        let ends = recipient.exchange().and(login).map_or(i64::MAX, |login| login.ends);
        // The app compares both with its own clock. `auth_time` is not adjusted: the platform compares it, too.
        let (iat, exp) = (now - recipient.clock_skew, end(now, lifetime) + recipient.clock_skew);
        let claims = IdToken {
            iss: self.external.issuer(tenant),
            sub: user.id.clone(),
            aud: [recipient.client_id.clone()],
            azp: recipient.client_id.clone(),
            client_id: recipient.client_id.clone(),
            exp: exp.min(ends),
            iat,
            auth_time: login.map_or(Some(now), |login| login.auth_time),
            nonce: login.and_then(|login| login.nonce.clone()),
            amr: checked_by(login),
            sid: login.and_then(|login| login.session_id.clone()),
            at_hash: access_token.map(|token| signing::half_hash(&format!("{algorithm:?}"), token)),
            act: recipient.exchange().and_then(|exchange| exchange.act.clone()),
            added,
        };
        self.sign(tenant, algorithm, ID_TYPE, &claims).await.map(Some)
    }

    /// Seals an opaque token, bound to the key that would have signed it.
    async fn seal(&self, tenant: &Tenant, algorithm: Algorithm, claims: &AccessToken) -> Result<String, Error> {
        let (kid, signing_key) = self.active_key(tenant, algorithm)?;
        let secrets = self.keyring.key(&tenant.id, Purpose::ClientSecret).await?;
        opaque::seal(kid, &opaque::key(&secrets, signing_key), &tenant.id, claims).map_err(|error| {
            tracing::error!(error = %explain(&error), "a token cannot be sealed");
            Error::Server
        })
    }

    async fn sign(
        &self,
        tenant: &Tenant,
        algorithm: Algorithm,
        r#type: &str,
        claims: &impl Serialize,
    ) -> Result<String, Error> {
        let (kid, key) = self.active_key(tenant, algorithm)?;
        let encoding = self.open(&tenant.id, kid, algorithm, key).await?;
        let header = Header { typ: Some(r#type.into()), kid: Some(kid.to_owned()), ..Header::new(algorithm) };
        encode(&header, claims, &encoding).map_err(|error| {
            tracing::error!(error = %explain(&error), kid, "a token cannot be signed");
            Error::Server
        })
    }

    /// Returns the newest active key of an algorithm, unless it was deleted, which the read model may not know yet.
    fn active_key<'a>(&self, tenant: &'a Tenant, algorithm: Algorithm) -> Result<(&'a str, &'a SigningKey), Error> {
        let now = clock::now().as_millisecond();
        let is_dead =
            |id: &str| self.ended.is_dead(&tenant.id, &Owner::system(), &[(SigningKey::NAME, id)], tenant.as_of.get());
        let signs =
            |id: &str, key: &SigningKey| is_for(key, algorithm) && key.stage(now) == Stage::Active && !is_dead(id);
        let keys = tenant.signing_keys.iter().filter(|(id, key)| signs(id, key));
        let newest = keys.max_by_key(|(_, key)| key.signs_from).map(|(kid, key)| (kid.as_str(), key));
        newest.ok_or_else(|| {
            tracing::error!(instance = tenant.id, ?algorithm, "no key signs tokens of this algorithm");
            Error::Unavailable
        })
    }

    async fn open(
        &self,
        instance_id: &str,
        kid: &str,
        algorithm: Algorithm,
        key: &SigningKey,
    ) -> Result<Arc<EncodingKey>, Error> {
        let name = (instance_id.to_owned(), kid.to_owned());
        if let Some(opened) = self.opened.get(&name) {
            return Ok(opened);
        }
        let data_key = self.keyring.key(instance_id, Purpose::SigningKey).await?;
        let damaged = |error: &(dyn std::error::Error + 'static)| {
            tracing::error!(error = %explain(error), kid, "a signing key cannot be opened");
            Error::Server
        };
        let private = data_key.open(signing::SEALED, key.sealed.expose()).map_err(|error| damaged(&error))?;
        let opened = Arc::new(encoding(algorithm, &private).map_err(|error| damaged(&error))?);
        self.opened.insert(name, opened.clone());
        Ok(opened)
    }
}

/// Returns how the person of a login was authenticated, where the time of that is known.
fn checked_by(login: Option<&Login>) -> Option<[&'static str; 1]> {
    login.and_then(|login| login.auth_time).map(|_| [PASSWORD])
}

/// Returns when a token expires that is issued now, both in seconds since the Unix epoch.
fn end(now: i64, lifetime: Milliseconds) -> i64 {
    now + i64::try_from(lifetime.whole_seconds()).unwrap_or_default()
}

/// Parses a private key, PKCS #8 DER, for its algorithm.
fn encoding(algorithm: Algorithm, private: &[u8]) -> Result<EncodingKey, jsonwebtoken::errors::Error> {
    match algorithm {
        Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512 => {
            // The library accepts PKCS #8 of RSA keys in PEM only.
            EncodingKey::from_rsa_pem(private_pem(private).as_bytes())
        }
        Algorithm::EdDSA => Ok(EncodingKey::from_ed_der(private)),
        _ => Ok(EncodingKey::from_ec_der(private)),
    }
}

/// Returns the algorithm that a client has chosen, or else the default.
fn chosen(name: Option<&str>, usual: Algorithm) -> Algorithm {
    name.and_then(|name| name.parse().ok()).unwrap_or(usual)
}

fn is_for(key: &SigningKey, algorithm: Algorithm) -> bool {
    key.algorithm.parse() == Ok(algorithm)
}
