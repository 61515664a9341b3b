//! The OpenID Connect node: discovery, keys and tokens. It keeps no state of its own.

mod client;
mod discovery;
mod error;
mod issue;
mod keys;
mod scope;
mod token;

use std::sync::Arc;

use axum::{
    Router,
    routing::{any, get, post},
};
use store::{database::Database, keyring::Keyring};
use transport::edge::Edge;

use crate::issue::Issuer;

/// What the endpoints of a node need.
pub struct Oidc {
    edge: Arc<Edge>,
    keyring: Keyring,
    database: Database,
    issuer: Issuer,
}

impl Oidc {
    /// Endpoints with an empty cache of keys.
    pub fn new(edge: Arc<Edge>, keyring: Keyring, database: Database) -> Self {
        Self { edge, issuer: Issuer::new(keyring.clone()), keyring, database }
    }
}

/// Every endpoint of the contract; those that are not built yet say so.
pub fn routes(oidc: Oidc) -> Router {
    let unbuilt = || any(error::not_built);
    Router::new()
        .route(discovery::PATH, get(discovery::document))
        .route(keys::PATH, get(keys::key_set))
        .route(token::PATH, post(token::token).fallback(error::method_not_allowed))
        .route(discovery::AUTHORIZE, unbuilt())
        .route(discovery::INTROSPECT, unbuilt())
        .route(discovery::USERINFO, unbuilt())
        .route(discovery::REVOKE, unbuilt())
        .route(discovery::END_SESSION, unbuilt())
        .with_state(Arc::new(oidc))
        .layer(axum::middleware::from_fn(transport::mount::with_request_id))
}
