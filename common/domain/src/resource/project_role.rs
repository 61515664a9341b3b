//! Roles of projects: what users may have in the applications of a project. What a role permits is up to the
//! application.

use serde::{Deserialize, Serialize};

use super::project::Project;
use crate::{
    column::Column,
    context::PartKind,
    permission::{Permissions, STANDARD},
    projection::{ACCESS, Name},
    reference::{Link, Reference},
    standard::{PartOf, Resource},
};

/// A role of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRole {
    /// The project.
    pub project_id: String,
    /// The name in tokens. The id is a hash of it and of the project, so that it is unique there and never changes.
    pub key: String,
    /// The display name.
    pub display_name: String,
    /// The group that it is listed under; empty for none.
    pub group: String,
}

/// A role, as grants name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedRole {
    /// The id of the role.
    pub id: String,
    /// See [`ProjectRole::key`].
    pub key: String,
}

/// A partial update of a [`ProjectRole`].
#[derive(Debug, Clone, Default)]
pub struct ProjectRolePatch {
    /// See [`ProjectRole::display_name`].
    pub display_name: Option<String>,
    /// See [`ProjectRole::group`].
    pub group: Option<String>,
}

/// The link from a role to its project.
pub const PROJECT: Link = Link { name: "role", to: Project::NAME };

/// Joins the keys of roles with spaces, which no key contains, before and after each.
pub(super) fn keys(roles: &[GrantedRole]) -> String {
    super::spaced(&roles.iter().map(|role| role.key.clone()).collect::<Vec<_>>())
}

/// The columns of the read model.
pub mod column {
    use super::ProjectRole;
    use crate::column::Column;

    /// The project.
    pub const PROJECT_ID: Column<ProjectRole> =
        Column::text("project_id", |role: &ProjectRole| role.project_id.clone()).filterable();
    /// The name in tokens.
    pub const KEY: Column<ProjectRole> = Column::text("role_key", |role: &ProjectRole| role.key.clone()).filterable();
    /// The display name.
    pub const DISPLAY_NAME: Column<ProjectRole> =
        Column::text("display_name", |role: &ProjectRole| role.display_name.clone()).filterable();
    /// The group that it is listed under.
    pub const GROUP: Column<ProjectRole> =
        Column::text("listed_under", |role: &ProjectRole| role.group.clone()).filterable();
}

impl Resource for ProjectRole {
    const NAME: &'static str = "project_role";
    const COLUMNS: &'static [Column<Self>] = &[column::PROJECT_ID, column::KEY, column::DISPLAY_NAME, column::GROUP];
    const PARTS: &'static [PartOf<Self>] = &[PartOf::Named(PartKind::Project, &column::PROJECT_ID)];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("project_roles_index"));
    const LINKS: &'static [Link] = &[PROJECT];
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[(Project::NAME, &column::PROJECT_ID)];
    const PERMISSIONS: &'static [Permissions] = &[Permissions::new("project.role", STANDARD)];
    type Patch = ProjectRolePatch;

    fn patched(self, ProjectRolePatch { display_name, group }: ProjectRolePatch) -> Self {
        let (display_name, group) = (display_name.unwrap_or(self.display_name), group.unwrap_or(self.group));
        Self { display_name, group, ..self }
    }

    fn references(&self) -> Vec<Reference> {
        vec![Reference::new(PROJECT, &self.project_id)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        standard::{Command, Event, Standard},
        testing::{assert_columns, assert_patches, given},
    };

    fn admin() -> ProjectRole {
        let text = str::to_owned;
        ProjectRole { project_id: text("1"), key: text("admin"), display_name: text("Admin"), group: text("Staff") }
    }

    #[test]
    fn its_names_change_and_its_key_stays() {
        let columns =
            json!({ "project_id": "1", "role_key": "admin", "display_name": "Admin", "listed_under": "Staff" });
        assert_columns(&admin(), &columns);
        let patch = ProjectRolePatch::default;
        let patches = vec![
            (ProjectRolePatch { display_name: Some("B".into()), ..patch() }, json!({ "display_name": "B" })),
            (ProjectRolePatch { group: Some(String::new()), ..patch() }, json!({ "group": "" })),
        ];
        assert_patches(&admin(), patches, &["key", "project_id"]);
    }

    #[test]
    fn it_goes_with_its_project() {
        assert_eq!(admin().references(), [Reference::new(PROJECT, "1")]);
        given::<Standard<ProjectRole>>([Event::Added(admin().into())])
            .when(Command::Unlink(Reference::new(PROJECT, "1")))
            .then([Event::Removed]);
    }
}
