//! The token endpoint (RFC 6749, section 3.2), which dispatches by grant type.

mod authorization_code;
mod client_credentials;
mod exchange;
mod jwt_bearer;
mod login;
mod of_user;
mod refresh;

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, LazyLock},
    time::Instant,
};

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use base::metric::{
    Counter, Histogram,
    catalog::{TOKEN_DURATION, TOKENS},
};
use edge::{admission::own_app, mount::LONGEST};
use http::{HeaderMap, Request, header};
use serde::Serialize;
use tokio::time::timeout;
use view::directory::{Client, Tenant};

use self::login::{App, Presented};
use crate::{
    Oidc,
    app_login::AppLogin,
    endpoint::OPERATE_DONE,
    error::{Error, Refused, no_store},
    form::{self, EndpointRequest, Form, TOKEN_EXCHANGE},
    new_metadata::NewMetadata,
};

/// The grant type of an app with a code (RFC 6749, section 4.1.3).
pub(crate) const AUTHORIZATION_CODE: &str = "authorization_code";
/// The grant type of an app with a refresh token (RFC 6749, section 6).
pub(crate) const REFRESH_TOKEN: &str = "refresh_token";
/// The grant type of a service user that authenticates (RFC 6749, section 4.4).
pub(crate) const CLIENT_CREDENTIALS: &str = "client_credentials";
/// The grant type of a service user that signs an assertion (RFC 7523, section 2.1).
pub(crate) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The grant type of an app that gets tokens from the authorization endpoint (OpenID Connect Discovery 1.0, section 3).
const IMPLICIT: &str = "implicit";

/// The grant types of every instance, up to token exchange in the order of the discovery document.
const GRANTS: [&str; 4] = [AUTHORIZATION_CODE, IMPLICIT, REFRESH_TOKEN, CLIENT_CREDENTIALS];

/// Returns the grant types of an instance, for its discovery document.
pub(crate) fn grants(oidc: &Oidc, instance_id: &str) -> Vec<&'static str> {
    let exchange = exchanges(oidc, instance_id).then_some(TOKEN_EXCHANGE);
    GRANTS.into_iter().chain(exchange).chain([JWT_BEARER]).collect()
}

fn exchanges(oidc: &Oidc, instance_id: &str) -> bool {
    oidc.edge.features(instance_id).has(EXCHANGE_FEATURE)
}

/// The feature flag of token exchange.
const EXCHANGE_FEATURE: &str = "oidc_token_exchange";

/// The metrics of a grant type.
struct Counted {
    signed: &'static Counter,
    opaque: &'static Counter,
    duration: &'static Histogram,
}

static BY_CODE: LazyLock<Counted> = LazyLock::new(|| Counted::of(AUTHORIZATION_CODE));
static BY_LOGIN: LazyLock<Counted> = LazyLock::new(|| Counted::of(IMPLICIT));
static BY_REFRESH: LazyLock<Counted> = LazyLock::new(|| Counted::of(REFRESH_TOKEN));
static BY_CREDENTIALS: LazyLock<Counted> = LazyLock::new(|| Counted::of(CLIENT_CREDENTIALS));
static BY_ASSERTION: LazyLock<Counted> = LazyLock::new(|| Counted::of("jwt-bearer"));
static BY_TOKENS: LazyLock<Counted> = LazyLock::new(|| Counted::of("token-exchange"));

impl Counted {
    fn of(grant: &str) -> Self {
        let [signed, opaque] = ["jwt", "opaque"].map(|form| TOKENS.with(&[grant, form]));
        Self { signed, opaque, duration: TOKEN_DURATION.with(&[grant]) }
    }

    async fn count(&self, granting: impl Future<Output = Result<Tokens, Error>>) -> Result<Tokens, Error> {
        let begun = Instant::now();
        let granted = granting.await;
        self.duration.record_time(begun.elapsed());
        if let Ok(tokens) = &granted
            && !tokens.access_token.is_empty()
        {
            if tokens.is_opaque { self.opaque } else { self.signed }.count();
        }
        granted
    }
}

/// A successful answer (RFC 6749, section 5.1; OpenID Connect Core 1.0, section 3.1.3.3).
#[derive(Serialize)]
pub(crate) struct Tokens {
    access_token: String,
    /// The type of the access token, where it was issued for other tokens (RFC 8693, section 2.2.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_token_type: Option<&'static str>,
    token_type: &'static str,
    expires_in: u64,
    scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    #[serde(skip)]
    is_opaque: bool,
    /// The metadata that targets set for the user, written when the tokens are returned.
    #[serde(skip)]
    metadata: NewMetadata,
}

/// A login that an app gets tokens for from the authorization endpoint, without a code (OpenID Connect Core 1.0,
/// section 3.2).
pub(crate) struct ImplicitLogin<'a> {
    pub(crate) app: &'a Arc<Client>,
    pub(crate) logged_in: &'a AppLogin,
    /// The id of the authorization request.
    pub(crate) grant_id: &'a str,
    /// The value that the ID token repeats.
    pub(crate) nonce: Option<&'a str>,
    /// Whether the app gets an access token in addition to the ID token. It never gets a refresh token.
    pub(crate) with_access_token: bool,
}

impl ImplicitLogin<'_> {
    /// Issues the tokens.
    pub(crate) async fn tokens(&self, oidc: &Oidc, tenant: &Arc<Tenant>, headers: &HeaderMap) -> Result<Tokens, Error> {
        let Self { app, logged_in, grant_id, nonce, with_access_token } = *self;
        let session_seq = oidc.edge.ended.revoked().sequence();
        let settings = app.app.config.oidc().ok_or(Error::InvalidClient)?.clone();
        let app = App::at_login(app.clone(), settings, with_access_token);
        let presented = Presented { logged_in, scope: &logged_in.scope, grant_id, session_seq, nonce };
        BY_LOGIN.count(app.tokens(oidc, tenant, &presented, headers)).await
    }
}

/// Exchanges a code for the access token of the pages of operators, and returns it with its lifetime in seconds.
pub(crate) async fn of_own_app(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    code: &str,
    verifier: &str,
    headers: &HeaderMap,
) -> Result<(String, u64), Error> {
    let redirect_uri = format!("{}{OPERATE_DONE}", oidc.edge.external.issuer(tenant));
    let sent = [
        ("client_id", own_app::CLIENT_ID),
        ("code", code),
        ("code_verifier", verifier),
        ("redirect_uri", &redirect_uri),
    ];
    let form = Form::from(HashMap::from(sent.map(|(name, value)| (name.to_owned(), value.to_owned()))));
    // The browser's headers authenticate no client.
    let mut headers = headers.clone();
    headers.remove(header::AUTHORIZATION);
    let tokens = BY_CODE.count(authorization_code::grant(oidc, tenant, &headers, &form)).await?;
    tokens.metadata.write(oidc).await;
    Ok((tokens.access_token, tokens.expires_in))
}

impl Tokens {
    /// Takes the metadata that targets set for the user.
    pub(crate) fn metadata(&mut self) -> NewMetadata {
        mem::take(&mut self.metadata)
    }

    /// Returns the parameters of an answer from the authorization endpoint (OpenID Connect Core 1.0, section 3.2.2.5).
    pub(crate) fn pairs(self, with_access_token: bool) -> Vec<(&'static str, String)> {
        let id_token = self.id_token.map(|token| ("id_token", token));
        let access_token = [
            ("access_token", self.access_token),
            ("token_type", self.token_type.to_owned()),
            ("expires_in", self.expires_in.to_string()),
            ("scope", self.scope),
        ];
        access_token.into_iter().filter(|_| with_access_token).chain(id_token).collect()
    }
}

/// Issues tokens.
pub(crate) async fn token(State(oidc): State<Arc<Oidc>>, request: Request<Body>) -> Response {
    let granted = timeout(LONGEST, grant(&oidc, request)).await.unwrap_or(Err(Error::Unavailable.into()));
    let mut tokens = match granted {
        Ok(tokens) => tokens,
        Err(refused) => return refused.into_response(),
    };
    tokens.metadata().write(&oidc).await;
    let mut response = Json(tokens).into_response();
    no_store(&mut response);
    response
}

async fn grant(oidc: &Oidc, request: Request<Body>) -> Result<Tokens, Refused> {
    let EndpointRequest { tenant, headers, form } = form::read(oidc, request).await?;
    Ok(match form.get("grant_type") {
        None => return Err(Error::InvalidRequest("grant_type is missing").into()),
        Some(AUTHORIZATION_CODE) => BY_CODE.count(authorization_code::grant(oidc, &tenant, &headers, &form)).await?,
        Some(REFRESH_TOKEN) => BY_REFRESH.count(refresh::grant(oidc, &tenant, &headers, &form)).await?,
        Some(CLIENT_CREDENTIALS) => {
            BY_CREDENTIALS.count(client_credentials::grant(oidc, &tenant, &headers, &form)).await?
        }
        Some(JWT_BEARER) => BY_ASSERTION.count(jwt_bearer::grant(oidc, &tenant, &headers, &form)).await?,
        Some(TOKEN_EXCHANGE) if exchanges(oidc, &tenant.id) => {
            BY_TOKENS.count(exchange::grant(oidc, &tenant, &headers, &form)).await?
        }
        Some(_) => return Err(Error::UnsupportedGrantType.into()),
    })
}
