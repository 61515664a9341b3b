//! The operations on authorization requests, for login clients, which make login pages of their own.

use std::sync::Arc;

use action::DEPTH;
use axum::Router;
use domain::{log_class::LogClass, rejection::Rejection};
use edge::{admission::Edge, answer::Answer, call::Call, consistency::HEADER, error::Error, handler::Mounting};
use eventlog::streams::REQUESTS_FORGOTTEN_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};
use proto::auth_request::{
    self, AuthError, FinishAuthRequestRequest, FinishAuthRequestResponse, GetAuthRequestRequest,
    GetAuthRequestResponse, RefuseAuthRequestRequest, RefuseAuthRequestResponse,
};
use view::directory::Client;

use crate::{
    Oidc,
    auth_request::PendingRequest,
    ending::{self, FinishedRequest},
    finish,
};

/// The noun for an authorization request in a not-found error.
const NOUN: &str = "auth_request";
/// The header that passes the trace of a request on to what follows from it.
const TRACE: HeaderName = HeaderName::from_static("traceparent");

/// Mounts the operations on all transports.
pub(crate) fn routes(router: Router, edge: &Arc<Edge>, oidc: &Arc<Oidc>) -> Router {
    Mounting::new(router, edge, oidc).on(get).on(finish).on(refuse).router()
}

async fn get(
    oidc: Arc<Oidc>,
    call: Call,
    request: GetAuthRequestRequest,
) -> Result<Answer<GetAuthRequestResponse>, Error> {
    let (waiting, app) = waiting(&oidc, &call, &request.id).await?;
    answer(&oidc, &call, GetAuthRequestResponse { auth_request: Some(to_proto(request.id, waiting, &app)) }).await
}

async fn finish(
    oidc: Arc<Oidc>,
    call: Call,
    request: FinishAuthRequestRequest,
) -> Result<Answer<FinishAuthRequestResponse>, Error> {
    let (waiting, app) = waiting(&oidc, &call, &request.id).await?;
    let shown = request.finish.unwrap_or_default().session_token;
    let (logged_in, _) = finish::logged_in(&oidc, &call.tenant, &waiting, &shown, 0).await?;
    let mut headers = HeaderMap::new();
    headers.extend(HeaderValue::from_str(&call.trace_context).ok().map(|trace| (TRACE, trace)));
    headers.insert(DEPTH, HeaderValue::from(call.depth));
    let ending = FinishedRequest { id: &request.id, waiting: &waiting, app: &app };
    let ended = ending.finish(&oidc, &call.tenant, logged_in, &headers).await?;
    let callback_url = ended.ok_or(Rejection::NotFound(NOUN))?;
    answer(&oidc, &call, FinishAuthRequestResponse { callback_url }).await
}

async fn refuse(
    oidc: Arc<Oidc>,
    call: Call,
    request: RefuseAuthRequestRequest,
) -> Result<Answer<RefuseAuthRequestResponse>, Error> {
    let (waiting, app) = waiting(&oidc, &call, &request.id).await?;
    let refusal = request.refusal.unwrap_or_default();
    let ending = FinishedRequest { id: &request.id, waiting: &waiting, app: &app };
    let ended = ending.refuse(&oidc, &call.tenant, name(refusal.error()), &refusal.description).await?;
    let callback_url = ended.ok_or(Rejection::NotFound(NOUN))?;
    answer(&oidc, &call, RefuseAuthRequestResponse { callback_url }).await
}

/// Makes an answer with the consistency token of the request: authorization requests are not in a log, so the client
/// has seen no more.
async fn answer<O>(oidc: &Oidc, call: &Call, message: O) -> Result<Answer<O>, Error> {
    let seen = call.consistency.events.required;
    let token = call.token_at(&oidc.edge.tokens, LogClass::Events, seen).await?;
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

/// Returns the pending authorization request and its app.
async fn waiting(oidc: &Oidc, call: &Call, id: &str) -> Result<(PendingRequest, Arc<Client>), Error> {
    // Admission has waited for the log `EVENTS`.
    let asked = call.consistency.sessions;
    asked.accept(oidc.edge.ended.revoked().position().processed_by(asked.required, asked.left()).await)?;
    Ok(ending::waiting(oidc, &call.tenant, id).await?.ok_or(Rejection::NotFound(NOUN))?)
}

fn to_proto(id: String, PendingRequest { request, since }: PendingRequest, app: &Client) -> auth_request::AuthRequest {
    let scopes = request.scope.split(' ').map(str::to_owned).collect();
    let max_age = request.max_age.map(|seconds| proto::wellknown::Duration { seconds: i64::from(seconds), nanos: 0 });
    auth_request::AuthRequest {
        id,
        creation_date: Some(since.into()),
        expiration_date: Some((since + REQUESTS_FORGOTTEN_AFTER).into()),
        client_id: request.client_id,
        app_name: app.app.name.clone(),
        project_id: request.project_id,
        redirect_uri: request.callback.redirect_uri,
        scopes,
        prompts: request.prompts,
        ui_locales: request.ui_locales,
        login_hint: request.login_hint.unwrap_or_default(),
        max_age,
        hint_user_id: request.hint_user_id.unwrap_or_default(),
        organization_id: request.organization_id.unwrap_or_default(),
    }
}

/// The name of an error (RFC 6749, section 4.1.2.1; OpenID Connect Core 1.0, section 3.1.2.6).
fn name(error: AuthError) -> &'static str {
    match error {
        AuthError::AccessDenied => "access_denied",
        AuthError::LoginRequired => "login_required",
        AuthError::InteractionRequired => "interaction_required",
        AuthError::AccountSelectionRequired => "account_selection_required",
        AuthError::ConsentRequired => "consent_required",
        AuthError::TemporarilyUnavailable => "temporarily_unavailable",
        AuthError::ServerError | AuthError::Unspecified => "server_error",
    }
}
