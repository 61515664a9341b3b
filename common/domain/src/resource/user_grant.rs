//! User grants: the roles of a project that users have.

use serde::{Deserialize, Serialize};

use super::{
    active,
    project::Project,
    project_grant::ProjectGrant,
    project_role::{GrantedRole, ProjectRole, keys},
    user::User,
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

/// Gives a user roles of a project. It belongs to the organization that gave them: that of the project, or the one that
/// the project was granted to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserGrant {
    /// The user.
    pub user_id: String,
    /// The project.
    pub project_id: String,
    /// The project grant by which an organization gave roles of another one's project.
    pub project_grant_id: Option<String>,
    /// The roles; an empty list still lets the user in where the project requires a grant.
    pub roles: Vec<GrantedRole>,
    /// Whether it is effective.
    #[serde(default = "active")]
    pub is_active: bool,
}

/// A partial update of a [`UserGrant`].
#[derive(Debug, Clone, Default)]
pub struct UserGrantPatch {
    /// See [`UserGrant::roles`]: replaces all of them.
    pub roles: Option<Vec<GrantedRole>>,
}

/// The link from a user grant to its user.
pub const USER: Link = Link { name: "user_grant", to: User::NAME };
/// The link from a user grant to its project.
pub const PROJECT: Link = Link { name: "user_grant", to: Project::NAME };
/// The link from a user grant to the project grant by which it was given.
pub const PROJECT_GRANT: Link = Link { name: "user_grant", to: ProjectGrant::NAME };
/// The link from a user grant to the roles that it has.
pub const ROLE: Link = Link { name: "user_grant", to: ProjectRole::NAME };

/// The columns of the read model.
pub mod column {
    use super::{UserGrant, keys};
    use crate::column::{Column, Lookup};

    /// The user.
    pub const USER_ID: Column<UserGrant> =
        Column::text("user_id", |grant: &UserGrant| grant.user_id.clone()).filterable().looked_up(Lookup::Instance);
    /// The project.
    pub const PROJECT_ID: Column<UserGrant> =
        Column::text("project_id", |grant: &UserGrant| grant.project_id.clone()).filterable();
    /// The project grant by which it was given; empty for none.
    pub const PROJECT_GRANT_ID: Column<UserGrant> =
        Column::text("project_grant_id", |grant: &UserGrant| grant.project_grant_id.clone().unwrap_or_default())
            .filterable();
    /// The keys of its roles, each between spaces.
    pub const ROLE_KEYS: Column<UserGrant> =
        Column::text("role_keys", |grant: &UserGrant| keys(&grant.roles)).filterable();
    /// Whether it is switched on.
    pub const IS_ACTIVE: Column<UserGrant> =
        Column::bool("is_active", |grant: &UserGrant| grant.is_active).filterable();
}

impl Resource for UserGrant {
    const NAME: &'static str = "user_grant";
    const COLUMNS: &'static [Column<Self>] =
        &[column::USER_ID, column::PROJECT_ID, column::PROJECT_GRANT_ID, column::ROLE_KEYS, column::IS_ACTIVE];
    const PARTS: &'static [PartOf<Self>] = &[
        PartOf::Named(PartKind::Project, &column::PROJECT_ID),
        PartOf::Named(PartKind::ProjectGrant, &column::PROJECT_GRANT_ID),
    ];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("user_grants_index"));
    const STATES: States = States::Switched;
    const LINKS: &'static [Link] = &[USER, PROJECT, PROJECT_GRANT, ROLE];
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[
        (User::NAME, &column::USER_ID),
        (Project::NAME, &column::PROJECT_ID),
        (ProjectGrant::NAME, &column::PROJECT_GRANT_ID),
    ];
    const GIVES: &'static [&'static str] = &["roles"];
    const PERMISSIONS: &'static [Permissions] = &[Permissions::new("user.grant", STANDARD)];
    type Patch = UserGrantPatch;

    fn patched(self, UserGrantPatch { roles }: UserGrantPatch) -> Self {
        Self { roles: roles.unwrap_or(self.roles), ..self }
    }

    fn activity(&mut self) -> Option<&mut bool> {
        Some(&mut self.is_active)
    }

    fn claims(&self) -> Vec<Claim> {
        let by = self.project_grant_id.as_deref().unwrap_or_default();
        vec![Claim::instance("user_grant", format!("{}/{}/{by}", self.user_id, self.project_id))]
    }

    fn references(&self) -> Vec<Reference> {
        let stands_on = [Reference::new(USER, &self.user_id), Reference::new(PROJECT, &self.project_id)];
        let by = self.project_grant_id.iter().map(|id| Reference::new(PROJECT_GRANT, id));
        stands_on.into_iter().chain(by).chain(self.roles.iter().map(|role| Reference::new(ROLE, &role.id))).collect()
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

    fn grant(keys: &[&str]) -> UserGrant {
        let role = |key: &&str| GrantedRole { id: format!("id of {key}"), key: (*key).to_owned() };
        UserGrant {
            user_id: "1".into(),
            project_id: "2".into(),
            project_grant_id: Some("3".into()),
            roles: keys.iter().map(role).collect(),
            is_active: true,
        }
    }

    #[test]
    fn its_roles_are_replaced_and_all_else_stays() {
        let before = grant(&["a", "b"]);
        let columns = json!({
            "user_id": "1", "project_id": "2", "project_grant_id": "3", "role_keys": " a b ", "is_active": true,
        });
        assert_columns(&before, &columns);
        let patches = vec![(UserGrantPatch { roles: Some(vec![]) }, json!({ "roles": [] }))];
        assert_patches(&before, patches, &["is_active", "project_grant_id", "project_id", "user_id"]);
        assert_switches(&before);
    }

    #[test]
    fn a_user_has_one_in_a_project_and_one_by_each_project_grant() {
        assert_eq!(grant(&[]).claims(), [Claim::instance("user_grant", "1/2/3")]);
        let own = UserGrant { project_grant_id: None, ..grant(&[]) };
        assert_eq!(own.claims(), [Claim::instance("user_grant", "1/2/")]);
        assert_eq!(own.references(), [Reference::new(USER, "1"), Reference::new(PROJECT, "2")]);
    }

    #[test]
    fn a_role_leaves_it_and_it_goes_with_all_else_that_it_names() {
        let added = || [Event::Added(grant(&["a"]).into())];
        let left = Event::Changed { to: grant(&[]).into(), fields: vec!["roles".into()] };
        given::<Standard<UserGrant>>(added()).when(Command::Unlink(Reference::new(ROLE, "id of a"))).then([left]);
        for gone in [Reference::new(USER, "1"), Reference::new(PROJECT, "2"), Reference::new(PROJECT_GRANT, "3")] {
            assert!(grant(&["a"]).references().contains(&gone));
            given::<Standard<UserGrant>>(added()).when(Command::Unlink(gone)).then([Event::Removed]);
        }
    }
}
