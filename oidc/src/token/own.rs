//! Tokens that a service user gets in its own name, whichever way it has authenticated.

use std::sync::Arc;

use domain::{context::Owner, resource::execution::Function, setting::oidc as settings, settings::Milliseconds};
use http::HeaderMap;
use view::directory::{Principal, Tenant};

use super::Tokens;
use crate::{
    Oidc, audience,
    error::Error,
    form::Form,
    function,
    issue::Content,
    metadata, owner,
    role::Asked,
    scope::{self, Scope},
    subject::Subject,
};

/// The access token that a user gets who has authenticated, and whose it is.
pub(super) async fn tokens(
    oidc: &Oidc,
    (tenant, user): (&Arc<Tenant>, Arc<Principal>),
    (headers, form): (&HeaderMap, &Form),
) -> Result<(Tokens, Subject), Error> {
    let known = scope::parse(form.get("scope"))?;
    let project = |scope: &Scope<'_>| match scope {
        Scope::Audience(named) => Some(audience::id(tenant, named).to_owned()),
        _ => None,
    };
    let named: Vec<String> = known.iter().filter_map(|(_, scope)| project(scope)).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let subject = Subject::read(oidc, (tenant.clone(), user), &named).await?;
    let Subject { tenant, user, grants, projects, .. } = &subject;
    if projects.values().any(|project| !project.admits(grants)) {
        return Err(Error::InvalidScope("a project that is asked for does not admit the user"));
    }
    let is_granted = |scope: &Scope<'_>| project(scope).is_none_or(|id| projects.contains_key(&id));
    let granted = known.iter().filter(|(_, scope)| is_granted(scope)).map(|(word, _)| *word);
    let scope = granted.collect::<Vec<_>>().join(" ");
    let asked = Asked::of(known.iter().map(|(_, scope)| scope.clone()));
    let mut added = asked.claims(tenant, (projects.values().map(|project| &**project), grants));
    if known.iter().any(|(_, scope)| *scope == Scope::ResourceOwner) {
        added.extend(owner::of(oidc, tenant, user).await?.map(|found| owner::claims(&found)).unwrap_or_default());
    }
    if known.iter().any(|(_, scope)| *scope == Scope::Metadata) {
        let found = metadata::of(oidc, (tenant, user), subject.sequence).await?;
        added.insert(metadata::CLAIM.to_owned(), metadata::claim(&found)?);
    }
    added.extend(function::claims(oidc, Function::PreAccessToken, &subject, headers).await?);
    let mut audience: Vec<String> = projects.keys().cloned().collect();
    if audience.is_empty() {
        // A token for nobody else is for its issuer (RFC 9068, section 3).
        audience.push(oidc.edge.external.issuer(tenant));
    }
    let lifetime = lifetime(oidc, &tenant.id, |settings| settings.access_token_lifetime.as_ref());
    let content = Content { audience, scope: scope.clone(), added };
    let access_token = oidc.issuer.access_token(&oidc.edge.external, &subject, content, lifetime).await?;
    let expires_in = lifetime.whole_seconds();
    let (token_type, is_opaque) = ("Bearer", subject.user.user.has_opaque_tokens());
    Ok((Tokens { access_token, token_type, expires_in, scope, id_token: None, is_opaque }, subject))
}

/// The ID token beside an access token; none where its scope has no `openid` (OpenID Connect Core 1.0, section 3.1.2.1).
pub(super) async fn id_token(
    oidc: &Oidc,
    subject: &Subject,
    Tokens { access_token, scope, .. }: &Tokens,
    headers: &HeaderMap,
) -> Result<Option<String>, Error> {
    if !scope.split(' ').any(|word| Scope::parse(word) == Some(Scope::OpenId)) {
        return Ok(None);
    }
    let added = function::claims(oidc, Function::PreUserinfo, subject, headers).await?;
    let lifetime = lifetime(oidc, &subject.tenant.id, |settings| settings.id_token_lifetime.as_ref());
    oidc.issuer.id_token(&oidc.edge.external, subject, (access_token, added), lifetime).await
}

/// How long tokens of an instance are valid, by one of its settings.
fn lifetime(oidc: &Oidc, instance_id: &str, which: fn(&settings::Oidc) -> Option<&Milliseconds>) -> Milliseconds {
    *oidc
        .edge
        .settings
        .effective::<settings::Oidc>(instance_id, &Owner::instance(instance_id))
        .chain
        .resolve(which)
        .value
}
