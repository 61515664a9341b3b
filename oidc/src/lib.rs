//! The OpenID Connect node: discovery, keys, tokens and what they are worth. It keeps no state of its own.

mod assertion;
mod audience;
mod cached;
mod client;
mod discovery;
mod endpoint;
mod error;
mod form;
mod function;
mod introspect;
mod issue;
mod keys;
mod metadata;
mod owner;
mod revoke;
mod role;
mod scope;
mod subject;
mod token;

use std::sync::Arc;

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{any, get, post},
};
use edge::{
    admission::Edge,
    internal::Internal,
    observe::{Meter, observed},
};
use eventlog::once::Once;
use view::keyring::Keyring;

use crate::issue::Issuer;

/// The endpoints that are built as an OpenAPI document has them.
pub const DESCRIPTION: &str = include_str!("openapi.json");

/// The endpoints of the contract that are not built yet. This list only shrinks; what leaves it is listed in [`discovery`].
const NOT_BUILT: [&str; 3] = ["/oauth/v2/authorize", "/oidc/v1/userinfo", "/oidc/v1/end_session"];

/// What metrics call the endpoints together.
const SERVICE: &str = "oauth";

/// What the endpoints of a node need.
pub struct Oidc {
    edge: Arc<Edge>,
    keyring: Keyring,
    once: Once,
    internal: Internal,
    issuer: Issuer,
}

impl Oidc {
    /// Endpoints with an empty cache of keys.
    pub fn new(edge: Arc<Edge>, keyring: Keyring, once: Once, internal: Internal) -> Self {
        let issuer = Issuer::new(keyring.clone(), edge.ended.clone());
        Self { edge, keyring, once, internal, issuer }
    }
}

/// Every endpoint of the contract; those that are not built yet say so.
pub fn routes(oidc: Oidc) -> Router {
    let observe = |name| from_fn_with_state(Arc::new(Meter::new(SERVICE, name)), observed);
    let unbuilt = |router: Router<_>, path| router.route(path, any(error::not_built).layer(observe("unbuilt")));
    let token = post(token::token).fallback(error::method_not_allowed);
    let revoke = post(revoke::revoke).fallback(error::method_not_allowed);
    let introspect = post(introspect::introspect).fallback(error::method_not_allowed);
    NOT_BUILT
        .into_iter()
        .fold(Router::new(), unbuilt)
        .route(endpoint::DISCOVERY, get(discovery::document).layer(observe("discovery")))
        .route(endpoint::KEYS, get(keys::key_set).layer(observe("keys")))
        .route(endpoint::TOKEN, token.layer(observe("token")))
        .route(endpoint::REVOCATION, revoke.layer(observe("revoke")))
        .route(endpoint::INTROSPECTION, introspect.layer(observe("introspect")))
        .with_state(Arc::new(oidc))
}
