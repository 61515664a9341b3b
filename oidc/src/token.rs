//! The token endpoint (RFC 6749, section 3.2): grant type to grant.

mod client_credentials;

use std::{
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
use edge::mount::{LONGEST, read_body};
use http::Request;
use serde::Serialize;
use tokio::time::timeout;

use crate::{
    Oidc,
    error::{Error, no_store},
    form::Form,
};

/// Where the endpoint is.
pub(crate) const PATH: &str = "/oauth/v2/token";
/// The largest request, in bytes.
const LARGEST: usize = 64 * 1024;

/// What is counted of a grant.
struct Counted {
    issued: &'static Counter,
    duration: &'static Histogram,
}

static CLIENT_CREDENTIALS: LazyLock<Counted> = LazyLock::new(|| Counted::of("client_credentials"));

impl Counted {
    fn of(grant: &str) -> Self {
        Self { issued: TOKENS.with(&[grant, "jwt"]), duration: TOKEN_DURATION.with(&[grant]) }
    }
}

/// A successful answer (RFC 6749, section 5.1).
#[derive(Serialize)]
pub(crate) struct Tokens {
    access_token: String,
    token_type: &'static str,
    expires_in: u64,
    scope: String,
}

/// Grants tokens.
pub(crate) async fn token(State(oidc): State<Arc<Oidc>>, request: Request<Body>) -> Response {
    match timeout(LONGEST, grant(&oidc, request)).await.unwrap_or(Err(Error::Unavailable.into())) {
        Ok(response) => response,
        Err(Refused::OAuth(error)) => error.into_response(),
        Err(Refused::Platform(error)) => error.into_response(),
    }
}

/// Only an unknown host is answered in the platform's own form.
enum Refused {
    OAuth(Error),
    Platform(edge::error::Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::OAuth(error)
    }
}

async fn grant(oidc: &Oidc, request: Request<Body>) -> Result<Response, Refused> {
    let (parts, body) = request.into_parts();
    // Before anything is refused: most clients read the answer only once they have sent all.
    let body = read_body(body, LARGEST).await;
    let tenant = oidc.edge.open_tenant(&parts).await.map_err(Refused::Platform)?;
    let body = body.map_err(|_| Error::InvalidRequest("the request is too large or was cut off"))?;
    let form = Form::read(&parts.headers, &body)?;
    let tokens = match form.get("grant_type") {
        None => return Err(Error::InvalidRequest("grant_type is missing").into()),
        Some("client_credentials") => {
            let begun = Instant::now();
            let granted = client_credentials::grant(oidc, &tenant, &parts.headers, &form).await;
            CLIENT_CREDENTIALS.duration.record_time(begun.elapsed());
            CLIENT_CREDENTIALS.issued.add(u64::from(granted.is_ok()));
            granted?
        }
        Some(_) => return Err(Error::UnsupportedGrantType.into()),
    };
    let mut response = Json(tokens).into_response();
    no_store(&mut response);
    Ok(response)
}
