//! Recipients of tokens, and the form of their tokens: a service user in its own name, or an app that somebody has
//! logged in to.

use domain::{
    context::Owner,
    resource::{
        app::oidc::{Assertions, Oidc as Settings, TokenType},
        user::User,
    },
};
use edge::{
    admission::own_app,
    caller::{Actor, Basis},
};
use serde_json::Value;
use view::directory::Client;

/// A client that tokens are issued to.
pub(crate) struct Recipient {
    /// The client id.
    pub(crate) client_id: String,
    /// The JWA algorithm that signs access tokens, where the client has chosen one.
    pub(crate) access_token_alg: Option<String>,
    /// The JWA algorithm that signs ID tokens, where the client has chosen one.
    pub(crate) id_token_alg: Option<String>,
    /// Whether access tokens are opaque, so that only the platform can read them.
    pub(crate) is_opaque: bool,
    /// Whether the client may get an ID token in addition to the access token.
    pub(crate) may_have_id_token: bool,
    /// How many seconds the client's clock may differ.
    pub(crate) clock_skew: i64,
    /// The login, where the client is an app.
    pub(crate) login: Option<Login>,
}

/// The login or the token exchange by which an app gets tokens.
pub(crate) struct Login {
    /// The project of the app.
    pub(crate) project_id: String,
    /// The organization of the app.
    pub(crate) owner: Owner,
    /// The sequence of the log `SESSIONS` before the code or token was checked.
    pub(crate) session_seq: u64,
    /// The claims that tokens get without being requested.
    pub(crate) assertions: Assertions,
    /// The session that tokens are issued in, if any.
    pub(crate) session_id: Option<String>,
    /// The id that tokens of this login are revoked by.
    pub(crate) grant_id: Option<String>,
    /// Whether the app may refresh them.
    pub(crate) is_refreshable: bool,
    /// Whether the app gets an access token in addition to the ID token.
    pub(crate) has_access_token: bool,
    /// When the person authenticated, in seconds since the Unix epoch, where that is known.
    pub(crate) auth_time: Option<i64>,
    /// When the session ends, or the exchanged tokens do, in seconds since the Unix epoch.
    pub(crate) ends: i64,
    /// The value that the ID token repeats.
    pub(crate) nonce: Option<String>,
    /// The token exchange, where tokens are issued for other tokens.
    pub(crate) exchange: Option<Exchange>,
}

/// A token exchange (RFC 8693).
#[derive(Clone)]
pub(crate) struct Exchange {
    /// Who acts as the user.
    pub(crate) act: Option<Actor>,
    /// Who may act, where the subject token says so (RFC 8693, section 4.4).
    pub(crate) may_act: Option<Value>,
    /// The tokens that the new token is based on, and ends with.
    pub(crate) bases: Vec<Basis>,
}

impl Recipient {
    /// Makes the recipient for a service user that has authenticated.
    pub(crate) fn of_user(id: &str, user: &User) -> Self {
        Self {
            client_id: id.to_owned(),
            access_token_alg: user.access_token_alg.clone(),
            id_token_alg: user.id_token_alg.clone(),
            is_opaque: user.has_opaque_tokens(),
            may_have_id_token: true,
            clock_skew: 0,
            login: None,
        }
    }

    /// Makes the recipient for an app that somebody has logged in to.
    pub(crate) fn of_app(app: &Client, settings: &Settings, login: Login) -> Self {
        Self {
            client_id: app.id.clone(),
            access_token_alg: settings.access_token_alg.clone(),
            id_token_alg: settings.id_token_alg.clone(),
            is_opaque: settings.access_token_type == TokenType::Opaque,
            may_have_id_token: true,
            clock_skew: i64::try_from(settings.clock_skew_ms.div_ceil(1000)).unwrap_or_default(),
            login: Some(login),
        }
    }

    /// Returns the token exchange, where tokens are issued for other tokens.
    pub(crate) fn exchange(&self) -> Option<&Exchange> {
        self.login.as_ref()?.exchange.as_ref()
    }

    /// Whether the client is the platform's own app, which its pages log in to.
    pub(crate) fn is_own(&self) -> bool {
        self.client_id == own_app::CLIENT_ID
    }

    /// Returns the project of the app that somebody has logged in to.
    pub(crate) fn own_project(&self) -> Option<&str> {
        self.login.as_ref().map(|login| login.project_id.as_str())
    }

    /// Whether the client gets an access token: with `response_type=id_token` it gets none, which could only leak.
    pub(crate) fn has_access_token(&self) -> bool {
        self.login.as_ref().is_none_or(|login| login.has_access_token)
    }

    /// Whether access tokens name roles without a scope that requests them.
    pub(crate) fn asserts_roles(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.assertions.access_token_roles)
    }
}
