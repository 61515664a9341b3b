//! The hint of who logs in: an ID token that the app got before (OpenID Connect Core 1.0, section 3.1.2.1).

use edge::caller::issued_as;
use serde::Deserialize;
use view::directory::Tenant;

use crate::{Oidc, callback::Refusal, issue::ID_TYPE};

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
    // Access tokens are signed with the same keys, and are of another type.
    let hinted = issued_as(hint, tenant, (ID_TYPE, Some(&issuer))).filter(|hinted: &Hinted| hinted.azp == client_id);
    let description = "id_token_hint is no ID token that this server has issued to the app";
    hinted.map(|hinted| Some(hinted.sub)).ok_or(Refusal { error: "invalid_request", description })
}
