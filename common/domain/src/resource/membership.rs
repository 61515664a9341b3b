//! Memberships: which roles a user holds in which context.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::{
    claim::Claim,
    column::Column,
    context::{Owner, OwnerType},
    permission::{Permissions, STANDARD},
    projection::{ACCESS, Name},
    reference::{Link, Reference},
    rejection::Rejection,
    resource::{organization::Organization, user::User},
    role::{ROLES, role},
    standard::Resource,
};

/// The roles of one user in one context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The user.
    pub user_id: String,
    /// Where the roles hold, and below.
    pub context: Owner,
    /// The names of the roles.
    pub roles: Vec<String>,
    /// The organization of the user, where the roles hold elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_organization_id: Option<String>,
}

/// That of a membership to its user.
pub const USER: Link = Link { name: "user", to: User::NAME };
/// That of a membership to the organization of its user, where the roles hold elsewhere.
pub const HOME: Link = Link { name: "home", to: Organization::NAME };

/// A partial update of a [`Membership`].
#[derive(Debug, Clone, Default)]
pub struct MembershipPatch {
    /// See [`Membership::roles`]: all of them from now on.
    pub roles: Option<Vec<String>>,
    /// See [`Membership::user_organization_id`]; for those that were written before it was.
    pub user_organization_id: Option<String>,
}

impl Membership {
    /// The roles of a user, whose organization is `home`, in a context.
    pub fn new(user_id: impl Into<String>, home: &Owner, context: Owner, roles: Vec<String>) -> Self {
        let user_organization_id = (*home != context).then(|| home.id.clone());
        Self { user_id: user_id.into(), context, roles, user_organization_id }
    }

    /// The value that makes context and user unique, and by which a membership is found.
    pub fn claim(context: &Owner, user_id: &str) -> Claim {
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
}

impl Resource for Membership {
    const NAME: &'static str = "membership";
    const COLUMNS: &'static [Column<Self>] = &[column::USER_ID, column::ROLES];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("memberships_index"));
    const PERMISSIONS: &'static [Permissions] = &[Permissions::new("membership", STANDARD)];
    const LINKS: &'static [Link] = &[USER, HOME];
    type Patch = MembershipPatch;

    fn validate(&self) -> Result<(), Rejection> {
        let fits = |name: &String| role(name).is_some_and(|role| role.level == self.context.kind);
        if self.roles.is_empty() || !self.roles.iter().all(fits) {
            return Err(Rejection::invalid("membership.roles", choices(self.context.kind)));
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
        vec![Self::claim(&self.context, &self.user_id)]
    }

    fn references(&self) -> Vec<Reference> {
        let home = self.user_organization_id.iter().map(|id| Reference::new(HOME, id));
        std::iter::once(Reference::new(USER, &self.user_id)).chain(home).collect()
    }
}

/// What the roles of a membership in a context of this level must be.
fn choices(level: OwnerType) -> &'static str {
    static RULES: LazyLock<[(OwnerType, String); 3]> = LazyLock::new(|| {
        [OwnerType::System, OwnerType::Instance, OwnerType::Organization].map(|level| {
            let names = ROLES.iter().filter(|role| role.level == level).map(|role| role.name).collect::<Vec<_>>();
            (level, format!("must be roles of the context, at least one of them: {}", names.join(", ")))
        })
    });
    RULES.iter().find(|(of, _)| *of == level).map_or("must be roles of the context", |(_, rule)| rule)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        standard::{Command, Event, Standard},
        testing::{assert_columns, assert_patches, given},
    };

    #[test]
    fn contexts_of_the_same_id_do_not_clash() {
        assert_ne!(Membership::claim(&Owner::instance("1"), "2"), Membership::claim(&Owner::organization("1"), "2"));
    }

    fn membership(roles: &[&str]) -> Membership {
        let roles = roles.iter().map(|&role| role.to_owned()).collect();
        Membership::new("2", &Owner::organization("3"), Owner::instance("1"), roles)
    }

    #[test]
    fn its_roles_are_replaced_and_user_and_context_stay() {
        let before = membership(&["IAM_OWNER", "IAM_ORG_MANAGER"]);
        assert_columns(&before, &json!({ "user_id": "2", "roles": " IAM_OWNER IAM_ORG_MANAGER " }));
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
        let misfit = Rejection::invalid("membership.roles", choices(OwnerType::Instance));
        assert!(misfit.to_string().contains("IAM_OWNER") && !misfit.to_string().contains("SYSTEM_OWNER"), "{misfit}");
        let again = Rejection::invalid("membership.roles", "must not have a role twice");
        for (roles, expected) in [
            (&["IAM_OWNER"][..], Ok(())),
            (&["IAM_OWNER", "IAM_OWNER_VIEWER"], Ok(())),
            (&[], Err(misfit.clone())),
            (&["IAM_EMPEROR"], Err(misfit.clone())),
            (&["ORG_OWNER"], Err(misfit.clone())),
            (&["SYSTEM_OWNER"], Err(misfit.clone())),
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
        let of = |context: Owner| Membership::claim(&context, "2").value;
        assert_eq!([of(Owner::system()), of(Owner::organization("3"))], ["system//2", "organization/3/2"]);
    }
}
