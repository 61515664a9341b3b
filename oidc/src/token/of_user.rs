//! Tokens for a user, whichever way they are got: by a service user in its own name, or by an app that a person has logged in to.

use std::sync::Arc;

use domain::resource::execution::Function;
use http::HeaderMap;
use serde_json::{Map, Value};
use view::directory::{Audience, Principal, Tenancy, Tenant};

use super::Tokens;
use crate::{
    Oidc, audience, claims,
    error::Error,
    function,
    issue::Content,
    lifetime, metadata, owner,
    recipient::{Login, Recipient},
    role::Asked,
    scope::{self, Scope},
    subject::Subject,
};

/// The access token that there is for a user, and whose it is.
pub(super) async fn tokens(
    oidc: &Oidc,
    (tenant, user): (&Arc<Tenant>, Arc<Principal>),
    (scope, recipient): (Option<&str>, &Recipient),
    headers: &HeaderMap,
) -> Result<(Tokens, Subject), Error> {
    let known = scope::parse(scope)?;
    let named = known.iter().filter_map(|(_, scope)| audience::of(tenant, scope));
    let named: Vec<&str> = named.chain(recipient.own_project()).collect();
    let mut subject = Subject::read(oidc, (tenant.clone(), user), &named).await?;
    let platform = subject.tenant.instance.platform_project_id.clone();
    if let Some(login) = &recipient.login {
        let is_own = recipient.is_own();
        // What the platform's own pages get is for the platform alone.
        subject.projects.retain(|id, project| if *id == platform { is_trusted(login, project) } else { !is_own });
    }
    let Subject { grants, projects, .. } = &subject;
    if projects.values().any(|project| !project.admits(grants)) {
        return Err(Error::InvalidScope("a project that is asked for does not admit the user"));
    }
    let mut audience = all_audience(&subject, recipient);
    if audience.is_empty() {
        // A token for nobody else is for its issuer (RFC 9068, section 3).
        audience.push(oidc.edge.external.issuer(&subject.tenant));
    }
    let tokens = issued(oidc, (&subject, recipient), (&known, audience), headers).await?;
    Ok((tokens, subject))
}

/// The access token that there is for a user who is read, of these scopes and for this audience.
pub(super) async fn issued(
    oidc: &Oidc,
    (subject, recipient): (&Subject, &Recipient),
    (known, audience): (&[(&str, Scope<'_>)], Vec<String>),
    headers: &HeaderMap,
) -> Result<Tokens, Error> {
    let tenant = &subject.tenant;
    let organization = asked_for(oidc, subject, known).await?;
    if !owner::is_asked(organization.as_deref(), known) {
        return Err(Error::InvalidScope("the user is of another organization than the one that is asked for"));
    }
    let scope = granted(tenant, known, (subject, recipient));
    let added = added(oidc, (subject, recipient), (known, organization.as_deref()), headers).await?;
    // The platform reads none of them, and cookies are short.
    let added = if recipient.is_own() { Map::new() } else { added };
    let lifetime = lifetime::of(oidc, &tenant.id, |settings| settings.access_token_lifetime.as_ref());
    let content = Content { audience, scope: scope.clone(), added };
    let (access_token, expires_in) = if recipient.has_access_token() {
        oidc.issuer.access_token(&oidc.edge.external, (subject, recipient), content, lifetime).await?
    } else {
        Default::default()
    };
    let (token_type, is_opaque) = ("Bearer", recipient.is_opaque);
    let (issued_token_type, id_token, refresh_token) = (None, None, None);
    Ok(Tokens { access_token, issued_token_type, token_type, expires_in, scope, id_token, refresh_token, is_opaque })
}

/// Whether an app may get tokens for the platform's own project: who has one may do all that the person may, so apps of others do not.
pub(super) fn is_trusted(login: &Login, platform: &Audience) -> bool {
    platform.owner == login.owner
}

/// What a token says because of its scopes, because of how the project and the app are set up, and because targets say so.
async fn added(
    oidc: &Oidc,
    (subject, recipient): (&Subject, &Recipient),
    (known, organization): (&[(&str, Scope<'_>)], Option<&Tenancy>),
    headers: &HeaderMap,
) -> Result<Map<String, Value>, Error> {
    let Subject { tenant, user, grants, projects, .. } = subject;
    let asserted = recipient.asserts_roles().then_some(Scope::Roles);
    let asked = Asked::of(known.iter().map(|(_, scope)| scope.clone()).chain(asserted));
    let mut added = asked.claims(tenant, (projects.values().map(|project| &**project), grants));
    if let Some(own) = recipient.own_project().and_then(|id| projects.get(id)) {
        added.extend(asked.claims_for(tenant, (own, grants)));
    }
    added.extend(owner::repeated(organization, known));
    if known.iter().any(|(_, scope)| *scope == Scope::ResourceOwner) {
        added.extend(organization.map(owner::claims).unwrap_or_default());
    }
    if known.iter().any(|(_, scope)| *scope == Scope::Metadata) {
        let found = metadata::of(oidc, (tenant, user), subject.sequence).await?;
        added.insert(metadata::CLAIM.to_owned(), metadata::claim(&found)?);
    }
    if recipient.has_access_token() {
        let asked = (Function::PreAccessToken, known);
        added.extend(function::claims(oidc, asked, (subject, &recipient.client_id), headers).await?);
    }
    let may_act = recipient.exchange().and_then(|exchange| exchange.may_act.clone());
    added.extend(may_act.map(|may_act| ("may_act".to_owned(), may_act)));
    Ok(added)
}

/// The organization of the user, where scopes are about it.
async fn asked_for(
    oidc: &Oidc,
    Subject { tenant, user, .. }: &Subject,
    known: &[(&str, Scope<'_>)],
) -> Result<Option<Arc<Tenancy>>, Error> {
    let is_about_it =
        |scope: &Scope<'_>| matches!(scope, Scope::Organization(_) | Scope::OrganizationOf(_) | Scope::ResourceOwner);
    if known.iter().any(|(_, scope)| is_about_it(scope)) { owner::of(oidc, tenant, user).await } else { Ok(None) }
}

/// Whom an access token is for: the app, all others of its project, each by its own id, and the projects.
fn all_audience(Subject { projects, .. }: &Subject, recipient: &Recipient) -> Vec<String> {
    let client = recipient.login.as_ref().map(|_| &recipient.client_id);
    let others = recipient.own_project().and_then(|id| projects.get(id)).map_or(&[][..], |own| &own.apps);
    let others = others.iter().filter(|id| !recipient.is_own() && Some(*id) != client);
    client.into_iter().chain(others).chain(projects.keys()).cloned().collect()
}

/// What of that which a client asks for it gets.
fn granted(tenant: &Tenant, known: &[(&str, Scope<'_>)], (subject, recipient): (&Subject, &Recipient)) -> String {
    let is_granted = |scope: &Scope<'_>| match scope {
        Scope::Offline => recipient.login.as_ref().is_some_and(|login| login.is_refreshable),
        scope => audience::of(tenant, scope).is_none_or(|id| subject.projects.contains_key(id)),
    };
    let granted = known.iter().filter(|(_, scope)| is_granted(scope)).map(|(word, _)| *word);
    granted.collect::<Vec<_>>().join(" ")
}

/// The ID token beside an access token; none where its scope has no `openid` (OpenID Connect Core 1.0, section 3.1.2.1).
pub(super) async fn id_token(
    oidc: &Oidc,
    (subject, recipient): (&Subject, &Recipient),
    Tokens { access_token, scope, .. }: &Tokens,
    headers: &HeaderMap,
) -> Result<Option<String>, Error> {
    if !scope.split(' ').any(|word| Scope::parse(word) == Some(Scope::OpenId)) {
        return Ok(None);
    }
    let known = scope::parse(Some(scope))?;
    let asked = (Function::PreUserinfo, &*known);
    let mut added = function::claims(oidc, asked, (subject, &recipient.client_id), headers).await?;
    if let Some(login) = &recipient.login {
        let Subject { tenant, user, grants, projects, .. } = subject;
        added.extend(owner::repeated(asked_for(oidc, subject, &known).await?.as_deref(), &known));
        // Without an access token who the person is stands nowhere else (OpenID Connect Core 1.0, section 5.4).
        if login.assertions.id_token_userinfo || !login.has_access_token {
            added.extend(claims::of(user, known.iter().map(|(_, scope)| scope)));
        }
        if login.assertions.id_token_roles
            && let Some(own) = projects.get(&login.project_id)
        {
            added.extend(Asked::of([Scope::Roles]).claims_for(tenant, (own, grants)));
        }
    }
    let lifetime = lifetime::of(oidc, &subject.tenant.id, |settings| settings.id_token_lifetime.as_ref());
    let beside = recipient.has_access_token().then_some(access_token.as_str());
    oidc.issuer.id_token(&oidc.edge.external, (subject, recipient), (beside, added), lifetime).await
}
