//! Assertions: JWTs that apps and service users sign with keys of their own (RFC 7521, RFC 7523). They authenticate a client, or
//! are exchanged for a token.

use std::{sync::Arc, time::Duration};

use base::{clock, explain::explain, secret::sha256};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{context::Owner, resource::key::Key, standard::Resource};
use edge::caller::LONGEST;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, jwk::Jwk};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use view::directory::{HeldKey, Signer, Tenant};

use crate::{Oidc, endpoint, error::Error};

/// The algorithms that assertions may be signed with (RFC 7518, section 3.1; RFC 8037).
pub(crate) const ALGORITHMS: [&str; 9] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
/// How long an assertion may be valid, in seconds.
pub(crate) const LONGEST_LIFE: i64 = 3600;
/// How many seconds the clock of a signer may be ahead.
pub(crate) const AHEAD: i64 = 60;

/// An assertion as it was sent. Nothing in it is verified.
pub(crate) struct Assertion<'a> {
    text: &'a str,
    header: Header,
    /// The unverified subject (`sub`).
    pub(crate) subject: String,
}

/// The header (RFC 7515, section 4.1). Keys that it contains are ignored.
#[derive(Deserialize)]
pub(crate) struct Header {
    alg: Algorithm,
    /// The id of the key that has signed the JWT.
    pub(crate) kid: Option<String>,
    typ: Option<String>,
    /// The critical extensions; a JWT that has any is refused, since none is supported.
    crit: Option<IgnoredAny>,
}

impl Header {
    /// Reads the header of a JWT that names a known algorithm.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (Some(header), Some(_), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return None;
        };
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()
    }

    /// Whether the header has no `typ`.
    pub(crate) const fn is_untyped(&self) -> bool {
        self.typ.is_none()
    }

    /// Whether the header has this `typ`.
    pub(crate) fn is_type(&self, typ: &str) -> bool {
        self.typ.as_ref().is_some_and(|said| said.eq_ignore_ascii_case(typ))
    }

    /// Returns the payload of a JWT with this header, if this key has signed it.
    pub(crate) fn payload(&self, text: &str, public: &Value) -> Option<Vec<u8>> {
        if self.crit.is_some() || !may_sign(public, self.alg) {
            return None;
        }
        let jwk: Jwk = serde_json::from_value(public.clone()).ok()?;
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        let mut validation = Validation::new(self.alg);
        validation.required_spec_claims.clear();
        // The caller checks times, by the platform's clock, and the audience.
        (validation.validate_exp, validation.validate_aud) = (false, false);
        decode::<IgnoredAny>(text, &key, &validation).ok()?;
        URL_SAFE_NO_PAD.decode(text.split('.').nth(1)?).ok()
    }
}

/// The claims (RFC 7523, section 3). Times with a fraction and lists of audiences are refused.
#[derive(Deserialize)]
pub(crate) struct Claims {
    iss: String,
    /// The signer; in an assertion that names a user ([`Use::Subject`]), that user.
    pub(crate) sub: String,
    aud: String,
    /// When it expires, in seconds since the Unix epoch.
    pub(crate) exp: i64,
    iat: Option<i64>,
    nbf: Option<i64>,
    jti: Option<String>,
    /// Who may act as the subject (RFC 8693, section 4.4).
    pub(crate) may_act: Option<Value>,
}

/// What an assertion is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// To authenticate a client.
    Client,
    /// To be exchanged for a token.
    Grant,
    /// To name the user that an actor acts as (RFC 8693, section 2.1).
    Subject,
}

/// The holder of the key that an assertion is signed with.
pub(crate) struct Signatory<'a> {
    pub(crate) id: &'a str,
    /// The user name, by which an assertion may also name the holder.
    pub(crate) name: Option<&'a str>,
    pub(crate) owner: &'a Owner,
    pub(crate) key: &'a HeldKey,
    /// Whether its assertions may have the token endpoint as their audience, as was usual before the issuer was
    /// required.
    pub(crate) takes_endpoint: bool,
}

impl Signatory<'_> {
    fn is_called(&self, name: &str) -> bool {
        self.id == name || self.name == Some(name)
    }
}

/// Why an assertion is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The assertion is not signed by the holder that it names with a key that is valid now.
    Unsigned,
    /// The assertion is signed correctly, but breaks this rule.
    Claim(&'static str),
    /// The assertion cannot be verified at the moment.
    Unknown(Error),
}

impl<E: Into<Error>> From<E> for Flaw {
    fn from(error: E) -> Self {
        Self::Unknown(error.into())
    }
}

impl Use {
    /// The `typ` that distinguishes assertions of this use from others (RFC 7523bis); `JWT` or none is accepted, too.
    const fn typ(self) -> &'static str {
        match self {
            Self::Client => "client-authentication+jwt",
            Self::Grant => "authorization-grant+jwt",
            // Assertions that name a user have no `typ` of their own.
            Self::Subject => "jwt",
        }
    }
}

impl<'a> Assertion<'a> {
    /// Reads an assertion, without verifying anything.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Subject {
            sub: String,
        }
        if text.len() > LONGEST {
            return None;
        }
        let (header, claims) = (Header::read(text)?, text.split('.').nth(1)?);
        let Subject { sub } = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        Some(Self { text, header, subject: sub })
    }

    /// Returns the key that the assertion names, if it is valid now. Only the id of the key is looked up, never a user
    /// or an app that the assertion names, so that whoever signs with a made-up key learns nothing about users and
    /// apps.
    pub(crate) async fn key<H: Signer>(&self, oidc: &Oidc, tenant: &Tenant) -> Result<Arc<HeldKey>, Flaw> {
        key_named::<H>(oidc, tenant, self.header.kid.as_deref()).await
    }

    /// Returns the claims, if the holder of the key has signed the assertion recently, for this use and for this
    /// instance, and it was not used before.
    pub(crate) async fn verify<H: Signer>(
        &self,
        oidc: &Oidc,
        tenant: &Tenant,
        by: &Signatory<'_>,
        r#use: Use,
    ) -> Result<Claims, Flaw> {
        let on = [(Key::<H>::NAME, by.key.id.as_str())];
        let names_itself = r#use == Use::Subject || by.is_called(&self.subject);
        if !names_itself || oidc.edge.ended.is_dead(&tenant.id, by.owner, &on, by.key.as_of.get()) {
            return Err(Flaw::Unsigned);
        }
        let claims = self.signed(&by.key.public)?;
        if !by.is_called(&claims.iss) && r#use == Use::Subject {
            return Err(Flaw::Unsigned);
        }
        let issuer = oidc.edge.external.issuer(tenant);
        let endpoint = by.takes_endpoint.then(|| format!("{issuer}{}", endpoint::TOKEN));
        if claims.aud != issuer && Some(&claims.aud) != endpoint.as_ref() {
            return Err(Flaw::Claim("the aud of the assertion must be the issuer, as one string"));
        }
        let now = clock::now().as_second();
        claims.check(r#use, now)?;
        let is_of_use = |typ: &String| typ.eq_ignore_ascii_case("jwt") || typ.eq_ignore_ascii_case(r#use.typ());
        if !self.header.typ.as_ref().is_none_or(is_of_use) {
            return Err(Flaw::Claim("the typ of the assertion must be JWT, or say that it is for this use"));
        }
        // Last, so that only valid assertions are remembered.
        let Some(jti) = &claims.jti else { return Ok(claims) };
        let name = sha256(format!("{}\0{}\0{}\0{jti}", tenant.id, H::NAME, by.id).as_bytes());
        let name = format!("assertion.{}", URL_SAFE_NO_PAD.encode(name));
        let left = Duration::from_secs(u64::try_from(claims.exp - now + AHEAD).unwrap_or_default());
        let is_first = oidc.once.is_first(&name, left).await.map_err(|failure| {
            tracing::warn!(error = %explain(&failure), "it cannot be known whether an assertion was used before");
            Flaw::Unknown(Error::Unavailable)
        });
        if is_first? {
            return Ok(claims);
        }
        Err(Flaw::Claim("the assertion was used before: sign a new one, with another jti, for each request"))
    }

    /// Returns the claims, if this key has signed the assertion.
    fn signed(&self, public: &Value) -> Result<Claims, Flaw> {
        let wrong = "the assertion must have iss, sub and aud as text, and exp in whole seconds, as iat and nbf where it has them";
        let claims = self.header.payload(self.text, public).ok_or(Flaw::Unsigned)?;
        serde_json::from_slice(&claims).map_err(|_| Flaw::Claim(wrong))
    }
}

/// Returns the key with an id that a signed text names, if the key is valid now.
pub(crate) async fn key_named<H: Signer>(
    oidc: &Oidc,
    tenant: &Tenant,
    kid: Option<&str>,
) -> Result<Arc<HeldKey>, Flaw> {
    if !oidc.edge.ended.is_known() {
        return Err(Flaw::Unknown(Error::Unavailable));
    }
    let key = oidc.edge.directory.key::<H>(&tenant.id, kid.ok_or(Flaw::Unsigned)?, 0).await?.ok_or(Flaw::Unsigned)?;
    // The key may have been deleted so long ago that its end is forgotten, while the read model still lags.
    if !oidc.edge.ended.knows_since(key.as_of.get()) {
        return Err(Flaw::Unknown(Error::Unavailable));
    }
    if key.expires_at > clock::now().as_millisecond() { Ok(key) } else { Err(Flaw::Unsigned) }
}

impl Claims {
    /// Checks the claims whose rules do not depend on the signer, at a time in seconds since the Unix epoch.
    fn check(&self, r#use: Use, now: i64) -> Result<(), Flaw> {
        let Self { iss, sub, exp, iat, nbf, jti, .. } = self;
        let begins = iat.unwrap_or(now).max(nbf.unwrap_or(now));
        let rules = [
            (iss == sub || r#use == Use::Subject, "the iss and the sub of the assertion must be the same"),
            (*exp > now, "the assertion has expired"),
            (
                *exp <= now.saturating_add(LONGEST_LIFE + AHEAD),
                "the exp of the assertion must be at most an hour from now",
            ),
            (begins <= now.saturating_add(AHEAD), "the iat or nbf of the assertion is in the future"),
            (iat.is_none_or(|iat| iat >= now - LONGEST_LIFE), "the iat of the assertion is more than an hour ago"),
            (jti.is_some() || r#use == Use::Grant, "the assertion must have a jti"),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, rule)| Err(Flaw::Claim(rule)))
    }
}

/// Whether a key may sign with an algorithm: one of its type, and only the one in its `alg` where it has that.
fn may_sign(public: &Value, algorithm: Algorithm) -> bool {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    let of_type: &[Algorithm] = match (public["kty"].as_str(), public["crv"].as_str()) {
        (Some("RSA"), _) => &[RS256, RS384, RS512, PS256, PS384, PS512],
        (Some("EC"), Some("P-256")) => &[ES256],
        (Some("EC"), Some("P-384")) => &[ES384],
        (Some("OKP"), Some("Ed25519")) => &[EdDSA],
        _ => &[],
    };
    let own = public["alg"].as_str().map(str::parse);
    of_type.contains(&algorithm) && own.is_none_or(|own| own.is_ok_and(|own: Algorithm| own == algorithm))
}
