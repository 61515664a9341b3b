//! Memberships: the roles that a user holds in a context.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::{
    claim::Claim,
    column::Column,
    context::{Owner, OwnerType, Part, PartKind, RolePlace},
    permission::{Permissions, STANDARD},
    projection::{ACCESS, Name},
    reference::{Link, Reference},
    rejection::Rejection,
    resource::{organization::Organization, project::Project, project_grant::ProjectGrant, user::User},
    role::{ROLES, role},
    standard::{PartOf, Resource},
};

/// The roles of one user in one context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The user.
    pub user_id: String,
    /// The context in which, and below which, the roles apply.
    pub context: Owner,
    /// The names of the roles.
    pub roles: Vec<String>,
    /// The organization of the user, if the roles apply elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_organization_id: Option<String>,
    /// The part of the context in which the roles apply; `None` if they apply in all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

/// The link from a membership to its user.
pub const USER: Link = Link { name: "user", to: User::NAME };
/// The link from a membership to the organization of its user, if the roles apply elsewhere.
pub const HOME: Link = Link { name: "home", to: Organization::NAME };

/// The link from a membership to the project in which its roles apply.
pub const PROJECT: Link = Link { name: "membership", to: Project::NAME };
/// The link from a membership to the project grant in which its roles apply.
pub const PROJECT_GRANT: Link = Link { name: "membership", to: ProjectGrant::NAME };

/// A partial update of a [`Membership`].
#[derive(Debug, Clone, Default)]
pub struct MembershipPatch {
    /// See [`Membership::roles`]: replaces all of them.
    pub roles: Option<Vec<String>>,
    /// See [`Membership::user_organization_id`]; sets it on memberships from before it existed.
    pub user_organization_id: Option<String>,
}

impl Membership {
    /// Creates the roles of a user, whose organization is `home`, in a context.
    pub fn new(user_id: impl Into<String>, home: &Owner, context: Owner, roles: Vec<String>) -> Self {
        let user_organization_id = (*home != context).then(|| home.id.clone());
        Self { user_id: user_id.into(), context, roles, user_organization_id, part: None }
    }

    /// Restricts the roles to a part of the context.
    #[must_use]
    pub fn within(self, part: Part) -> Self {
        Self { part: Some(part), ..self }
    }

    /// Returns the place in which its roles apply.
    pub fn place(&self) -> RolePlace {
        RolePlace { context: self.context.clone(), parts: self.part.iter().cloned().collect() }
    }

    /// Returns the id of the part of this kind in which its roles apply; empty if there is none.
    fn part_of(&self, kind: PartKind) -> &str {
        self.part.as_ref().filter(|part| part.kind == kind).map_or("", |part| &part.id)
    }

    /// Returns the claim that makes place and user unique, and by which a membership is found.
    pub fn claim(context: &Owner, part: Option<&Part>, user_id: &str) -> Claim {
        if let Some(Part { kind, id }) = part {
            let kind = match kind {
                PartKind::Project => "project",
                PartKind::ProjectGrant => "project_grant",
            };
            return Claim::instance("membership", format!("{kind}/{}/{id}/{user_id}", context.id));
        }
        let level = match context.kind {
            OwnerType::System => "system",
            OwnerType::Instance => "instance",
            OwnerType::Organization => "organization",
        };
        Claim::instance("membership", format!("{level}/{}/{user_id}", context.id))
    }
}

/// The columns of the read model.
pub mod column {
    use super::Membership;
    use crate::{
        column::{Column, Lookup},
        context::PartKind,
        resource::spaced,
    };

    /// The user.
    pub const USER_ID: Column<Membership> =
        Column::text("user_id", |membership: &Membership| membership.user_id.clone())
            .filterable()
            .looked_up(Lookup::Instance);
    /// The roles, each between spaces.
    pub const ROLES: Column<Membership> =
        Column::text("roles", |membership: &Membership| spaced(&membership.roles)).filterable();
    /// The project in which the roles apply; empty if there is none.
    pub const PROJECT_ID: Column<Membership> =
        Column::text("project_id", |membership: &Membership| membership.part_of(PartKind::Project).to_owned())
            .filterable();
    /// The project grant in which the roles apply; empty if there is none.
    pub const PROJECT_GRANT_ID: Column<Membership> = Column::text("project_grant_id", |membership: &Membership| {
        membership.part_of(PartKind::ProjectGrant).to_owned()
    })
    .filterable();
}

impl Resource for Membership {
    const NAME: &'static str = "membership";
    const COLUMNS: &'static [Column<Self>] =
        &[column::USER_ID, column::ROLES, column::PROJECT_ID, column::PROJECT_GRANT_ID];
    const PARTS: &'static [PartOf<Self>] = &[
        PartOf::Named(PartKind::Project, &column::PROJECT_ID),
        PartOf::Named(PartKind::ProjectGrant, &column::PROJECT_GRANT_ID),
    ];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name { name: "memberships_index", version: 2 });
    const PERMISSIONS: &'static [Permissions] = &[Permissions::new("membership", STANDARD)];
    const LINKS: &'static [Link] = &[USER, HOME, PROJECT, PROJECT_GRANT];
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[
        (User::NAME, &column::USER_ID),
        (Project::NAME, &column::PROJECT_ID),
        (ProjectGrant::NAME, &column::PROJECT_GRANT_ID),
    ];
    type Patch = MembershipPatch;

    fn validate(&self) -> Result<(), Rejection> {
        let (level, part) = (self.context.kind, self.part.as_ref().map(|part| part.kind));
        let is_of_part = |name: &String| role(name).is_some_and(|role| role.part.is_some());
        if part.is_none() && self.roles.iter().any(is_of_part) {
            return Err(Rejection::invalid("membership.roles", OF_NO_PART));
        }
        let fits = |name: &String| role(name).is_some_and(|role| role.fits(level, part));
        if self.roles.is_empty() || !self.roles.iter().all(fits) {
            return Err(Rejection::invalid("membership.roles", choices(level, part)));
        }
        let is_again = |index: usize| self.roles[..index].contains(&self.roles[index]);
        if (0..self.roles.len()).any(is_again) {
            return Err(Rejection::invalid("membership.roles", "must not have a role twice"));
        }
        Ok(())
    }

    fn patched(self, patch: MembershipPatch) -> Self {
        let user_organization_id = patch.user_organization_id.or(self.user_organization_id);
        Self { roles: patch.roles.unwrap_or(self.roles), user_organization_id, ..self }
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Self::claim(&self.context, self.part.as_ref(), &self.user_id)]
    }

    fn references(&self) -> Vec<Reference> {
        let home = self.user_organization_id.iter().map(|id| Reference::new(HOME, id));
        let part = self.part.iter().map(|part| match part.kind {
            PartKind::Project => Reference::new(PROJECT, &part.id),
            PartKind::ProjectGrant => Reference::new(PROJECT_GRANT, &part.id),
        });
        std::iter::once(Reference::new(USER, &self.user_id)).chain(home).chain(part).collect()
    }
}

/// The rule that roles of a part break if no part is named.
const OF_NO_PART: &str = "must be given together with the project or the project grant in which they are held";

/// The kinds of places in which roles can be held.
const PLACES: [(OwnerType, Option<PartKind>); 5] = [
    (OwnerType::System, None),
    (OwnerType::Instance, None),
    (OwnerType::Organization, None),
    (OwnerType::Organization, Some(PartKind::Project)),
    (OwnerType::Organization, Some(PartKind::ProjectGrant)),
];

/// Returns the rule for the roles of a membership in a place of this kind.
fn choices(level: OwnerType, part: Option<PartKind>) -> &'static str {
    static RULES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let rule = |(level, part)| {
            let held = ROLES.iter().filter(|role| role.fits(level, part));
            let names = held.map(|role| role.name).collect::<Vec<_>>().join(", ");
            let place = match part {
                None => "context",
                Some(PartKind::Project) => "project",
                Some(PartKind::ProjectGrant) => "project grant",
            };
            format!("must be at least one of the roles of the {place}: {names}")
        };
        PLACES.map(rule).to_vec()
    });
    let place = PLACES.iter().position(|known| *known == (level, part));
    place.map_or("must be roles of an organization", |place| &RULES[place])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;
    use crate::{
        standard::{Command, Event, Standard},
        testing::{assert_columns, assert_patches, given},
    };

    #[test]
    fn contexts_of_the_same_id_do_not_clash() {
        let claim = |context: Owner, part: Option<Part>| Membership::claim(&context, part.as_ref(), "2");
        let all = [
            claim(Owner::instance("1"), None),
            claim(Owner::organization("1"), None),
            claim(Owner::organization("1"), Some(Part::project("1"))),
            claim(Owner::organization("1"), Some(Part::project_grant("1"))),
            claim(Owner::organization("1"), Some(Part::project("3"))),
        ];
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }

    fn membership(roles: &[&str]) -> Membership {
        let roles = roles.iter().map(|&role| role.to_owned()).collect();
        Membership::new("2", &Owner::organization("3"), Owner::instance("1"), roles)
    }

    #[test]
    fn roles_of_a_part_are_held_in_parts_of_that_kind_and_go_with_it() {
        let of = |role: &str, part: Part| membership_in(Owner::organization("1"), role).within(part);
        let (project, grant) = (Part::project("7"), Part::project_grant("8"));
        for (role, in_project, in_grant, in_all) in [
            ("PROJECT_OWNER", true, false, false),
            ("PROJECT_GRANT_OWNER_VIEWER", false, true, false),
            ("PROJECT_OWNER_GLOBAL", false, false, true),
            ("ORG_OWNER", false, false, true),
        ] {
            let held =
                [of(role, project.clone()), of(role, grant.clone()), membership_in(Owner::organization("1"), role)];
            assert_eq!(held.each_ref().map(|held| held.validate().is_ok()), [in_project, in_grant, in_all], "{role}");
        }
        let held = of("PROJECT_OWNER", project.clone());
        assert_eq!(held.place(), RolePlace { context: Owner::organization("1"), parts: vec![project.clone()] });
        assert_eq!(held.parts("9"), [project]);
        let columns = json!({ "user_id": "2", "roles": " PROJECT_OWNER ", "project_id": "7", "project_grant_id": "" });
        assert_columns(&held, &columns);
        let gone = Reference::new(PROJECT, "7");
        assert!(held.references().contains(&gone));
        given::<Standard<Membership>>([Event::Added(held.into())]).when(Command::Unlink(gone)).then([Event::Removed]);
        let of_grant = of("PROJECT_GRANT_OWNER", grant);
        assert!(of_grant.references().contains(&Reference::new(PROJECT_GRANT, "8")));
    }

    fn membership_in(context: Owner, role: &str) -> Membership {
        Membership::new("2", &Owner::organization("3"), context, vec![role.to_owned()])
    }

    #[test]
    fn its_roles_are_replaced_and_user_and_context_stay() {
        let before = membership(&["IAM_OWNER", "IAM_ORG_MANAGER"]);
        assert_columns(
            &before,
            &json!({ "user_id": "2", "roles": " IAM_OWNER IAM_ORG_MANAGER ", "project_id": "", "project_grant_id": "" }),
        );
        let roles = vec!["IAM_OWNER_VIEWER".to_owned()];
        let changes = json!({ "roles": roles });
        let home = MembershipPatch { user_organization_id: Some("4".into()), ..MembershipPatch::default() };
        let patches = vec![
            (MembershipPatch { roles: Some(roles), ..MembershipPatch::default() }, changes),
            (home, json!({ "user_organization_id": "4" })),
        ];
        assert_patches(&before, patches, &["context", "user_id"]);
    }

    #[test]
    fn it_has_roles_of_its_context_each_once() {
        let misfit = Rejection::invalid("membership.roles", choices(OwnerType::Instance, None));
        assert!(misfit.to_string().contains("IAM_OWNER") && !misfit.to_string().contains("SYSTEM_OWNER"), "{misfit}");
        let again = Rejection::invalid("membership.roles", "must not have a role twice");
        for (roles, expected) in [
            (&["IAM_OWNER"][..], Ok(())),
            (&["IAM_OWNER", "IAM_OWNER_VIEWER"], Ok(())),
            (&[], Err(misfit.clone())),
            (&["IAM_EMPEROR"], Err(misfit.clone())),
            (&["ORG_OWNER"], Err(misfit.clone())),
            (&["SYSTEM_OWNER"], Err(misfit.clone())),
            (&["PROJECT_OWNER"], Err(Rejection::invalid("membership.roles", OF_NO_PART))),
            (&["IAM_OWNER", "ORG_OWNER"], Err(misfit)),
            (&["IAM_OWNER", "IAM_OWNER_VIEWER", "IAM_OWNER"], Err(again)),
        ] {
            assert_eq!(membership(roles).validate(), expected, "{roles:?}");
        }
    }

    #[test]
    fn it_names_its_user_and_the_organization_of_that_where_its_roles_hold_elsewhere() {
        let home = Owner::organization("3");
        let of = |context: Owner| Membership::new("2", &home, context, vec!["IAM_OWNER".into()]).references();
        let user = Reference::new(USER, "2");
        for elsewhere in [Owner::instance("1"), Owner::organization("4"), Owner::system()] {
            assert_eq!(of(elsewhere), [user.clone(), Reference::new(HOME, "3")]);
        }
        assert_eq!(of(home.clone()), [user]);
    }

    #[test]
    fn it_goes_with_its_user() {
        let added = [Event::Added(membership(&["IAM_OWNER"]).into())];
        let unlink = Command::Unlink(Reference::new(USER, "2"));
        given::<Standard<Membership>>(added).when(unlink).then([Event::Removed]);
    }

    #[test]
    fn a_user_has_one_membership_in_a_context() {
        let claims = membership(&["IAM_OWNER"]).claims();
        assert_eq!(claims, [Claim::instance("membership", "instance/1/2")]);
        let of = |context: Owner| Membership::claim(&context, None, "2").value;
        assert_eq!([of(Owner::system()), of(Owner::organization("3"))], ["system//2", "organization/3/2"]);
    }
}
