//! The public keys of an instance as a JSON Web Key Set (RFC 7517, section 5).

use std::sync::Arc;

use axum::{extract::State, response::Response};
use edge::error::Error;
use http::request::Parts;
use serde_json::json;

use crate::{Oidc, cached};

/// Returns the keys that tokens of the instance of the host may be signed with.
pub(crate) async fn key_set(State(oidc): State<Arc<Oidc>>, parts: Parts) -> Result<Response, Error> {
    let tenant = oidc.edge.open_tenant(&parts).await?;
    let keys: Vec<_> = tenant.signing_keys.iter().map(|(_, key)| &key.public).collect();
    Ok(cached::answer(&parts.headers, &json!({ "keys": keys })))
}
