//! Projects, which access tokens are issued for.

use serde::{Deserialize, Serialize};

use super::active;
use crate::{
    column::Column,
    context::PartKind,
    permission::{CREATE, Permissions, STANDARD},
    projection::{ACCESS, Name},
    standard::{PartOf, Resource, States},
};

/// A group of applications that share roles and an audience.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// The display name; need not be unique.
    pub name: String,
    /// What it requires of its users, and how it is shown to them.
    #[serde(flatten)]
    pub policies: Policies,
    /// Whether tokens are issued for it.
    #[serde(default = "active")]
    pub is_active: bool,
}

/// What a project requires of its users, and how it is shown to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policies {
    /// Whether tokens contain the roles of a user in this project without being asked for them.
    pub role_assertion: bool,
    /// Whether only users who have a user grant of it get tokens for it.
    pub authorization_required: bool,
    /// Whether only users of organizations that own the project, or that it was granted to, get tokens for it.
    pub access_required: bool,
    /// The branding that its users see.
    pub private_labeling: PrivateLabeling,
}

/// The branding that the users of a project see when they log in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivateLabeling {
    /// The branding of the instance, until the organization of the user is known.
    #[default]
    Unspecified,
    /// Always the branding of the organization that owns the project.
    OfProject,
    /// The branding of the project's organization, and of the user's own once it is known who logs in.
    OfUser,
}

/// A partial update of a [`Project`].
#[derive(Debug, Clone, Default)]
pub struct ProjectPatch {
    /// See [`Project::name`].
    pub name: Option<String>,
    /// See [`Policies::role_assertion`].
    pub role_assertion: Option<bool>,
    /// See [`Policies::authorization_required`].
    pub authorization_required: Option<bool>,
    /// See [`Policies::access_required`].
    pub access_required: Option<bool>,
    /// See [`Policies::private_labeling`].
    pub private_labeling: Option<PrivateLabeling>,
}

impl Project {
    /// Creates a project that is switched on and requires nothing of its users.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), policies: Policies::default(), is_active: true }
    }
}

impl Policies {
    /// Whether some users get no tokens for it.
    pub fn keeps_users_out(self) -> bool {
        self.authorization_required || self.access_required
    }

    /// Whether a user gets tokens for it. `is_of_organization`: the user's organization owns the project, or it was
    /// granted to it; `is_granted`: the user has a user grant of it.
    pub fn admit(self, is_of_organization: bool, is_granted: bool) -> bool {
        (is_of_organization || !self.access_required) && (is_granted || !self.authorization_required)
    }
}

/// The columns of the read model.
pub mod column {
    use super::Project;
    use crate::column::Column;

    /// The display name.
    pub const NAME: Column<Project> = Column::text("name", |project: &Project| project.name.clone()).filterable();
    /// Whether it is switched on.
    pub const IS_ACTIVE: Column<Project> =
        Column::bool("is_active", |project: &Project| project.is_active).filterable();
}

impl Resource for Project {
    const NAME: &'static str = "project";
    const COLUMNS: &'static [Column<Self>] = &[column::NAME, column::IS_ACTIVE];
    const PARTS: &'static [PartOf<Self>] = &[PartOf::Itself(PartKind::Project)];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("projects_index"));
    const STATES: States = States::Switched;
    const PERMISSIONS: &'static [Permissions] =
        &[Permissions::new("project", STANDARD), Permissions::new("project", &[CREATE])];
    type Patch = ProjectPatch;

    fn patched(self, patch: ProjectPatch) -> Self {
        let Policies { role_assertion, authorization_required, access_required, private_labeling } = self.policies;
        let policies = Policies {
            role_assertion: patch.role_assertion.unwrap_or(role_assertion),
            authorization_required: patch.authorization_required.unwrap_or(authorization_required),
            access_required: patch.access_required.unwrap_or(access_required),
            private_labeling: patch.private_labeling.unwrap_or(private_labeling),
        };
        Self { name: patch.name.unwrap_or(self.name), policies, ..self }
    }

    fn activity(&mut self) -> Option<&mut bool> {
        Some(&mut self.is_active)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{assert_columns, assert_patches, assert_switches};

    #[test]
    fn a_project_of_an_older_build_is_active_and_asks_nothing_of_its_users() {
        let old: Project = serde_json::from_str(r#"{ "name": "Platform" }"#).unwrap();
        assert_eq!(old, Project::new("Platform"));
        assert!(!old.policies.keeps_users_out());
    }

    #[test]
    fn each_member_has_its_column_and_its_patch() {
        let project = Project::new("a");
        assert_columns(&project, &json!({ "name": "a", "is_active": true }));
        let patch = ProjectPatch::default;
        let private_labeling = Some(PrivateLabeling::OfUser);
        let patches = vec![
            (ProjectPatch { name: Some("b".into()), ..patch() }, json!({ "name": "b" })),
            (ProjectPatch { role_assertion: Some(true), ..patch() }, json!({ "role_assertion": true })),
            (ProjectPatch { authorization_required: Some(true), ..patch() }, json!({ "authorization_required": true })),
            (ProjectPatch { access_required: Some(true), ..patch() }, json!({ "access_required": true })),
            (ProjectPatch { private_labeling, ..patch() }, json!({ "private_labeling": "of_user" })),
        ];
        assert_patches(&project, patches, &["is_active"]);
        assert_switches(&project);
    }

    #[test]
    fn a_policy_asks_for_what_it_is_named_for() {
        let none = Policies::default();
        let authorization = Policies { authorization_required: true, ..none };
        let access = Policies { access_required: true, ..none };
        let both = Policies { authorization_required: true, ..access };
        let admitted = |policies: Policies| {
            [(false, false), (true, false), (false, true), (true, true)]
                .map(|(of, granted)| policies.admit(of, granted))
        };
        assert_eq!(admitted(none), [true; 4]);
        assert_eq!(admitted(authorization), [false, false, true, true]);
        assert_eq!(admitted(access), [false, true, false, true]);
        assert_eq!(admitted(both), [false, false, false, true]);
    }

    #[test]
    fn either_policy_keeps_users_out() {
        let none = Policies { role_assertion: true, ..Policies::default() };
        assert!(!none.keeps_users_out());
        assert!(Policies { authorization_required: true, ..none }.keeps_users_out());
        assert!(Policies { access_required: true, ..none }.keeps_users_out());
    }
}
