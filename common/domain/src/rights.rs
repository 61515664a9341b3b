//! The permissions of roles: owners have all permissions at their level, viewers all reads among these, other roles the
//! ones they list.

use std::{
    collections::{BTreeSet, HashMap},
    sync::LazyLock,
};

use crate::{
    catalog::{self, Visitor},
    context::OwnerType,
    permission::Permissions,
    role::{Gives, ROLES, Role, role},
    settings::Properties,
    standard::Resource,
};

/// Permissions about anything that is not a resource.
const OTHERS: &[Permissions] = &[
    Permissions::new("events", &["read"]).at(&[OwnerType::System, OwnerType::Instance]),
    Permissions::new("failed_event", &["read", "write", "reveal"]).at(&[OwnerType::Instance]),
    Permissions::new("policy", &["read", "write"]),
    Permissions::new("system.debug", &["read", "write", "delete", "reveal"]).at(&[OwnerType::System]),
    // No operation requires this yet.
    Permissions::new("user.self", &["delete"]),
];

/// Every permission, with the levels whose owners have it.
static PERMISSIONS: LazyLock<Vec<Permissions>> = LazyLock::new(|| {
    let mut found = PermissionList(OTHERS.to_vec());
    catalog::visit(&mut found);
    found.0
});

struct PermissionList(Vec<Permissions>);

impl Visitor for PermissionList {
    fn resource<R: Resource>(&mut self) {
        self.0.extend(R::PERMISSIONS);
    }

    fn settings<P: Properties>(&mut self) {
        self.0.extend(P::PERMISSIONS);
    }
}

/// Returns the permissions that a role gives.
pub fn of(role: &Role) -> &'static BTreeSet<String> {
    static GIVEN: LazyLock<HashMap<&str, BTreeSet<String>>> =
        LazyLock::new(|| ROLES.iter().map(|role| (role.name, permissions_of(role))).collect());
    &GIVEN[role.name]
}

fn permissions_of(role: &Role) -> BTreeSet<String> {
    let at_level = || PERMISSIONS.iter().filter(|permissions| permissions.levels.contains(&role.level));
    let named = |only: fn(&str) -> bool| {
        let names = at_level().flat_map(|Permissions { about, verbs, .. }| {
            verbs.iter().filter(move |verb| only(verb)).map(move |verb| format!("{about}.{verb}"))
        });
        names.collect()
    };
    match role.gives {
        Gives::Everything => named(|_| true),
        Gives::Reads => named(|verb| verb == "read"),
        Gives::Only(permissions) => permissions.concat().into_iter().map(str::to_owned).collect(),
    }
}

/// Whether any of the roles gives the permission. A role that this build does not know gives nothing.
pub fn permits<'a>(roles: impl IntoIterator<Item = &'a str>, permission: &str) -> bool {
    roles.into_iter().filter_map(role).any(|role| of(role).contains(permission))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        context::PartKind,
        permission::reading,
        role::{IAM_OWNER, IMPERSONATE, IMPERSONATE_ADMINS, ORG_OWNER, SYSTEM_OWNER},
        standard::PartOf,
    };

    #[test]
    fn an_unknown_role_gives_nothing() {
        assert!(!permits(["IAM_EMPEROR"], "action.target.read"));
    }

    #[test]
    fn a_settings_service_may_have_permissions_of_its_own() {
        for (role, permission, is_given) in [
            ("SYSTEM_OWNER", "system.feature.write", true),
            ("SYSTEM_OWNER", "iam.feature.write", true),
            ("IAM_OWNER", "iam.feature.write", true),
            ("IAM_OWNER", "system.feature.read", false),
            ("IAM_OWNER_VIEWER", "iam.feature.read", true),
            ("IAM_OWNER_VIEWER", "iam.feature.write", false),
            ("ORG_OWNER", "iam.feature.read", false),
        ] {
            assert_eq!(permits([role], permission), is_given, "{role}: {permission}");
        }
    }

    #[test]
    fn a_viewer_reads_and_does_not_write() {
        assert!(permits(["IAM_OWNER_VIEWER"], "action.target.read"));
        assert!(!permits(["IAM_OWNER_VIEWER"], "action.target.write"));
    }

    #[test]
    fn an_owner_may_all_that_others_of_its_level_may_but_act_as_somebody_else() {
        for owner in [SYSTEM_OWNER, IAM_OWNER, ORG_OWNER] {
            for other in ROLES.iter().filter(|role| role.level == owner.level) {
                let mut more = of(other).difference(of(&owner));
                let is_all = more.all(|permission| [IMPERSONATE, IMPERSONATE_ADMINS].contains(&permission.as_str()));
                assert!(is_all, "{} may more than {}", other.name, owner.name);
            }
            // Even owners have to give this to themselves first, which is recorded in the log.
            assert!(!permits([owner.name], IMPERSONATE) && !permits([owner.name], IMPERSONATE_ADMINS));
        }
    }

    #[test]
    fn whoever_gives_roles_on_an_instance_has_all_of_them() {
        let gives = |role: &&Role| role.level == OwnerType::Instance && of(role).contains("membership.write");
        assert!(ROLES.iter().filter(gives).all(|role| *role == IAM_OWNER));
    }

    /// The edge lets holders of such a role into the entire context; the object of the operation decides then.
    #[test]
    fn roles_of_a_part_are_about_what_says_in_which_part_it_is() {
        struct Parted(Vec<(PartKind, Permissions)>);
        impl Visitor for Parted {
            fn resource<R: Resource>(&mut self) {
                let kinds = R::PARTS.iter().map(|of| match of {
                    PartOf::Itself(kind) | PartOf::Named(kind, _) => *kind,
                });
                self.0
                    .extend(kinds.flat_map(|kind| R::PERMISSIONS.iter().map(move |permissions| (kind, *permissions))));
            }

            fn settings<P: Properties>(&mut self) {}
        }
        let mut parted = Parted(vec![]);
        catalog::visit(&mut parted);
        for (role, kind) in ROLES.iter().filter_map(|role| Some((role, role.part?))) {
            for permission in of(role) {
                let about = permission.rsplit_once('.').map_or("", |(about, _)| about);
                let is_parted = parted.0.iter().any(|(of, permissions)| *of == kind && permissions.about == about);
                assert!(is_parted, "{}: {permission}", role.name);
            }
        }
    }

    #[test]
    fn whoever_may_change_something_may_read_it() {
        for role in ROLES {
            for permission in of(role) {
                // The creator of a project gets a role on it, and the creator of an organization is not meant to have
                // one in it.
                let creates = [("ORG_PROJECT_CREATOR", "project.create"), ("SELF_MANAGEMENT_GLOBAL", "org.create")];
                if creates.contains(&(role.name, permission.as_str())) {
                    continue;
                }
                let reads = reading(permission);
                let is_read = ROLES.iter().any(|role| of(role).contains(&reads));
                assert!(!is_read || permits([role.name], &reads), "{}: {permission} without {reads}", role.name);
            }
        }
    }
}
