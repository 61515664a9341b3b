//! The authorization code grant (RFC 6749, section 4.1.3): an app gets tokens for somebody who has logged in to it.

use std::sync::Arc;

use base::secret::{constant_time_eq, sha256};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::resource::app::{AuthMethod, oidc::GrantType};
use edge::trigger::trace_of;
use http::HeaderMap;
use view::directory::{Client, Tenant};

use super::{
    Tokens,
    login::{App, Presented},
    refresh,
};
use crate::{
    Oidc,
    authorize::checks::is_challenge,
    code::{self, Fate, PresentedCode},
    error::Error,
    form::Form,
    revoke::{self, Revocation},
};

const UNKNOWN: Error = Error::InvalidGrant("the code is none of this server, or is over");
const USED: Error = Error::InvalidGrant("the code was used before; what was got by it has ended");
const NOT_SET_UP: &str = "the app is not set up for the grant type authorization_code";

pub(super) async fn grant(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Tokens, Error> {
    let app = App::authenticated(oidc, tenant, headers, form).await?;
    let app = app.permitted(GrantType::AuthorizationCode, NOT_SET_UP)?;
    let sent = form.get("code").ok_or(Error::InvalidRequest("code is missing"))?;
    let shown = code::find(oidc, &tenant.id, sent).await?.ok_or(UNKNOWN)?;
    right(&shown, &app.client, form)?;
    // Before the tokens are made, so that a later revocation of all tokens for the code affects them.
    let session_seq = oidc.edge.ended.revoked().sequence();
    let (logged_in, grant_id) = (shown.logged_in(), shown.grant_id.as_str());
    let begun = match shown.fate() {
        Fate::Late => return Err(UNKNOWN),
        Fate::Good => {
            // Before the code is used up: without a writer it stays valid.
            let family = refresh::begin(oidc, &app, logged_in, grant_id, headers).await?;
            shown.use_up(oidc).await?.then_some(family)
        }
        Fate::Again => None,
    };
    let Some(family) = begun else {
        end(oidc, tenant, &shown, &app.client, headers).await?;
        return Err(USED);
    };
    let nonce = shown.bound().nonce.as_deref();
    let presented = Presented { logged_in, scope: &logged_in.scope, grant_id, session_seq, nonce };
    let tokens = app.tokens(oidc, tenant, &presented, headers).await?;
    match family {
        Some(family) => family.first(oidc, presented, tokens).await,
        None => Ok(tokens),
    }
}

/// Checks that the right app has sent the code, with the redirect URI of the request and the verifier of its challenge.
fn right(shown: &PresentedCode, app: &Client, form: &Form) -> Result<(), Error> {
    if shown.logged_in().client_id != app.id {
        return Err(Error::InvalidGrant("the code was given to another client"));
    }
    let redirect_uri = form.get("redirect_uri").ok_or(Error::InvalidRequest("redirect_uri is missing"))?;
    if redirect_uri != shown.bound().redirect_uri {
        return Err(Error::InvalidGrant("redirect_uri is not the one of the authorization request"));
    }
    match (&shown.bound().challenge, form.get("code_verifier")) {
        // The app may have had a secret when it made the request.
        (None, None) if app.app.config.auth_method() == AuthMethod::None => {
            Err(Error::InvalidGrant("an app without a secret must send code_challenge and code_verifier"))
        }
        (None, None) => Ok(()),
        (Some(challenge), Some(verifier)) if is_of(challenge, verifier) => Ok(()),
        (Some(_), None) => Err(Error::InvalidGrant("code_verifier is missing")),
        (Some(_), Some(_)) => Err(Error::InvalidGrant("code_verifier is not the one of code_challenge")),
        (None, Some(_)) => Err(Error::InvalidGrant("code_verifier was sent, and no code_challenge before")),
    }
}

/// Whether a challenge was derived from a verifier (RFC 7636, section 4.6).
fn is_of(challenge: &str, verifier: &str) -> bool {
    let made = URL_SAFE_NO_PAD.encode(sha256(verifier.as_bytes()));
    is_challenge(verifier) && constant_time_eq(made.as_bytes(), challenge.as_bytes())
}

/// Revokes all tokens that were issued for a code, because it was used again.
async fn end(
    oidc: &Oidc,
    tenant: &Tenant,
    shown: &PresentedCode,
    app: &Client,
    headers: &HeaderMap,
) -> Result<(), Error> {
    tracing::warn!(instance = tenant.id, client = app.id, "a code was used twice: what was got by it ends");
    let ending = Revocation::of_grant(oidc, shown.logged_in(), &shown.grant_id);
    revoke::end(oidc, tenant, ending, &trace_of(headers)).await
}
