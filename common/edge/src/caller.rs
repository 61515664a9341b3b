//! Access tokens: their claims and their verification.

mod exchange;
pub mod opaque;
pub mod personal;
mod refused;
mod system;

use std::sync::Arc;

use base::{clock, secret::sha256};
use http::{HeaderMap, header};
use jsonwebtoken::{Algorithm, DecodingKey, TokenData, Validation, decode, decode_header, errors::ErrorKind, jwk::Jwk};
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
pub use system::{LONGEST as LONGEST_SYSTEM_TOKEN, SystemToken, SystemUser, SystemUsers};
use view::{
    directory::{PersonalToken, Principal, Tenant},
    revoked::TokenId,
};

use self::refused::{Signed, id_of, refused};
pub use self::{
    exchange::{Actor, Basis, MOST_BASES},
    refused::RefusedToken,
};
use crate::error::{Error, Reason};

/// The `typ` of access tokens (RFC 9068, section 2.1).
pub const TOKEN_TYPE: &str = "at+jwt";
/// The scope that a token must have, in addition to the one that gives it its audience (docs/api.md).
const OPENID: &str = "openid";
/// The longest access token, in bytes: a longer one is neither issued nor looked at.
pub const LONGEST: usize = 8 * 1024;
/// How many seconds the clocks of nodes may differ: a token from a node that is ahead is accepted by the others.
const CLOCKS: i64 = 10;
/// How many verified tokens are cached.
const REMEMBERED: usize = 100_000;

/// The claims of an access token (RFC 9068, sections 2.2 and 2.2.1).
#[derive(Debug, Serialize, Deserialize)]
pub struct AccessToken {
    /// The issuer of the instance.
    pub iss: String,
    /// The user.
    pub sub: String,
    /// The projects it is for.
    pub aud: Vec<String>,
    /// When it expires, in seconds since the Unix epoch.
    pub exp: i64,
    /// When it was issued.
    pub iat: i64,
    /// When it becomes valid.
    pub nbf: i64,
    /// Its id.
    pub jti: String,
    /// The client that it was issued to.
    pub client_id: String,
    /// What was granted, space-delimited.
    pub scope: String,
    /// The sequence of the log that its issuer had seen.
    pub seq: u64,
    /// The sequence of `SESSIONS`, which has revocations, that its issuer had seen; 0 where an older build issued it.
    #[serde(rename = "sessionSeq", default)]
    pub session_seq: u64,
    /// The session that it was issued in, where a person has logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    /// The id of what it was issued for, such as a code; all tokens that were issued for it end together.
    #[serde(rename = "grantId", default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    /// When the person was authenticated, in seconds since the Unix epoch, if one has logged in and acts in person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_time: Option<i64>,
    /// The methods of authentication (RFC 8176, section 1).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amr: Vec<String>,
    /// The actor, where somebody acts as the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<Actor>,
    /// The tokens that it was exchanged for, and those that these were exchanged for.
    #[serde(rename = "exchangedFor", default, skip_serializing_if = "Vec::is_empty")]
    pub exchanged_for: Vec<Basis>,
    /// Other claims: roles, the organization, and what executions have added; never one of those above.
    #[serde(flatten)]
    pub added: Map<String, Value>,
}

impl AccessToken {
    /// Whether it was issued to an app, and not to a service user, which is its own client.
    pub fn is_of_app(&self) -> bool {
        self.client_id != self.sub
    }

    /// The bases of a token that is exchanged for this one, with its signing key and whether its user acts as another.
    pub fn bases(&self, kid: Option<String>, acts: bool) -> Vec<Basis> {
        let own = Basis {
            jti: Some(self.jti.clone()),
            kid,
            sub: self.sub.clone(),
            client_id: self.client_id.clone(),
            sid: self.sid.clone(),
            grant_id: self.grant_id.clone(),
            iat: self.iat,
            seq: self.seq,
            session_seq: self.session_seq,
            acts,
        };
        std::iter::once(own).chain(self.exchanged_for.iter().cloned()).collect()
    }

    /// What identifies it for revocation.
    pub fn id(&self) -> TokenId {
        TokenId {
            id: self.jti.clone(),
            user_id: self.sub.clone(),
            client_id: self.client_id.clone(),
            session_id: self.sid.clone(),
            grant_id: self.grant_id.clone(),
            sequence: self.session_seq,
            issued_at: self.iat,
        }
    }
}

/// The external address of instances.
#[derive(Debug, Clone)]
pub struct External {
    /// `http` or `https`.
    pub scheme: String,
    /// The port, where it is not the scheme's own.
    pub port: Option<u16>,
}

impl External {
    /// The issuer of an instance: its primary domain, whichever of its hosts is used.
    pub fn issuer(&self, tenant: &Tenant) -> String {
        self.url(&tenant.primary_domain)
    }

    /// The base URL of a host.
    pub fn url(&self, host: &str) -> String {
        let Self { scheme, port } = self;
        port.map_or_else(|| format!("{scheme}://{host}"), |port| format!("{scheme}://{host}:{port}"))
    }
}

/// A verified token.
#[derive(Debug)]
pub struct Verified {
    pub(crate) user_id: String,
    pub(crate) sequence: u64,
    /// The user, where it is a system user.
    pub(crate) system: Option<Arc<Principal>>,
    /// The instance's signing key that it belongs to; `None` if a system user signed it, or it is a personal one.
    pub(crate) key_id: Option<String>,
    /// What identifies it for revocation, if the instance issued it.
    pub(crate) id: Option<TokenId>,
    pub(crate) expires: i64,
    /// The other tokens that it depends on, if it was exchanged for any.
    pub(crate) bases: Vec<Basis>,
    /// The personal access token, if it is one.
    pub(crate) personal: Option<Arc<PersonalToken>>,
}

impl Verified {
    /// The app that it was issued to, if any: a service user is its own client, and personal access tokens have no app.
    pub(crate) fn app(&self) -> Option<&str> {
        let id = self.id.as_ref().filter(|id| id.client_id != self.user_id)?;
        Some(&id.client_id)
    }

    /// Checks the claims of a token that the instance has issued, which belongs to a key.
    fn issued(token: AccessToken, key_id: String, tenant: &Tenant) -> Result<Self, RefusedToken> {
        // Tokens for acting as somebody else are for use in apps, not for managing rights.
        if token.act.is_some() {
            return Err(refused::impersonated(token.jti));
        }
        if !token.aud.contains(&tenant.instance.platform_project_id) {
            return Err(refused::without_audience(Some(token.jti)));
        }
        if !token.scope.split(' ').any(|scope| scope == OPENID) {
            let error = Error::new(Reason::InsufficientScope, "the access token lacks the scope openid");
            return Err(error.with("scope", OPENID).into());
        }
        let (key_id, id) = (Some(key_id), Some(token.id()));
        let AccessToken { sub: user_id, seq: sequence, exp: expires, exchanged_for: bases, .. } = token;
        Ok(Self { user_id, sequence, system: None, key_id, id, expires, bases, personal: None })
    }
}

/// Verifies access tokens, and caches those that it has verified.
pub struct Verifier {
    external: External,
    system: SystemUsers,
    verified: Cache<[u8; 32], Arc<Verified>>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Verifier").field("external", &self.external).finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier with an empty cache.
    pub fn new(external: External, system: SystemUsers) -> Self {
        Self { external, system, verified: Cache::new(REMEMBERED) }
    }

    /// The token of a request, verified for the platform's API on this instance.
    pub fn verify(&self, headers: &HeaderMap, tenant: &Tenant) -> Result<Arc<Verified>, RefusedToken> {
        let token = bearer(headers)?;
        // The same token under another issuer has another entry.
        let parts: [&[u8]; 5] =
            [tenant.id.as_bytes(), b"\0", tenant.primary_domain.as_bytes(), b"\0", token.as_bytes()];
        let name = sha256(&parts.concat());
        let verified = match self.verified.get(&name) {
            Some(verified) => verified,
            None => {
                let verified = Arc::new(self.check(token, tenant)?);
                self.verified.insert(name, verified.clone());
                verified
            }
        };
        let is_known = |key: &String| tenant.signing_keys.iter().any(|(id, _)| id == key);
        if !verified.key_id.as_ref().is_none_or(is_known) {
            return Err(refused(id_of(token), Signed::Here, "its key no longer signs tokens of this instance"));
        }
        if verified.expires <= clock::now().as_second() {
            return Err(expired().into());
        }
        Ok(verified)
    }

    fn check(&self, token: &str, tenant: &Tenant) -> Result<Verified, RefusedToken> {
        if let Some(user) = self.system.signer(token) {
            let expires = user.check(token, &self.external.issuer(tenant))?;
            let (user_id, system) = (user.principal.id.clone(), Some(user.principal.clone()));
            let (bases, personal) = (vec![], None);
            return Ok(Verified { user_id, sequence: 0, system, key_id: None, id: None, expires, bases, personal });
        }
        let (key_id, token) = self.signed(token, tenant)?;
        Verified::issued(token, key_id, tenant)
    }

    /// Verifies the claims of an opaque token that this instance has issued, for the platform's API on this instance.
    pub(crate) fn opened(&self, key_id: String, token: AccessToken, tenant: &Tenant) -> Result<Verified, RefusedToken> {
        Verified::issued(self.of_now(token, tenant)?, key_id, tenant)
    }

    /// Refuses an opaque token that was issued under another name of this instance, has expired or is not valid yet.
    pub(crate) fn of_now(&self, token: AccessToken, tenant: &Tenant) -> Result<AccessToken, RefusedToken> {
        if token.iss != self.external.issuer(tenant) {
            return Err(refused(Some(token.jti), Signed::Here, "it is of another issuer"));
        }
        begins(&token)?;
        if token.exp <= clock::now().as_second() {
            return Err(expired().into());
        }
        Ok(token)
    }

    /// Returns the claims of a token of this instance, whatever its audience, and the key that signed it; `None` if it
    /// is no such token, or has expired.
    pub(crate) fn read(&self, token: &str, tenant: &Tenant) -> Option<(String, AccessToken)> {
        if token.len() > LONGEST {
            return None;
        }
        let (key_id, token) = self.signed(token, tenant).ok()?;
        (token.exp > clock::now().as_second()).then_some((key_id, token))
    }

    /// Returns the claims of a token that a key of the instance has signed, whatever its audience, and the id of the
    /// key.
    fn signed(&self, token: &str, tenant: &Tenant) -> Result<(String, AccessToken), RefusedToken> {
        let (key_id, key, mut validation) = key_of(token, tenant, TOKEN_TYPE)?;
        validation.set_issuer(&[self.external.issuer(tenant)]);
        validation.validate_aud = false;
        Ok((key_id.to_owned(), claims(token, &key, validation)?))
    }
}

/// Returns the claims of a token that a key of an instance has signed, under whatever issuer name and regardless of the
/// clock of this node, since other nodes may accept it.
pub(crate) fn issued(token: &str, tenant: &Tenant) -> Option<AccessToken> {
    issued_as(token, tenant, TOKEN_TYPE, None)
}

/// Returns the claims of a token of this `typ` that a key of an instance has signed, with this issuer, if any is given.
pub fn issued_as<C: DeserializeOwned>(token: &str, tenant: &Tenant, r#type: &str, issuer: Option<&str>) -> Option<C> {
    Some(issued_by(token, tenant, r#type, issuer)?.1)
}

/// Returns the claims as [`issued_as`] does, with the id of the key.
pub(crate) fn issued_by<C: DeserializeOwned>(
    token: &str,
    tenant: &Tenant,
    r#type: &str,
    issuer: Option<&str>,
) -> Option<(String, C)> {
    if token.len() > LONGEST {
        return None;
    }
    let (key_id, key, mut validation) = key_of(token, tenant, r#type).ok()?;
    if let Some(issuer) = issuer {
        validation.set_issuer(&[issuer]);
        validation.set_required_spec_claims(&["iss"]);
    }
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    Some((key_id.to_owned(), decode::<C>(token, &key, &validation).ok()?.claims))
}

/// Returns the key of an instance that the header of a token of this `typ` names, its id, and how it verifies.
fn key_of<'a>(
    token: &str,
    tenant: &'a Tenant,
    r#type: &str,
) -> Result<(&'a str, DecodingKey, Validation), RefusedToken> {
    let unknown = |why: &str| refused(id_of(token), Signed::Elsewhere, why);
    let header = decode_header(token).map_err(|_| unknown("it is not a JWT"))?;
    let key = tenant.signing_keys.iter().find(|(id, _)| Some(id) == header.kid.as_ref());
    let (key_id, key) = key.ok_or_else(|| unknown("it is not signed with a key of this instance"))?;
    let algorithm: Algorithm = key.algorithm.parse().map_err(|_| unknown("its key has an unknown algorithm"))?;
    if header.typ.as_deref() != Some(r#type) || header.alg != algorithm {
        return Err(unknown("its type or algorithm is not that of an access token"));
    }
    let jwk: Jwk = serde_json::from_value(key.public.clone()).map_err(|_| unknown("its key cannot be read"))?;
    let decoding = DecodingKey::from_jwk(&jwk).map_err(|_| unknown("its key cannot be used"))?;
    Ok((key_id, decoding, Validation::new(algorithm)))
}

/// Returns the claims of a token if this key has signed it and its time has begun.
fn claims(token: &str, key: &DecodingKey, mut validation: Validation) -> Result<AccessToken, RefusedToken> {
    validation.set_required_spec_claims(&["exp", "nbf", "iss", "aud", "sub"]);
    // There is one clock. The expiry is checked with every request, and the beginning below.
    (validation.validate_exp, validation.validate_nbf) = (false, false);
    let decoded = decode::<AccessToken>(token, key, &validation);
    let TokenData { claims, .. } = decoded.map_err(|error| match error.kind() {
        ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => refused::without_audience(id_of(token)),
        ErrorKind::InvalidIssuer => refused(id_of(token), Signed::Here, "it is of another issuer"),
        ErrorKind::InvalidSignature => refused(id_of(token), Signed::Elsewhere, "its signature is wrong"),
        other => refused(id_of(token), Signed::Elsewhere, &format!("it cannot be used: {other:?}")),
    })?;
    begins(&claims)?;
    Ok(claims)
}

/// Refuses a token whose time begins later than clocks may differ.
fn begins(token: &AccessToken) -> Result<(), RefusedToken> {
    let ahead = token.nbf.max(token.iat).saturating_sub(clock::now().as_second());
    if ahead <= CLOCKS {
        return Ok(());
    }
    let why = format!("it becomes valid in {ahead} s: the clock of the node that issued it, or of this one, is wrong");
    Err(refused(Some(token.jti.clone()), Signed::Here, &why))
}

fn expired() -> Error {
    Error::new(Reason::TokenExpired, "the access token has expired")
}

/// The single bearer token of a request (RFC 6750, section 2.1).
pub(crate) fn bearer(headers: &HeaderMap) -> Result<&str, Error> {
    let missing = || Error::new(Reason::TokenMissing, "the request needs an access token: Authorization: Bearer ...");
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return Err(missing()) };
    let (scheme, token) = value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or_else(missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(missing());
    }
    let token = token.trim();
    if token.is_empty() || token.len() > LONGEST {
        return Err(Error::new(Reason::TokenInvalid, "the access token is malformed"));
    }
    Ok(token)
}
