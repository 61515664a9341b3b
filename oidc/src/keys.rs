//! The public keys of an instance as a JSON Web Key Set (RFC 7517, section 5).

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use edge::error::Error;
use http::{HeaderValue, header, request::Parts};
use serde_json::json;

use crate::Oidc;

/// For how long clients may cache the keys and the discovery document.
pub(crate) const CACHED: &str = "public, max-age=300, must-revalidate";

/// The keys that tokens of the instance of the host may be signed with.
pub(crate) async fn key_set(State(oidc): State<Arc<Oidc>>, parts: Parts) -> Result<Response, Error> {
    let tenant = oidc.edge.open_tenant(&parts).await?;
    let keys: Vec<_> = tenant.signing_keys.iter().map(|(_, key)| &key.public).collect();
    let mut response = Json(json!({ "keys": keys })).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHED));
    Ok(response)
}
