//! The hint of who logs in: an ID token that the app got before (OpenID Connect Core 1.0, section 3.1.2.1).

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header, jwk::Jwk};
use serde::Deserialize;
use view::directory::Tenant;

use crate::{Oidc, callback::Refusal};

/// The longest ID token that is looked at, in bytes.
const LONGEST: usize = 8 * 1024;

/// What of an ID token says whom it is about.
#[derive(Deserialize)]
struct Hinted {
    sub: String,
    azp: String,
}

/// The user that a hint names, where there is one. It may have expired, but must be one that the instance has issued to the app.
pub(super) fn user(
    oidc: &Oidc,
    (tenant, client_id): (&Tenant, &str),
    hint: Option<&str>,
) -> Result<Option<String>, Refusal> {
    let Some(hint) = hint else { return Ok(None) };
    let issuer = oidc.edge.external.issuer(tenant);
    let hinted = verified(tenant, &issuer, hint).filter(|hinted| hinted.azp == client_id);
    let description = "id_token_hint is no ID token that this server has issued to the app";
    hinted.map(|hinted| Some(hinted.sub)).ok_or(Refusal { error: "invalid_request", description })
}

fn verified(tenant: &Tenant, issuer: &str, token: &str) -> Option<Hinted> {
    if token.len() > LONGEST {
        return None;
    }
    let header = decode_header(token).ok()?;
    let (_, key) = tenant.signing_keys.iter().find(|(id, _)| Some(id) == header.kid.as_ref())?;
    let algorithm: Algorithm = key.algorithm.parse().ok()?;
    // Access tokens are signed with the same keys.
    if header.typ.as_deref() != Some(crate::issue::ID_TYPE) || header.alg != algorithm {
        return None;
    }
    let jwk: Jwk = serde_json::from_value(key.public.clone()).ok()?;
    let mut validation = Validation::new(algorithm);
    validation.set_issuer(&[issuer]);
    validation.set_required_spec_claims(&["iss", "sub"]);
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    Some(decode::<Hinted>(token, &DecodingKey::from_jwk(&jwk).ok()?, &validation).ok()?.claims)
}
