//! Assertions: JWTs that apps and service users sign with keys of their own (RFC 7521, RFC 7523). They authenticate a client, or
//! are exchanged for a token.

use base::{clock, secret::sha256};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{context::Owner, resource::key::Key, standard::Resource};
use edge::caller::LONGEST;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, jwk::Jwk};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use view::directory::{Signer, Tenant};

use crate::{Oidc, error::Error, token};

/// What assertions may be signed with (RFC 7518, section 3.1; RFC 8037).
pub(crate) const ALGORITHMS: [&str; 9] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
/// How long an assertion may be valid, in seconds.
const LONGEST_LIFE: i64 = 3600;
/// By how many seconds the clock of who signs may be ahead.
const AHEAD: i64 = 60;

/// An assertion as it was sent. Nothing that it says is known to be true.
pub(crate) struct Assertion<'a> {
    text: &'a str,
    header: Header,
    /// Who it says has signed it.
    pub(crate) subject: String,
}

/// The header (RFC 7515, section 4.1). Keys that it brings along mean nothing.
#[derive(Deserialize)]
struct Header {
    alg: Algorithm,
    kid: Option<String>,
    typ: Option<String>,
    /// What must be understood; nothing is.
    crit: Option<IgnoredAny>,
}

/// The claims (RFC 7523, section 3). A time with a fraction, or an audience that is a list, is none.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: String,
    exp: i64,
    iat: Option<i64>,
    nbf: Option<i64>,
    jti: Option<String>,
}

/// What an assertion is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// To authenticate a client.
    Client,
    /// To be exchanged for a token.
    Grant,
}

/// Who is said to have signed an assertion.
pub(crate) struct Signatory<'a> {
    pub(crate) id: &'a str,
    pub(crate) owner: &'a Owner,
    /// Whether it may name the token endpoint as the audience, as clients did before the issuer was asked for.
    pub(crate) takes_endpoint: bool,
}

/// Why an assertion does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It is not signed by who it says, with a key that is valid now.
    Unsigned,
    /// It is, but breaks this rule.
    Claim(&'static str),
    /// It cannot be known at the moment.
    Unknown(Error),
}

impl<E: Into<Error>> From<E> for Flaw {
    fn from(error: E) -> Self {
        Self::Unknown(error.into())
    }
}

impl Use {
    /// The `typ` that tells assertions of this use from others (RFC 7523bis); `JWT`, or none, is taken, too.
    const fn typ(self) -> &'static str {
        match self {
            Self::Client => "client-authentication+jwt",
            Self::Grant => "authorization-grant+jwt",
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
        let mut parts = text.split('.');
        let (Some(header), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        if text.len() > LONGEST {
            return None;
        }
        let header = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        let Subject { sub } = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        Some(Self { text, header, subject: sub })
    }

    /// Verifies that somebody has signed it for this use, a moment ago and for this instance, and that it was not used before.
    pub(crate) async fn verify<H: Signer>(
        &self,
        oidc: &Oidc,
        tenant: &Tenant,
        by: &Signatory<'_>,
        r#use: Use,
    ) -> Result<(), Flaw> {
        let public = self.key::<H>(oidc, tenant, by).await?;
        let claims = self.signed(&public)?;
        let issuer = oidc.edge.external.issuer(tenant);
        let endpoint = by.takes_endpoint.then(|| format!("{issuer}{}", token::PATH));
        if claims.aud != issuer && Some(&claims.aud) != endpoint.as_ref() {
            return Err(Flaw::Claim("the aud of the assertion must be the issuer, as one string"));
        }
        claims.check(r#use, clock::now().as_second())?;
        let is_of_use = |typ: &String| typ.eq_ignore_ascii_case("jwt") || typ.eq_ignore_ascii_case(r#use.typ());
        if !self.header.typ.as_ref().is_none_or(is_of_use) {
            return Err(Flaw::Claim("the typ of the assertion must be JWT, or say that it is for this use"));
        }
        // Last, so that only what counts is remembered.
        let Some(jti) = &claims.jti else { return Ok(()) };
        let name = sha256(format!("{}\0{}\0{}\0{jti}", tenant.id, H::NAME, by.id).as_bytes());
        if oidc.once.is_first(&URL_SAFE_NO_PAD.encode(name)).await? {
            return Ok(());
        }
        Err(Flaw::Claim("the assertion was used before: sign a new one, with another jti, for each request"))
    }

    /// The public half of the key that it names, if that is a valid one of who is said to have signed it.
    async fn key<H: Signer>(&self, oidc: &Oidc, tenant: &Tenant, by: &Signatory<'_>) -> Result<Value, Flaw> {
        let id = self.header.kid.as_ref().ok_or(Flaw::Unsigned)?;
        let key = oidc.edge.directory.key::<H>(&tenant.id, id, 0).await?.ok_or(Flaw::Unsigned)?;
        let is_dead = oidc.edge.ended.is_dead(&tenant.id, by.owner, &[(Key::<H>::NAME, id)], key.processed);
        let is_valid = key.expires_at > clock::now().as_millisecond() && !is_dead;
        if key.holder_id == by.id && is_valid { Ok(key.public.clone()) } else { Err(Flaw::Unsigned) }
    }

    /// What it claims, if this key has signed it.
    fn signed(&self, public: &Value) -> Result<Claims, Flaw> {
        let Header { alg, crit, .. } = &self.header;
        if crit.is_some() || !algorithms(public).contains(alg) {
            return Err(Flaw::Unsigned);
        }
        let jwk: Jwk = serde_json::from_value(public.clone()).map_err(|_| Flaw::Unsigned)?;
        let key = DecodingKey::from_jwk(&jwk).map_err(|_| Flaw::Unsigned)?;
        let mut validation = Validation::new(*alg);
        validation.required_spec_claims.clear();
        // There is one clock, and one rule for audiences, both in `verify`.
        (validation.validate_exp, validation.validate_aud) = (false, false);
        let wrong = "the assertion must have iss, sub and aud as text, and exp, iat and nbf as whole seconds";
        match decode::<Value>(self.text, &key, &validation) {
            Ok(_) => serde_json::from_slice(&self.payload()).map_err(|_| Flaw::Claim(wrong)),
            Err(_) => Err(Flaw::Unsigned),
        }
    }

    fn payload(&self) -> Vec<u8> {
        let claims = self.text.split('.').nth(1).unwrap_or_default();
        URL_SAFE_NO_PAD.decode(claims).unwrap_or_default()
    }
}

impl Claims {
    /// Checks what does not depend on who has signed it, at a time in seconds since the Unix epoch.
    fn check(&self, r#use: Use, now: i64) -> Result<(), Flaw> {
        let Self { iss, sub, exp, iat, nbf, jti, .. } = self;
        let begins = iat.unwrap_or(now).max(nbf.unwrap_or(now));
        let rules = [
            (iss == sub, "the iss and the sub of the assertion must be the same"),
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

/// What a key may sign with.
fn algorithms(public: &Value) -> &'static [Algorithm] {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    match (public["kty"].as_str(), public["crv"].as_str()) {
        (Some("RSA"), _) => &[RS256, RS384, RS512, PS256, PS384, PS512],
        (Some("EC"), Some("P-256")) => &[ES256],
        (Some("EC"), Some("P-384")) => &[ES384],
        (Some("OKP"), Some("Ed25519")) => &[EdDSA],
        _ => &[],
    }
}
