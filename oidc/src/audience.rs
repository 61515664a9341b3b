//! Projects that tokens are for.

use domain::{resource::project::Project, standard::Resource};
use view::directory::{Audience, Tenant};

use crate::Oidc;

/// Whether a project is there and switched on, and was so ever since a sequence.
pub(crate) fn is_live(oidc: &Oidc, tenant: &Tenant, project: &Audience, since: u64) -> bool {
    let on = [(Project::NAME, project.id.as_str())];
    project.is_live && !oidc.edge.ended.is_dead(&tenant.id, &project.owner, &on, since)
}
