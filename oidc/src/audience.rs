//! Projects that tokens are for.

use domain::{resource::project::Project, standard::Resource};
use view::directory::{Audience, Tenant};

use crate::{Oidc, scope::Scope};

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
