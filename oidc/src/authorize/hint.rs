//! The `id_token_hint`: an ID token that the app got before, which names who should log in (OpenID Connect Core 1.0,
//! section 3.1.2.1).

use edge::caller::issued_as;
use serde::Deserialize;
use view::directory::Tenant;

use crate::{Oidc, callback::Refusal, issue::ID_TYPE};

/// The claims of an ID token that name the user and the app.
#[derive(Deserialize)]
struct Hinted {
    sub: String,
    azp: String,
}

/// Returns the user that a hint names. It may have expired, but the instance must have issued it to the app.
pub(super) fn user(
    oidc: &Oidc,
    tenant: &Tenant,
    client_id: &str,
    hint: Option<&str>,
) -> Result<Option<String>, Refusal> {
    let Some(hint) = hint else { return Ok(None) };
    let issuer = oidc.edge.external.issuer(tenant);
    // Access tokens are signed with the same keys, but have another type.
    let hinted = issued_as(hint, tenant, ID_TYPE, Some(&issuer)).filter(|hinted: &Hinted| hinted.azp == client_id);
    let description = "id_token_hint is no ID token that this server has issued to the app";
    hinted.map(|hinted| Some(hinted.sub)).ok_or(Refusal { error: "invalid_request", description })
}
