//! The authorization code grant (RFC 6749, section 4.1.3): an app gets tokens for somebody who has logged in to it.

use std::sync::Arc;

use base::{
    clock,
    secret::{same, sha256},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::resource::app::oidc::{GrantType, Oidc as Settings};
use edge::trigger::trace_of;
use http::HeaderMap;
use view::{
    directory::{Client, Name, Tenant},
    revoked::LONGEST_LIFE,
};

use super::{Tokens, own};
use crate::{
    Oidc,
    authorize::checks::is_challenge,
    client,
    code::{self, Fate, LoggedIn, Shown},
    error::Error,
    form::Form,
    recipient::{Login, Recipient},
    revoke::{self, Ending},
};

const UNKNOWN: Error = Error::InvalidGrant("the code is none of this server, or is over");
const USED: Error = Error::InvalidGrant("the code was used before; what was got by it has ended");
const ENDED: Error = Error::InvalidGrant("the session has ended, or the user is not active any more");

pub(super) async fn grant(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    (headers, form): (&HeaderMap, &Form),
) -> Result<Tokens, Error> {
    let app = client::of_code(oidc, tenant, headers, form).await?;
    let settings = app.app.config.oidc().ok_or(Error::InvalidClient)?;
    if !settings.grant_types.contains(&GrantType::AuthorizationCode) {
        return Err(Error::UnauthorizedClient("the app is not set up for the grant type authorization_code"));
    }
    let sent = form.get("code").ok_or(Error::InvalidRequest("code is missing"))?;
    let shown = code::find(oidc, &tenant.id, sent).await?.ok_or(UNKNOWN)?;
    right(shown.logged_in(), &app, form)?;
    // What ends all that was got by the code comes after this, whenever the tokens are made.
    let session_seq = oidc.edge.ended.revoked().sequence();
    match shown.fate() {
        Fate::Late => return Err(UNKNOWN),
        Fate::Good if shown.use_up(oidc).await? => {}
        Fate::Good | Fate::Again => {
            end(oidc, tenant, (&shown, &app), headers).await?;
            return Err(USED);
        }
    }
    tokens(oidc, (tenant, (&app, settings), &shown), (session_seq, headers)).await
}

/// Whether a code is shown by whom it was given to: the app, where it was answered, with the verifier of its challenge.
fn right(logged_in: &LoggedIn, app: &Client, form: &Form) -> Result<(), Error> {
    if logged_in.client_id != app.id {
        return Err(Error::InvalidGrant("the code was given to another client"));
    }
    let redirect_uri = form.get("redirect_uri").ok_or(Error::InvalidRequest("redirect_uri is missing"))?;
    if redirect_uri != logged_in.redirect_uri {
        return Err(Error::InvalidGrant("redirect_uri is not the one of the authorization request"));
    }
    match (&logged_in.challenge, form.get("code_verifier")) {
        (None, None) => Ok(()),
        (Some(challenge), Some(verifier)) if is_of(challenge, verifier) => Ok(()),
        (Some(_), None) => Err(Error::InvalidGrant("code_verifier is missing")),
        (Some(_), Some(_)) => Err(Error::InvalidGrant("code_verifier is not the one of code_challenge")),
        (None, Some(_)) => Err(Error::InvalidGrant("code_verifier was sent, and no code_challenge before")),
    }
}

/// Whether a challenge was made of a verifier (RFC 7636, section 4.6).
fn is_of(challenge: &str, verifier: &str) -> bool {
    let made = URL_SAFE_NO_PAD.encode(sha256(verifier.as_bytes()));
    is_challenge(verifier) && same(made.as_bytes(), challenge.as_bytes())
}

/// Ends all that was got by a code, because somebody has used it again.
async fn end(oidc: &Oidc, tenant: &Tenant, (shown, app): (&Shown, &Client), headers: &HeaderMap) -> Result<(), Error> {
    tracing::warn!(instance = tenant.id, client = app.id, "a code was used twice: what was got by it ends");
    let ending = Ending {
        user_id: shown.logged_in().user_id.clone(),
        client_id: app.id.clone(),
        id: shown.grant_id.clone(),
        expires_at: (clock::now() + LONGEST_LIFE).as_millisecond(),
        seen: oidc.edge.ended.revoked().sequence(),
    };
    revoke::end(oidc, tenant, ending, &trace_of(headers)).await
}

async fn tokens(
    oidc: &Oidc,
    (tenant, (app, settings), shown): (&Arc<Tenant>, (&Client, &Settings), &Shown),
    (session_seq, headers): (u64, &HeaderMap),
) -> Result<Tokens, Error> {
    let logged_in = shown.logged_in();
    let is_over = logged_in.session_ends <= clock::now().as_millisecond();
    if is_over || oidc.edge.ended.revoked().has_session_ended(&tenant.id, &logged_in.session_id) {
        return Err(ENDED);
    }
    let user = Name::Id(logged_in.user_id.clone());
    let user = oidc.edge.directory.principal(&tenant.id, user, logged_in.seen).await?.ok_or(ENDED)?;
    let login = Login {
        project_id: app.app.project_id.clone(),
        owner: app.owner.clone(),
        session_seq,
        assertions: settings.assertions,
        session_id: logged_in.session_id.clone(),
        grant_id: shown.grant_id.clone(),
        auth_time: logged_in.checked_at / 1000,
        ends: logged_in.session_ends / 1000,
        nonce: logged_in.nonce.clone(),
    };
    let recipient = Recipient::of_app(app, settings, login);
    let scope = Some(logged_in.scope.as_str());
    // Who is not active is no client that cannot authenticate here.
    let issued = own::tokens(oidc, (tenant, user), (scope, &recipient), headers).await;
    let (tokens, subject) = issued.map_err(|error| if error == Error::InvalidClient { ENDED } else { error })?;
    let id_token = own::id_token(oidc, (&subject, &recipient), &tokens, headers).await?;
    Ok(Tokens { id_token, ..tokens })
}
