//! Projects that tokens are for.

use domain::{resource::project::Project, standard::Resource};
use view::directory::{Audience, Tenant};

use crate::Oidc;

/// Whether a project is there and switched on, and was so ever since a sequence, or since what is known of it. The
/// platform's own always is: without a token for it nobody could switch it on.
pub(crate) fn is_live(oidc: &Oidc, tenant: &Tenant, project: &Audience, since: u64) -> bool {
    let on = [(Project::NAME, project.id.as_str())];
    let is_dead = || oidc.edge.ended.is_dead(&tenant.id, &project.owner, &on, since.min(project.processed));
    project.id == tenant.instance.platform_project_id || project.is_live && !is_dead()
}

/// The id of a project, which may be named by the word for the platform's own.
pub(crate) fn id<'a>(tenant: &'a Tenant, named: &'a str) -> &'a str {
    if named == "platform" { &tenant.instance.platform_project_id } else { named }
}
