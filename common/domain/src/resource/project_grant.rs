//! Project grants, by which organizations can give roles of another one's project to users.

use serde::{Deserialize, Serialize};

use super::{
    active,
    organization::Organization,
    project::Project,
    project_role::{GrantedRole, ProjectRole, keys},
};
use crate::{
    claim::Claim,
    column::Column,
    context::PartKind,
    permission::{Permissions, STANDARD},
    projection::{ACCESS, Name},
    reference::{Link, Reference},
    standard::{PartOf, Resource, States},
};

/// Lets an organization give roles of another one's project. It belongs to the organization of the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectGrant {
    /// The project.
    pub project_id: String,
    /// The organization that it was granted to.
    pub organization_id: String,
    /// The roles that it can give.
    pub roles: Vec<GrantedRole>,
    /// Whether the roles that were given by it are effective.
    #[serde(default = "active")]
    pub is_active: bool,
}

/// A partial update of a [`ProjectGrant`].
#[derive(Debug, Clone, Default)]
pub struct ProjectGrantPatch {
    /// See [`ProjectGrant::roles`]: replaces all of them.
    pub roles: Option<Vec<GrantedRole>>,
}

/// The link from a project grant to its project.
pub const PROJECT: Link = Link { name: "project_grant", to: Project::NAME };
/// The link from a project grant to the organization that it was granted to.
pub const GRANTED: Link = Link { name: "project_grant", to: Organization::NAME };
/// The link from a project grant to the roles that it has.
pub const ROLE: Link = Link { name: "project_grant", to: ProjectRole::NAME };

/// The columns of the read model.
pub mod column {
    use super::{ProjectGrant, keys};
    use crate::column::{Column, Lookup};

    /// The project.
    pub const PROJECT_ID: Column<ProjectGrant> =
        Column::text("project_id", |grant: &ProjectGrant| grant.project_id.clone()).filterable();
    /// The organization that it was granted to.
    pub const ORGANIZATION_ID: Column<ProjectGrant> =
        Column::text("organization_id", |grant: &ProjectGrant| grant.organization_id.clone())
            .filterable()
            .looked_up(Lookup::Instance);
    /// The keys of its roles, each between spaces.
    pub const ROLE_KEYS: Column<ProjectGrant> =
        Column::text("role_keys", |grant: &ProjectGrant| keys(&grant.roles)).filterable();
    /// Whether it is switched on.
    pub const IS_ACTIVE: Column<ProjectGrant> =
        Column::bool("is_active", |grant: &ProjectGrant| grant.is_active).filterable();
}

impl Resource for ProjectGrant {
    const NAME: &'static str = "project_grant";
    const COLUMNS: &'static [Column<Self>] =
        &[column::PROJECT_ID, column::ORGANIZATION_ID, column::ROLE_KEYS, column::IS_ACTIVE];
    const ALSO_SEEN_BY: Option<&'static Column<Self>> = Some(&column::ORGANIZATION_ID);
    const PARTS: &'static [PartOf<Self>] =
        &[PartOf::Named(PartKind::Project, &column::PROJECT_ID), PartOf::Itself(PartKind::ProjectGrant)];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("project_grants_index"));
    const STATES: States = States::Switched;
    const LINKS: &'static [Link] = &[PROJECT, GRANTED, ROLE];
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[(Project::NAME, &column::PROJECT_ID)];
    const PERMISSIONS: &'static [Permissions] = &[Permissions::new("project.grant", STANDARD)];
    type Patch = ProjectGrantPatch;

    fn patched(self, ProjectGrantPatch { roles }: ProjectGrantPatch) -> Self {
        Self { roles: roles.unwrap_or(self.roles), ..self }
    }

    fn activity(&mut self) -> Option<&mut bool> {
        Some(&mut self.is_active)
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::instance("project_grant", format!("{}/{}", self.project_id, self.organization_id))]
    }

    fn references(&self) -> Vec<Reference> {
        let stands_on = [Reference::new(PROJECT, &self.project_id), Reference::new(GRANTED, &self.organization_id)];
        stands_on.into_iter().chain(self.roles.iter().map(|role| Reference::new(ROLE, &role.id))).collect()
    }

    fn unlinked(mut self, gone: &Reference) -> Option<Self> {
        self.roles.retain(|role| role.id != gone.id);
        (gone.link == ROLE).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        standard::{Command, Event, Standard},
        testing::{assert_columns, assert_patches, assert_switches, given},
    };

    fn role(key: &str) -> GrantedRole {
        GrantedRole { id: format!("id of {key}"), key: key.to_owned() }
    }

    fn grant(keys: &[&str]) -> ProjectGrant {
        let roles = keys.iter().map(|key| role(key)).collect();
        ProjectGrant { project_id: "1".into(), organization_id: "2".into(), roles, is_active: true }
    }

    #[test]
    fn its_roles_are_replaced_and_project_and_organization_stay() {
        let before = grant(&["a", "b"]);
        let columns = json!({ "project_id": "1", "organization_id": "2", "role_keys": " a b ", "is_active": true });
        assert_columns(&before, &columns);
        let patches = vec![(ProjectGrantPatch { roles: Some(vec![]) }, json!({ "roles": [] }))];
        assert_patches(&before, patches, &["is_active", "organization_id", "project_id"]);
        assert_switches(&before);
        let granted = Claim::instance("project_grant", "1/2");
        assert_eq!(before.claims(), [granted], "once for a project and an organization");
    }

    #[test]
    fn a_role_leaves_it_and_it_goes_with_all_else_that_it_names() {
        let unlink = |gone: Reference| {
            given::<Standard<ProjectGrant>>([Event::Added(grant(&["a", "b"]).into())]).when(Command::Unlink(gone))
        };
        let left = |keys: &[&str]| Event::Changed { to: grant(keys).into(), fields: vec!["roles".into()] };
        unlink(Reference::new(ROLE, "id of a")).then([left(&["b"])]);
        unlink(Reference::new(PROJECT, "1")).then([Event::Removed]);
        unlink(Reference::new(GRANTED, "2")).then([Event::Removed]);
        given::<Standard<ProjectGrant>>([Event::Added(grant(&["a"]).into())])
            .when(Command::Unlink(Reference::new(ROLE, "id of a")))
            .then([left(&[])]);
    }
}
