//! Token introspection (RFC 7662): an app asks whether a token that it has received is active, and for its claims.

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
use http::{HeaderMap, Request};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use view::directory::{Audience, Client, Principal, Tenancy, Tenant};

use crate::{
    Oidc, audience, claims, client,
    error::{Error, Refused, no_store},
    form::{self, EndpointRequest},
    function::{self, FunctionCall, TargetAnswers},
    metadata, owner,
    role::{self, RequestedScopes},
    scope::{self, Scope},
    subject::Subject,
};

/// Answers whether a token is active. Nothing else is disclosed of an inactive one (RFC 7662, section 2.2).
pub(crate) async fn introspect(State(oidc): State<Arc<Oidc>>, request: Request<Body>) -> Response {
    match timeout(LONGEST, answer(&oidc, request)).await.unwrap_or(Err(Error::Unavailable.into())) {
        Ok(claims) => {
            let mut response = Json(claims.unwrap_or_else(|| json!({ "active": false }))).into_response();
            no_store(&mut response);
            response
        }
        Err(refused) => refused.into_response(),
    }
}

async fn answer(oidc: &Oidc, request: Request<Body>) -> Result<Option<Value>, Refused> {
    let EndpointRequest { tenant, headers, form } = form::read(oidc, request).await?;
    let app = client::app(oidc, &tenant, &headers, &form).await?;
    let token = form.get("token").ok_or(Error::InvalidRequest("token is missing"))?;
    let found = holder::held_token(&oidc.edge, &tenant, token, &app.app.project_id).await.map_err(Error::from)?;
    let Some(HeldToken { token, user, .. }) = found.filter(|held| is_for(&held.token, &app)) else { return Ok(None) };
    let Some(roles) = roles(oidc, &tenant, &app, &token, &user).await? else { return Ok(None) };
    let organization = owner::of(oidc, &tenant, &user).await?;
    let asks = |wanted: Scope| scopes(&token).any(|scope| scope == wanted);
    let owner = organization.as_ref().filter(|_| asks(Scope::ResourceOwner)).map(|found| owner::claims(found));
    let of_now = |name: &str| role::is_claim(name) || owner::is_claim(name) || name == metadata::CLAIM;
    let added = token.added.iter().filter(|(name, _)| !of_now(name)).map(|(name, value)| (name.clone(), value.clone()));
    let by_targets = match by_targets(oidc, &tenant, &token, &user, &headers).await {
        // The user has just been deactivated or removed.
        Err(Error::InvalidClient) => return Ok(None),
        other => other?,
    };
    let TargetAnswers { claims: by_targets, metadata: new } = by_targets;
    let metadata = if asks(Scope::Metadata) {
        metadata::claim_with_new(oidc, &tenant, &user, token.seq, &new).await?
    } else {
        None
    };
    let known = scope::parse(Some(&token.scope)).unwrap_or_default();
    let repeated = owner::repeated(organization.as_deref(), &known);
    let said = claims::of(&user, known.iter().map(|(_, scope)| scope));
    // No added claim replaces one of the platform's own.
    let fixed = fixed(&token, &user, organization.as_deref(), &tenant);
    let claims = added
        .chain(by_targets)
        .chain(said)
        .chain(repeated)
        .chain(roles)
        .chain(owner.into_iter().flatten())
        .chain(metadata)
        .chain(fixed)
        .collect();
    new.write(oidc).await;
    Ok(Some(Value::Object(claims)))
}

/// Whether a token is for an app, or for its project.
pub(crate) fn is_for(token: &AccessToken, app: &Client) -> bool {
    token.aud.iter().any(|aud| *aud == app.id || *aud == app.app.project_id)
}

/// Returns what targets add to the answer.
async fn by_targets(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    token: &AccessToken,
    user: &Arc<Principal>,
    headers: &HeaderMap,
) -> Result<TargetAnswers, Error> {
    if !function::is_executed(oidc, tenant, Function::PreUserinfo) {
        return Ok(TargetAnswers::default());
    }
    let known = scope::parse(Some(&token.scope)).unwrap_or_default();
    let subject = Subject::read(oidc, tenant.clone(), user.clone(), &[]).await?;
    let function = Function::PreUserinfo;
    let call = FunctionCall { function, scopes: &known, subject: &subject, client_id: &token.client_id };
    call.answers(oidc, headers).await
}

fn scopes(token: &AccessToken) -> impl Iterator<Item = Scope<'_>> {
    scope::parse(Some(&token.scope)).unwrap_or_default().into_iter().map(|(_, scope)| scope)
}

/// Returns the current roles of the user in the app's project; `None` where that does not admit the user any longer.
async fn roles(
    oidc: &Oidc,
    tenant: &Tenant,
    app: &Client,
    token: &AccessToken,
    user: &Principal,
) -> Result<Option<Map<String, Value>>, Error> {
    let project = audience::project(oidc, tenant, &app.app.project_id, &user.owner.id, token.seq).await?;
    let grants = audience::grants(oidc, tenant, user, token.seq).await?;
    let is_open = |project: &Audience| audience::is_live(oidc, tenant, project, token.seq);
    let project = project.filter(|it| is_open(it) && it.admits(&grants));
    let asked = RequestedScopes::of(scopes(token).chain(asserted(oidc, tenant, token).await?));
    Ok(project.map(|project| asked.claims_for(tenant, &project, &grants)))
}

/// Returns a scope that was not requested but counts, because the client is set up so.
async fn asserted(oidc: &Oidc, tenant: &Tenant, token: &AccessToken) -> Result<Option<Scope<'static>>, Error> {
    let client =
        if token.is_of_app() { own_app::find_app(&oidc.edge, tenant, &token.client_id, 0).await? } else { None };
    let settings = client.as_ref().and_then(|client| client.app.config.oidc());
    Ok(settings.is_some_and(|settings| settings.assertions.access_token_roles).then_some(Scope::Roles))
}

/// Returns the members of the answer for every active token (RFC 7662, section 2.2).
fn fixed(token: &AccessToken, user: &Principal, organization: Option<&Tenancy>, tenant: &Tenant) -> Map<String, Value> {
    let own_domain = organization.and_then(|found| found.organization.primary_domain.as_ref());
    let domain = own_domain.unwrap_or(&tenant.primary_domain);
    let members = [
        ("active", json!(true)),
        ("aud", json!(token.aud)),
        ("client_id", json!(token.client_id)),
        ("exp", json!(token.exp)),
        ("iat", json!(token.iat)),
        ("iss", json!(token.iss)),
        ("jti", json!(token.jti)),
        ("nbf", json!(token.nbf)),
        ("scope", json!(token.scope)),
        ("sub", json!(token.sub)),
        ("token_type", json!("Bearer")),
        ("username", json!(format!("{}@{domain}", user.user.username))),
    ];
    // Members that only some tokens have.
    let further = [
        token.act.as_ref().map(|act| ("act", json!(act))),
        token.auth_time.map(|at| ("auth_time", json!(at))),
        (!token.amr.is_empty()).then(|| ("amr", json!(token.amr))),
    ];
    members.into_iter().chain(further.into_iter().flatten()).map(|(name, value)| (name.to_owned(), value)).collect()
}
