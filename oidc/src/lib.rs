//! The OpenID Connect node: discovery, keys, and the issuing, introspection and revocation of tokens. It stores no
//! state of its own.

mod after_logout;
mod answer;
mod api;
mod app_login;
mod assertion;
mod audience;
mod auth_request;
mod authorize;
mod cached;
mod callback;
mod catch_up;
mod claims;
mod client;
mod code;
mod current;
mod discovery;
mod end_session;
mod ending;
mod endpoint;
mod error;
mod files;
mod finish;
mod form;
mod function;
mod hinted;
mod introspect;
mod issue;
mod keys;
mod lifetime;
mod metadata;
mod new_metadata;
mod notice;
mod owner;
mod pages;
mod recipient;
mod refresh_token;
mod revoke;
mod role;
mod scope;
mod session;
mod subject;
mod token;
mod uploads;
mod userinfo;
mod words;

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
use eventlog::{assets::Assets, flow::Flow, log::Log, once::Once};
use http::{HeaderMap, Uri};
use page::site::Site;
use view::{database::Database, keyring::Keyring, progress::Progress};

use crate::{issue::Issuer, uploads::Uploads};

/// The OpenAPI document of the endpoints.
pub const DESCRIPTION: &str = include_str!("openapi.json");

/// The service name of the endpoints in metrics.
const SERVICE: &str = "oauth";

/// What the endpoints of a node need.
pub struct OidcDependencies {
    /// Admits requests.
    pub edge: Arc<Edge>,
    /// The data keys.
    pub keyring: Keyring,
    /// Registers what may happen only once, such as the use of an assertion.
    pub once: Once,
    /// Pending authorization requests and codes.
    pub flow: Flow,
    /// Pictures and fonts.
    pub assets: Assets,
    /// The client for commands to the writer.
    pub internal: Internal,
    /// The log of sessions.
    pub sessions: Log,
    /// The database of the read models.
    pub database: Database,
    /// The progress of the projections.
    pub progress: Progress,
}

/// The endpoints of a node, with a cache of keys.
struct Oidc {
    edge: Arc<Edge>,
    keyring: Keyring,
    once: Once,
    flow: Flow,
    uploads: Uploads,
    internal: Internal,
    sessions: Log,
    database: Database,
    progress: Progress,
    issuer: Issuer,
}

impl Oidc {
    fn new(
        OidcDependencies { edge, keyring, once, flow, assets, internal, sessions, database, progress }: OidcDependencies,
    ) -> Self {
        let issuer = Issuer::new(edge.external.clone(), keyring.clone(), edge.ended.clone());
        let uploads = Uploads::new(assets);
        Self { edge, keyring, once, flow, uploads, internal, sessions, database, progress, issuer }
    }

    /// Returns the site that a request was sent to, if pages are served there.
    fn site(&self, uri: &Uri, headers: &HeaderMap) -> Option<Site> {
        Site::of(&self.edge.external.scheme, uri, headers)
    }
}

/// Returns the router of all endpoints.
pub fn routes(parts: OidcDependencies) -> Router {
    let (edge, oidc) = (parts.edge.clone(), Arc::new(Oidc::new(parts)));
    let observe = |name| from_fn_with_state(Arc::new(Meter::new(SERVICE, name)), observed);
    let token = post(token::token).fallback(error::takes_post);
    let revoke = post(revoke::revoke).fallback(error::takes_post);
    let introspect = post(introspect::introspect).fallback(error::takes_post);
    let operations = api::routes(Router::new(), &edge, &oidc);
    let endpoints = Router::new()
        .route(endpoint::AUTHORIZATION, any(authorize::authorize).layer(observe("authorize")))
        .route(endpoint::USERINFO, any(userinfo::userinfo).layer(observe("userinfo")))
        .route(endpoint::END_SESSION, any(end_session::end_session).layer(observe("end_session")))
        .route(endpoint::DISCOVERY, get(discovery::document).layer(observe("discovery")))
        .route(endpoint::KEYS, get(keys::key_set).layer(observe("keys")))
        .route(endpoint::TOKEN, token.layer(observe("token")))
        .route(endpoint::REVOCATION, revoke.layer(observe("revoke")))
        .route(endpoint::INTROSPECTION, introspect.layer(observe("introspect")))
        .with_state(oidc.clone());
    let pages = pages::routes(oidc);
    endpoints.merge(operations).merge(pages)
}
