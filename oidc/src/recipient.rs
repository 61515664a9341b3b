//! To whom tokens are issued, and how they look: a service user in its own name, or an app that somebody has logged in to.

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

/// To whom tokens are issued.
pub(crate) struct Recipient {
    /// What it authenticates as.
    pub(crate) client_id: String,
    /// The JWA name of what its access tokens are signed with, where it has chosen.
    pub(crate) access_token_alg: Option<String>,
    /// That of its ID tokens.
    pub(crate) id_token_alg: Option<String>,
    /// Whether only the platform reads its access tokens.
    pub(crate) is_opaque: bool,
    /// By how many seconds its clock may differ.
    pub(crate) clock_skew: i64,
    /// The login, where it is an app.
    pub(crate) login: Option<Login>,
}

/// That an app gets tokens for somebody who has logged in to it, or of whom it has got tokens.
pub(crate) struct Login {
    /// The project of the app.
    pub(crate) project_id: String,
    /// The organization of the app.
    pub(crate) owner: Owner,
    /// The sequence of the log that revocations are in, before what tokens are got by was looked at.
    pub(crate) session_seq: u64,
    /// What its tokens have without being asked for it.
    pub(crate) assertions: Assertions,
    /// The session, where tokens are got in one.
    pub(crate) session_id: Option<String>,
    /// By what they are got in it.
    pub(crate) grant_id: Option<String>,
    /// Whether the app may refresh them.
    pub(crate) is_refreshable: bool,
    /// Whether it gets an access token beside the ID token.
    pub(crate) has_access_token: bool,
    /// When the person was checked, in seconds since the Unix epoch, where that is known.
    pub(crate) auth_time: Option<i64>,
    /// When the session ends, or what tokens are got for, in seconds since the Unix epoch.
    pub(crate) ends: i64,
    /// What the app wants to be repeated.
    pub(crate) nonce: Option<String>,
    /// What tokens are got for, where they are got for other tokens.
    pub(crate) exchange: Option<Exchange>,
}

/// That tokens are got for other tokens (RFC 8693).
#[derive(Clone)]
pub(crate) struct Exchange {
    /// Who acts as the user.
    pub(crate) act: Option<Actor>,
    /// Who may act, where the subject token says so (RFC 8693, section 4.4).
    pub(crate) may_act: Option<Value>,
    /// What they stand on.
    pub(crate) bases: Vec<Basis>,
}

impl Recipient {
    /// A service user that has authenticated.
    pub(crate) fn of_user(id: &str, user: &User) -> Self {
        Self {
            client_id: id.to_owned(),
            access_token_alg: user.access_token_alg.clone(),
            id_token_alg: user.id_token_alg.clone(),
            is_opaque: user.has_opaque_tokens(),
            clock_skew: 0,
            login: None,
        }
    }

    /// An app that somebody has logged in to.
    pub(crate) fn of_app(app: &Client, settings: &Settings, login: Login) -> Self {
        Self {
            client_id: app.id.clone(),
            access_token_alg: settings.access_token_alg.clone(),
            id_token_alg: settings.id_token_alg.clone(),
            is_opaque: settings.access_token_type == TokenType::Opaque,
            clock_skew: i64::try_from(settings.clock_skew_ms.div_ceil(1000)).unwrap_or_default(),
            login: Some(login),
        }
    }

    /// What tokens are got for, where they are got for other tokens.
    pub(crate) fn exchange(&self) -> Option<&Exchange> {
        self.login.as_ref()?.exchange.as_ref()
    }

    /// Whether it is the platform's own pages.
    pub(crate) fn is_own(&self) -> bool {
        self.client_id == own_app::CLIENT_ID
    }

    /// The project of the app that somebody has logged in to.
    pub(crate) fn own_project(&self) -> Option<&str> {
        self.login.as_ref().map(|login| login.project_id.as_str())
    }

    /// Whether it gets an access token: whoever gets an ID token alone gets none that anybody could lose.
    pub(crate) fn has_access_token(&self) -> bool {
        self.login.as_ref().is_none_or(|login| login.has_access_token)
    }

    /// Whether access tokens name roles without being asked.
    pub(crate) fn asserts_roles(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.assertions.access_token_roles)
    }
}
