//! The userinfo endpoint (OpenID Connect Core 1.0, section 5.3): an app requests claims about a user with an access
//! token.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use domain::resource::execution::Function;
use edge::{
    admission::{HeldToken, holder, own_app},
    caller::AccessToken,
    mount::LONGEST,
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use view::directory::{Audience, Principal, Tenant};

use crate::{
    Oidc, audience, claims,
    error::{Error, Refused, method_not_allowed, no_store},
    form,
    function::{FunctionCall, TargetAnswers},
    metadata, owner,
    role::RequestedScopes,
    scope::{self, Scope},
    subject::Subject,
};

/// Answers with the claims about the user of a token.
pub(crate) async fn userinfo(State(oidc): State<Arc<Oidc>>, request: Request<Body>) -> Response {
    if ![Method::GET, Method::POST].contains(request.method()) {
        return method_not_allowed("GET, POST");
    }
    match timeout(LONGEST, answer(&oidc, request)).await.unwrap_or(Err(Error::Unavailable.into())) {
        Ok(claims) => {
            let mut response = Json(claims).into_response();
            no_store(&mut response);
            response
        }
        Err(Unanswered::Challenged(challenge)) => challenge.answer(),
        Err(Unanswered::Refused(refused)) => refused.into_response(),
    }
}

/// Why a request is refused.
enum Unanswered {
    /// The token is missing or invalid, or lacks a scope.
    Challenged(Challenge),
    Refused(Refused),
}

/// What is wrong with a token (RFC 6750, section 3.1).
enum Challenge {
    Missing,
    Invalid,
    InsufficientScope,
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Self {
        Self::Refused(error.into())
    }
}

impl Challenge {
    fn answer(&self) -> Response {
        let (status, error, description) = match self {
            Self::Missing => (StatusCode::UNAUTHORIZED, None, "the request needs an access token"),
            Self::Invalid => (StatusCode::UNAUTHORIZED, Some("invalid_token"), "the access token is not valid here"),
            Self::InsufficientScope => {
                (StatusCode::FORBIDDEN, Some("insufficient_scope"), "the access token lacks the scope openid")
            }
        };
        let parameters =
            error.map_or_else(String::new, |error| format!(" error=\"{error}\", error_description=\"{description}\""));
        let body = json!({ "error": error.unwrap_or("invalid_request"), "error_description": description });
        let mut response = (status, Json(body)).into_response();
        no_store(&mut response);
        if let Ok(challenge) = HeaderValue::from_str(&format!("Bearer{parameters}")) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response.extensions_mut().insert(edge::error::Refused(error.unwrap_or("token_missing")));
        response
    }
}

async fn answer(oidc: &Oidc, request: Request<Body>) -> Result<Map<String, Value>, Unanswered> {
    let (tenant, headers, token) = read_token(oidc, request).await?;
    let token = token.ok_or(Unanswered::Challenged(Challenge::Missing))?;
    let platform = &tenant.instance.platform_project_id;
    let held = holder::held_token(&oidc.edge, &tenant, &token, platform).await.map_err(Error::from)?;
    let HeldToken { token, user, .. } = held.ok_or(Unanswered::Challenged(Challenge::Invalid))?;
    let known = scope::parse(Some(&token.scope)).unwrap_or_default();
    if !known.iter().any(|(_, scope)| *scope == Scope::OpenId) {
        return Err(Unanswered::Challenged(Challenge::InsufficientScope));
    }
    user_claims(oidc, tenant, user, &token, &headers).await.map_err(|error| match error {
        // The user has just been deactivated or removed.
        Error::InvalidClient => Unanswered::Challenged(Challenge::Invalid),
        error => error.into(),
    })
}

/// Returns the token of a request, from a header or a form (RFC 6750, section 2).
async fn read_token(
    oidc: &Oidc,
    request: Request<Body>,
) -> Result<(Arc<Tenant>, HeaderMap, Option<String>), Unanswered> {
    let mut in_header = request.headers().get_all(header::AUTHORIZATION).iter();
    let bearer = |value: &HeaderValue| {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
    };
    let token = if let (Some(value), None) = (in_header.next(), in_header.next()) { bearer(value) } else { None };
    let takes_form = |value: &HeaderValue| value.as_bytes().starts_with(b"application/x-www-form-urlencoded");
    let has_form =
        request.method() == Method::POST && request.headers().get(header::CONTENT_TYPE).is_some_and(takes_form);
    if has_form {
        let sent = form::read(oidc, request).await.map_err(Unanswered::Refused)?;
        return match (token, sent.form.get("access_token")) {
            (Some(_), Some(_)) => Err(Error::InvalidRequest("the access token is sent in two ways").into()),
            (token, in_form) => {
                let token = token.or_else(|| in_form.map(str::to_owned));
                Ok((sent.tenant, sent.headers, token))
            }
        };
    }
    let (parts, _) = request.into_parts();
    let tenant = oidc.edge.open_tenant(&parts).await.map_err(|error| Unanswered::Refused(Refused::Platform(error)))?;
    Ok((tenant, parts.headers, token))
}

/// Returns the claims about the user that the scopes of a token request.
async fn user_claims(
    oidc: &Oidc,
    tenant: Arc<Tenant>,
    user: Arc<Principal>,
    token: &AccessToken,
    headers: &HeaderMap,
) -> Result<Map<String, Value>, Error> {
    let known = scope::parse(Some(&token.scope)).unwrap_or_default();
    let app = own_app::find_app(&oidc.edge, &tenant, &token.client_id, 0).await?;
    let own = app.as_ref().map(|app| app.app.project_id.as_str());
    let named = known.iter().filter_map(|(_, scope)| audience::of(&tenant, scope)).chain(own);
    let named: Vec<String> = named.filter(|id| token.aud.iter().any(|aud| aud == id)).map(str::to_owned).collect();
    // Only the audience of tokens of apps contains apps.
    let projects = if token.is_of_app() { &named } else { &token.aud };
    let projects: Vec<&str> = projects.iter().map(String::as_str).collect();
    let subject = Subject::read(oidc, tenant, user, &projects).await?;
    let function = Function::PreUserinfo;
    let call = FunctionCall { function, scopes: &known, subject: &subject, client_id: &token.client_id };
    let TargetAnswers { claims: mut said, metadata: new } = call.answers(oidc, headers).await?;
    let Subject { tenant, user, grants, projects, .. } = &subject;
    said.extend(claims::of(user, known.iter().map(|(_, scope)| scope)));
    let asked = RequestedScopes::of(known.iter().map(|(_, scope)| scope.clone()));
    let is_live = |project: &&Audience| audience::is_live(oidc, tenant, project, token.seq) && project.admits(grants);
    let live = || projects.values().map(|project| &**project).filter(is_live);
    said.extend(asked.claims(tenant, live(), grants));
    if let Some(own) = app.and_then(|app| live().find(|project| project.id == app.app.project_id)) {
        said.extend(asked.claims_for(tenant, own, grants));
    }
    let organization = owner::of(oidc, tenant, user).await?;
    said.extend(owner::repeated(organization.as_deref(), &known));
    if known.iter().any(|(_, scope)| *scope == Scope::ResourceOwner) {
        said.extend(organization.map(|found| owner::claims(&found)).unwrap_or_default());
    }
    if known.iter().any(|(_, scope)| *scope == Scope::Metadata) {
        said.extend(metadata::claim_with_new(oidc, tenant, user, subject.sequence, &new).await?);
    }
    said.extend(token.act.as_ref().map(|act| ("act".to_owned(), json!(act))));
    said.insert("sub".to_owned(), json!(user.id));
    new.write(oidc).await;
    Ok(said)
}
