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
    owner,
    role::Asked,
    scope::{self, Scope},
    subject::Subject,
};

/// The tokens that a user gets who has authenticated.
pub(super) async fn tokens(
    oidc: &Oidc,
    (tenant, user): (&Arc<Tenant>, Arc<Principal>),
    (headers, form): (&HeaderMap, &Form),
) -> Result<Tokens, Error> {
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
    added.extend(function::claims(oidc, Function::PreAccessToken, &subject, headers).await?);
    let mut audience: Vec<String> = projects.keys().cloned().collect();
    if audience.is_empty() {
        // A token for nobody else is for its issuer (RFC 9068, section 3).
        audience.push(oidc.edge.external.issuer(tenant));
    }
    let lifetime = access_token_lifetime(oidc, &tenant.id);
    let content = Content { audience, scope: scope.clone(), added };
    let access_token = oidc.issuer.access_token(&oidc.edge.external, &subject, content, lifetime).await?;
    Ok(Tokens { access_token, token_type: "Bearer", expires_in: lifetime.whole_seconds(), scope })
}

/// How long an access token of an instance is valid.
fn access_token_lifetime(oidc: &Oidc, instance_id: &str) -> Milliseconds {
    let settings = oidc.edge.settings.effective::<settings::Oidc>(instance_id, &Owner::instance(instance_id));
    *settings.chain.resolve(|settings| settings.access_token_lifetime.as_ref()).value
}
