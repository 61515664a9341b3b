//! The discovery document (OpenID Connect Discovery 1.0, section 4).

use std::sync::Arc;

use axum::{Json, extract::State, response::IntoResponse};
use http::request::Parts;
use serde_json::json;
use transport::error::Error;

use crate::{Oidc, keys, token};

/// Where the document is.
pub(crate) const PATH: &str = "/.well-known/openid-configuration";
pub(crate) const AUTHORIZE: &str = "/oauth/v2/authorize";
pub(crate) const INTROSPECT: &str = "/oauth/v2/introspect";
pub(crate) const REVOKE: &str = "/oauth/v2/revoke";
pub(crate) const USERINFO: &str = "/oidc/v1/userinfo";
pub(crate) const END_SESSION: &str = "/oidc/v1/end_session";

/// The document of the instance of the host.
pub(crate) async fn document(State(oidc): State<Arc<Oidc>>, parts: Parts) -> Result<impl IntoResponse, Error> {
    let tenant = oidc.edge.tenant(&parts, 0).await?;
    let issuer = oidc.edge.external.issuer(&tenant);
    let at = |path: &str| format!("{issuer}{path}");
    Ok(Json(json!({
        "issuer": issuer,
        "authorization_endpoint": at(AUTHORIZE),
        "token_endpoint": at(token::PATH),
        "introspection_endpoint": at(INTROSPECT),
        "userinfo_endpoint": at(USERINFO),
        "revocation_endpoint": at(REVOKE),
        "end_session_endpoint": at(END_SESSION),
        "jwks_uri": at(keys::PATH),
        "scopes_supported": ["openid"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["client_credentials"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    })))
}
