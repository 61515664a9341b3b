//! The client credentials grant (RFC 6749, section 4.4): a service user gets a token in its own name.

use std::sync::Arc;

use base::explain::explain;
use domain::{
    context::Owner,
    resource::{execution::Function, project::Project},
    setting::oidc as settings,
    settings::Milliseconds,
};
use http::HeaderMap;
use view::{
    directory::{Named, Tenant},
    projection::ACCESS,
    read_model::ReadModel,
};

use super::Tokens;
use crate::{
    Oidc, client,
    error::Error,
    form::Form,
    function,
    scope::{self, Scope},
};

pub(super) async fn grant(oidc: &Oidc, tenant: &Tenant, headers: &HeaderMap, form: &Form) -> Result<Tokens, Error> {
    let user = client::authenticate(oidc, tenant, headers, form).await?;
    let newer = newer(oidc, tenant, user.processed).await?;
    let tenant = newer.as_deref().unwrap_or(tenant);
    let (mut granted, mut audience) = (vec![], vec![]);
    for (word, scope) in scope::parse(form.get("scope"))? {
        match scope {
            Scope::OpenId => granted.push(word),
            Scope::Audience(id) => {
                if let Some(project_id) = project(oidc, tenant, id).await? {
                    granted.push(word);
                    if !audience.contains(&project_id) {
                        audience.push(project_id);
                    }
                }
            }
        }
    }
    let issuer = oidc.edge.external.issuer(tenant);
    if audience.is_empty() {
        // A token for nobody else is for its issuer (RFC 9068, section 3).
        audience.push(issuer);
    }
    let scope = granted.join(" ");
    let at = (&oidc.edge.external, tenant);
    let added = function::claims(oidc, Function::PreAccessToken, (tenant, &user), headers).await?;
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
    let found = oidc.edge.directory.tenant(Named::Id(tenant.id.clone()), sequence).await.map_err(|error| {
        tracing::warn!(error = %explain(&*error), "the read model cannot be read");
        Error::Unavailable
    })?;
    let is_open = |tenant: &Arc<Tenant>| tenant.instance.is_active && !tenant.instance.limits.block;
    found.filter(is_open).map(Some).ok_or(Error::InvalidClient)
}

/// The id of a project of the instance that tokens are issued for.
async fn project(oidc: &Oidc, tenant: &Tenant, id: &str) -> Result<Option<String>, Error> {
    if id == "platform" || id == tenant.instance.platform_project_id {
        return Ok(Some(tenant.instance.platform_project_id.clone()));
    }
    let access = ReadModel::new(&ACCESS, tenant.shard);
    let found = access.get::<Project>(&oidc.database, &tenant.id, id).await.map_err(|error| {
        tracing::warn!(error = %explain(&error), "the read model cannot be read");
        Error::Unavailable
    })?;
    // What goes with a removed organization may still have rows.
    let is_gone = |owner: &Owner| oidc.edge.ended.is_removed(&tenant.id, owner);
    Ok(found.answer.filter(|found| found.state.is_active && !is_gone(&found.owner)).map(|found| found.id))
}
