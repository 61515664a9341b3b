//! Token revocation (RFC 7009): a client ends an access token that it got, or a refresh token and with it all tokens of
//! its family. The answer for an unknown or expired token is the same as for one that was ended.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use base::{clock, explain::explain};
use edge::{admission::holder, caller::AccessToken, mount::LONGEST, trigger::trace_of};
use http::{HeaderMap, Request, StatusCode};
use proto::bus::{EndAllSessions, InternalOutcome, RevokeTokens, internal_command::Command};
use tokio::time::timeout;
use view::{directory::Tenant, revoked::LONGEST_LIFE};

use crate::{
    Oidc,
    app_login::AppLogin,
    client,
    error::{Error, Refused, no_store},
    form::{self, EndpointRequest},
    refresh_token::{self, RefreshToken},
};

/// How many seconds the clocks of nodes may differ: a token that has expired here may still be valid there.
const CLOCKS: i64 = 60;

/// Revokes a token, and answers when the end is in the log, and known on this node.
pub(crate) async fn revoke(State(oidc): State<Arc<Oidc>>, request: Request<Body>) -> Response {
    match timeout(LONGEST, answer(&oidc, request)).await.unwrap_or(Err(Error::Unavailable.into())) {
        Ok(()) => {
            let mut response = StatusCode::OK.into_response();
            no_store(&mut response);
            response
        }
        Err(refused) => refused.into_response(),
    }
}

async fn answer(oidc: &Oidc, request: Request<Body>) -> Result<(), Refused> {
    let EndpointRequest { tenant, headers, form } = form::read(oidc, request).await?;
    let client_id = client::any(oidc, &tenant, &headers, &form).await?;
    let token = form.get("token").ok_or(Error::InvalidRequest("token is missing"))?;
    if holder::is_personal(token) {
        let how = "a personal access token is not issued to a client: who has it deletes it by the API";
        return Err(Error::UnsupportedTokenType(how).into());
    }
    // The type of a token is evident from the token, so the hint is ignored (section 2.1).
    if refresh_token::is_one(token) {
        return Ok(end_refreshing(oidc, &tenant, token, &client_id, &headers).await?);
    }
    let Some(token) = holder::claims_ever_issued(&oidc.edge, &tenant, token).await.map_err(Error::from)? else {
        return Ok(());
    };
    if token.client_id != client_id {
        return Err(ANOTHER.into());
    }
    let is_over = token.exp.saturating_add(CLOCKS) <= clock::now().as_second();
    if is_over || oidc.edge.ended.revoked().has(&tenant.id, &token.id()) {
        return Ok(());
    }
    let trace_context = trace_of(&headers);
    Ok(end(oidc, &tenant, token.into(), &trace_context).await?)
}

/// Ends the family of a refresh token, with all access tokens that were issued for it.
async fn end_refreshing(
    oidc: &Oidc,
    tenant: &Tenant,
    token: &str,
    client_id: &str,
    headers: &HeaderMap,
) -> Result<(), Error> {
    let Some(RefreshToken { logged_in, grant_id, .. }) = RefreshToken::open(oidc, tenant, token).await? else {
        return Ok(());
    };
    if logged_in.client_id != client_id {
        return Err(ANOTHER);
    }
    end(oidc, tenant, Revocation::of_grant(oidc, &logged_in, &grant_id), &trace_of(headers)).await
}

const ANOTHER: Error = Error::InvalidGrant("the token was issued to another client");

/// What is revoked: an access token, or all tokens that were issued for a code or request.
pub(crate) struct Revocation {
    pub(crate) user_id: String,
    pub(crate) client_id: String,
    /// The id of the token, or of the code or request.
    pub(crate) id: String,
    /// When the last of the tokens expires, in milliseconds since the Unix epoch.
    pub(crate) expires_at: i64,
    /// The sequence of the log `SESSIONS` that the issuer had seen.
    pub(crate) seen: u64,
    /// The family of refresh tokens that ends with it.
    pub(crate) family_id: Option<String>,
}

impl Revocation {
    /// Makes the revocation of all tokens that are issued for a code or request, now or later.
    pub(crate) fn of_grant(oidc: &Oidc, logged_in: &AppLogin, grant_id: &str) -> Self {
        Self {
            user_id: logged_in.user_id.clone(),
            client_id: logged_in.client_id.clone(),
            id: grant_id.to_owned(),
            expires_at: (clock::now() + LONGEST_LIFE).as_millisecond(),
            seen: oidc.edge.ended.revoked().sequence(),
            family_id: Some(grant_id.to_owned()),
        }
    }
}

impl From<AccessToken> for Revocation {
    fn from(AccessToken { sub, client_id, jti, exp, session_seq, .. }: AccessToken) -> Self {
        Self {
            user_id: sub,
            client_id,
            id: jti,
            expires_at: exp.saturating_mul(1000),
            seen: session_seq,
            family_id: None,
        }
    }
}

impl Revocation {
    /// Makes the command. It revokes all tokens of the client for the user where there are too many single revocations
    /// to remember.
    pub(crate) fn command(self, oidc: &Oidc, instance_id: &str) -> RevokeTokens {
        let Self { user_id, client_id, id, expires_at, seen, family_id } = self;
        let family_id = family_id.unwrap_or_default();
        if !oidc.edge.ended.revoked().is_full(instance_id, &client_id) {
            return RevokeTokens { user_id, client_id, token_id: id, expires_at, seen, family_id };
        }
        let expires_at = (clock::now() + LONGEST_LIFE).as_millisecond();
        RevokeTokens { user_id, client_id, token_id: String::new(), expires_at, seen, family_id }
    }
}

/// Revokes tokens, and waits until this node knows.
pub(crate) async fn end(oidc: &Oidc, tenant: &Tenant, ending: Revocation, trace_context: &str) -> Result<(), Error> {
    let command = ending.command(oidc, &tenant.id);
    if command.token_id.is_empty() {
        tracing::info!(
            instance = tenant.id,
            client = command.client_id,
            "all tokens of a user and a client are revoked"
        );
    }
    have_ended(oidc, tenant, Command::RevokeTokens(command), trace_context).await
}

/// Sends a command that ends something to the writer, and waits until this node knows.
pub(crate) async fn have_ended(
    oidc: &Oidc,
    tenant: &Tenant,
    command: Command,
    trace_context: &str,
) -> Result<(), Error> {
    wait_until_known(oidc, send(oidc, tenant, command, trace_context).await?.sequence).await
}

/// Ends all sessions of a person by the writer, and waits until this node knows.
pub(crate) async fn have_all_ended(
    oidc: &Oidc,
    tenant: &Tenant,
    user_id: String,
    trace_context: &str,
) -> Result<(), Error> {
    let command = Command::EndAllSessions(EndAllSessions { user_id });
    let sequence = send(oidc, tenant, command, trace_context).await?.sequence;
    let reached = oidc.edge.ended.position().wait_briefly_for(sequence).await;
    if reached >= sequence { Ok(()) } else { Err(Error::Unavailable) }
}

async fn send(oidc: &Oidc, tenant: &Tenant, command: Command, trace_context: &str) -> Result<InternalOutcome, Error> {
    oidc.internal.send(&tenant.id, trace_context, command).await.map_err(|undone| {
        tracing::warn!(error = %explain(&undone), "something that was to end did not");
        Error::Unavailable
    })
}

/// Waits until this node knows all revocations up to a sequence.
pub(crate) async fn wait_until_known(oidc: &Oidc, sequence: u64) -> Result<(), Error> {
    let revoked = oidc.edge.ended.revoked();
    revoked.position().wait_briefly_for(sequence).await;
    if revoked.sequence() >= sequence { Ok(()) } else { Err(Error::Unavailable) }
}
