//! The client credentials grant (RFC 6749, section 4.4): a service user gets a token in its own name.

use std::{collections::BTreeMap, sync::Arc};

use domain::{context::Owner, resource::execution::Function, setting::oidc as settings, settings::Milliseconds};
use http::HeaderMap;
use view::directory::{Audience, Named, Principal, Tenant};

use super::Tokens;
use crate::{
    Oidc, audience, client,
    error::Error,
    form::Form,
    function, owner,
    role::Asked,
    scope::{self, Scope},
};

pub(super) async fn grant(oidc: &Oidc, tenant: &Tenant, headers: &HeaderMap, form: &Form) -> Result<Tokens, Error> {
    let user = client::user(oidc, tenant, headers, form).await?;
    let newer = newer(oidc, tenant, user.processed).await?;
    let tenant = newer.as_deref().unwrap_or(tenant);
    let known = scope::parse(form.get("scope"))?;
    let grants = oidc.edge.directory.grants(&tenant.id, &user.id, user.processed).await?;
    let (mut granted, mut projects) = (vec![], BTreeMap::new());
    for (word, scope) in &known {
        match scope {
            Scope::Audience(id) => {
                let Some(project) = project((oidc, tenant), id, &user).await? else { continue };
                if !project.admits(&grants) {
                    return Err(Error::InvalidScope("a project that is asked for does not let the user in"));
                }
                projects.insert(project.id.clone(), project);
            }
            Scope::OpenId | Scope::Roles | Scope::Role(_) | Scope::RolesOf(_) | Scope::ResourceOwner => {}
        }
        granted.push(*word);
    }
    let asked = Asked::of(known.iter().map(|(_, scope)| scope.clone()));
    let mut added = asked.claims(projects.values().map(|project| &**project), &grants)?;
    if known.iter().any(|(_, scope)| *scope == Scope::ResourceOwner) {
        added.extend(owner::of(oidc, tenant, &user).await?.map(|found| owner::claims(&found)).unwrap_or_default());
    }
    added.extend(function::claims(oidc, Function::PreAccessToken, (tenant, &user, &grants), headers).await?);
    let mut audience: Vec<String> = projects.into_keys().collect();
    if audience.is_empty() {
        // A token for nobody else is for its issuer (RFC 9068, section 3).
        audience.push(oidc.edge.external.issuer(tenant));
    }
    let scope = granted.join(" ");
    let at = (&oidc.edge.external, tenant);
    let lifetime = access_token_lifetime(oidc, &tenant.id);
    let access_token = oidc.issuer.access_token(at, &user, (audience, scope.clone(), added), lifetime).await?;
    Ok(Tokens { access_token, token_type: "Bearer", expires_in: lifetime.whole_seconds(), scope })
}

/// How long an access token of an instance is valid.
fn access_token_lifetime(oidc: &Oidc, instance_id: &str) -> Milliseconds {
    let settings = oidc.edge.settings.effective::<settings::Oidc>(instance_id, &Owner::instance(instance_id));
    *settings.chain.resolve(|settings| settings.access_token_lifetime.as_ref()).value
}

/// The instance as new as a sequence, where it was read before: a token says that its issuer has seen both as of then.
async fn newer(oidc: &Oidc, tenant: &Tenant, sequence: u64) -> Result<Option<Arc<Tenant>>, Error> {
    if tenant.processed >= sequence {
        return Ok(None);
    }
    let found = oidc.edge.directory.tenant(Named::Id(tenant.id.clone()), sequence).await?;
    let is_open = |tenant: &Arc<Tenant>| tenant.instance.is_active && !tenant.instance.limits.block;
    found.filter(is_open).map(Some).ok_or(Error::InvalidClient)
}

/// A project of the instance that tokens are issued for.
async fn project((oidc, tenant): (&Oidc, &Tenant), id: &str, user: &Principal) -> Result<Option<Arc<Audience>>, Error> {
    let id = if id == "platform" { &tenant.instance.platform_project_id } else { id };
    let named = (id, user.owner.id.as_str());
    let found = oidc.edge.directory.project(&tenant.id, named, user.processed).await?;
    Ok(found.filter(|found| audience::is_live(oidc, tenant, found, found.processed)))
}
