//! Projects that tokens are for, and what users were granted in them. Grants that have ended do not count, even while
//! the directory still has them.

use std::{sync::Arc, time::Duration};

use domain::{
    context::Owner,
    resource::{project::Project, project_grant::ProjectGrant, project_role::ProjectRole, user_grant::UserGrant},
    standard::Resource,
};
use tokio::time::timeout;
use view::{
    directory::{Audience, Granted, Grants, Principal, Tenant},
    ended::Forgotten,
};

use crate::{Oidc, error::Error, scope::Scope};

/// How long a read waits for a change to be projected, which takes milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// Returns the user grants of a user, as of a sequence or later if the read model has that.
///
/// # Errors
/// When they cannot be read, or it cannot be determined whether they have ended since.
pub(crate) async fn grants(
    oidc: &Oidc,
    tenant: &Tenant,
    user: &Principal,
    sequence: u64,
) -> Result<Vec<Granted>, Error> {
    let directory = &oidc.edge.directory;
    let found = directory.grants(&tenant.id, &user.id, sequence).await?;
    let (counting, withdrawn) = counting(oidc, tenant, &found)?;
    let Some(withdrawn) = withdrawn else { return Ok(counting) };
    // A changed grant counts again as soon as its change can be read, and not before.
    let _ = timeout(PATIENCE, directory.processed_by(withdrawn, PATIENCE)).await;
    let found = directory.grants(&tenant.id, &user.id, withdrawn).await?;
    Ok(self::counting(oidc, tenant, &found)?.0)
}

/// Returns the grants that still count, and the sequence at which the last of the others was withdrawn.
fn counting(oidc: &Oidc, tenant: &Tenant, found: &Grants) -> Result<(Vec<Granted>, Option<u64>), Error> {
    let withdrawn = |owner: &Owner, on: &[(&'static str, &str)]| withdrawn(oidc, tenant, owner, on, found.as_of.get());
    let (mut counting, mut last) = (vec![], None);
    for granted in &found.granted {
        let granter = Owner::organization(&granted.organization_id);
        let by = granted.project_grant_id.as_deref().unwrap_or_default();
        let on = [(UserGrant::NAME, &*granted.id), (ProjectGrant::NAME, by), (Project::NAME, &granted.project_id)];
        let end = withdrawn(&granter, &on)?;
        last = last.max(end);
        if end.is_some() {
            continue;
        }
        let mut roles = vec![];
        for role in &granted.roles {
            let end = withdrawn(&granter, &[(ProjectRole::NAME, &role.id)])?;
            last = last.max(end);
            if end.is_none() {
                roles.push(role.clone());
            }
        }
        counting.push(Granted { roles, ..granted.clone() });
    }
    Ok((counting, last))
}

/// Returns a project as the users of an organization see it, without project grants that have ended, as of a sequence
/// or later if the read model has that.
///
/// # Errors
/// When it cannot be read, or it cannot be determined whether project grants have ended since.
pub(crate) async fn project(
    oidc: &Oidc,
    tenant: &Tenant,
    id: &str,
    organization_id: &str,
    sequence: u64,
) -> Result<Option<Arc<Audience>>, Error> {
    let Some(mut project) = oidc.edge.directory.project(&tenant.id, id, organization_id, sequence).await? else {
        return Ok(None);
    };
    for id in project.project_grants.clone() {
        let (owner, on) = (project.owner.clone(), [(ProjectGrant::NAME, id.as_str())]);
        if withdrawn(oidc, tenant, &owner, &on, project.as_of.get())?.is_some() {
            Arc::make_mut(&mut project).project_grants.retain(|other| *other != id);
        }
    }
    Ok(Some(project))
}

/// Returns the sequence at which something was withdrawn that was read as of the sequence `processed`.
fn withdrawn(
    oidc: &Oidc,
    tenant: &Tenant,
    owner: &Owner,
    on: &[(&'static str, &str)],
    processed: u64,
) -> Result<Option<u64>, Error> {
    oidc.edge.ended.withdrawn(&tenant.id, owner, on, processed).map_err(|Forgotten| {
        tracing::warn!(
            processed,
            "the projection access is so far behind that it is not known which grants have ended"
        );
        Error::Unavailable
    })
}

/// Whether a project exists and has been active ever since a sequence, or since what is known of it. The platform's own
/// project always is: without a token for it nobody could activate it.
pub(crate) fn is_live(oidc: &Oidc, tenant: &Tenant, project: &Audience, since: u64) -> bool {
    let on = [(Project::NAME, project.id.as_str())];
    let is_dead = || oidc.edge.ended.is_dead(&tenant.id, &project.owner, &on, since.min(project.as_of.get()));
    project.id == tenant.instance.platform_project_id || project.is_live && !is_dead()
}

/// Returns the id of the project that an audience scope names. The platform's own project may be named `platform`.
pub(crate) fn of<'a>(tenant: &'a Tenant, scope: &Scope<'a>) -> Option<&'a str> {
    match scope {
        Scope::Audience("platform") => Some(&tenant.instance.platform_project_id),
        Scope::Audience(id) => Some(id),
        _ => None,
    }
}
