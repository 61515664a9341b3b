//! The discovery document (OpenID Connect Discovery 1.0, section 4).
//!
//! It lists what works, and nothing else.

use std::{collections::BTreeSet, sync::Arc};

use axum::{extract::State, response::Response};
use base::clock;
use domain::resource::signing_key::Stage;
use edge::error::Error;
use http::request::Parts;
use serde_json::json;

use crate::{Oidc, assertion, authorize, cached, callback::Mode, claims, endpoint, scope, token, words};

/// How clients authenticate at the token and the revocation endpoint.
const METHODS: [&str; 4] = ["client_secret_basic", "client_secret_post", "none", "private_key_jwt"];

/// Returns the document of the instance of the host.
pub(crate) async fn document(State(oidc): State<Arc<Oidc>>, parts: Parts) -> Result<Response, Error> {
    let tenant = oidc.edge.open_tenant(&parts).await?;
    let issuer = oidc.edge.external.issuer(&tenant);
    let now = clock::now().as_millisecond();
    let signing = tenant.signing_keys.iter().filter(|(_, key)| key.stage(now) == Stage::Active);
    let algorithms: BTreeSet<&str> = signing.map(|(_, key)| key.algorithm.as_str()).collect();
    let at = |path: &str| format!("{issuer}{path}");
    let document = json!({
        "issuer": issuer,
        "authorization_endpoint": at(endpoint::AUTHORIZATION),
        "userinfo_endpoint": at(endpoint::USERINFO),
        "end_session_endpoint": at(endpoint::END_SESSION),
        "token_endpoint": at(endpoint::TOKEN),
        "introspection_endpoint": at(endpoint::INTROSPECTION),
        "revocation_endpoint": at(endpoint::REVOCATION),
        "jwks_uri": at(endpoint::KEYS),
        "scopes_supported": scope::STANDARD,
        "claims_supported": claims::SUPPORTED,
        "claims_parameter_supported": false,
        "response_types_supported": authorize::checks::RESPONSE_TYPES.map(|(name, _)| name),
        "response_modes_supported": Mode::ALL.map(|(name, _)| name),
        "ui_locales_supported": words::codes(&oidc.edge.settings, &tenant.id),
        "prompt_values_supported": authorize::checks::PROMPTS,
        "code_challenge_methods_supported": [authorize::checks::CHALLENGE_METHOD],
        "authorization_response_iss_parameter_supported": true,
        "request_parameter_supported": true,
        "request_object_signing_alg_values_supported": assertion::ALGORITHMS,
        "request_uri_parameter_supported": false,
        "grant_types_supported": token::grants(&oidc, &tenant.id),
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
        "token_endpoint_auth_methods_supported": METHODS,
        "token_endpoint_auth_signing_alg_values_supported": assertion::ALGORITHMS,
        "introspection_endpoint_auth_methods_supported": ["client_secret_basic", "private_key_jwt"],
        "introspection_endpoint_auth_signing_alg_values_supported": assertion::ALGORITHMS,
        "revocation_endpoint_auth_methods_supported": METHODS,
        "revocation_endpoint_auth_signing_alg_values_supported": assertion::ALGORITHMS,
    });
    Ok(cached::answer(&parts.headers, &document))
}
