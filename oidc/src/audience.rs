//! Projects that tokens are for, and what users were granted of them. What has ended does not count from then on, whatever the
//! directory still says.

use domain::{
    context::Owner,
    resource::{project::Project, project_grant::ProjectGrant, project_role::ProjectRole, user_grant::UserGrant},
    standard::Resource,
};
use view::directory::{Audience, Granted, Principal, Tenant};

use crate::{Oidc, error::Error, scope::Scope};

/// What a user was granted, as of a sequence or later if the read model has that.
///
/// # Errors
/// When it cannot be read.
pub(crate) async fn grants(
    oidc: &Oidc,
    (tenant, user): (&Tenant, &Principal),
    sequence: u64,
) -> Result<Vec<Granted>, Error> {
    let found = oidc.edge.directory.grants(&tenant.id, &user.id, sequence).await?;
    let counts = |owner: &Owner, on: &[(&'static str, &str)]| {
        !oidc.edge.ended.is_withdrawn(&tenant.id, owner, on, found.processed)
    };
    let counting = found.granted.iter().filter_map(|granted| {
        let granter = Owner::organization(&granted.organization_id);
        let by = granted.project_grant_id.as_deref().unwrap_or_default();
        let on = [(UserGrant::NAME, &*granted.id), (ProjectGrant::NAME, by), (Project::NAME, &granted.project_id)];
        let roles = granted.roles.iter().filter(|role| counts(&granter, &[(ProjectRole::NAME, &role.id)]));
        counts(&granter, &on).then(|| Granted { roles: roles.cloned().collect(), ..granted.clone() })
    });
    Ok(counting.collect())
}

/// Whether a project lets in a user of the organization that it was read for, with these grants.
pub(crate) fn admits(oidc: &Oidc, tenant: &Tenant, project: &Audience, grants: &[Granted]) -> bool {
    let counts = |id: &str| {
        !oidc.edge.ended.is_withdrawn(&tenant.id, &project.owner, &[(ProjectGrant::NAME, id)], project.processed)
    };
    project.admits(grants, counts)
}

/// Whether a project is there and switched on, and was so ever since a sequence, or since what is known of it. The
/// platform's own always is: without a token for it nobody could switch it on.
pub(crate) fn is_live(oidc: &Oidc, tenant: &Tenant, project: &Audience, since: u64) -> bool {
    let on = [(Project::NAME, project.id.as_str())];
    let is_dead = || oidc.edge.ended.is_dead(&tenant.id, &project.owner, &on, since.min(project.processed));
    project.id == tenant.instance.platform_project_id || project.is_live && !is_dead()
}

/// The id of the project whose audience a scope is, where it is one. It may be named by the word for the platform's own.
pub(crate) fn of<'a>(tenant: &'a Tenant, scope: &Scope<'a>) -> Option<&'a str> {
    match scope {
        Scope::Audience("platform") => Some(&tenant.instance.platform_project_id),
        Scope::Audience(id) => Some(id),
        _ => None,
    }
}
