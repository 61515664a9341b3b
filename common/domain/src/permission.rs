//! Roles, and the permissions they give.
//!
//! Which permission an operation needs is said in the protos; which roles give it is said here.

use crate::context::OwnerType;

/// A named set of permissions that a membership gives in its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    /// The name, for example `IAM_OWNER`.
    pub name: &'static str,
    /// The level of the contexts that it may be held in.
    pub level: OwnerType,
    /// What it permits.
    pub permissions: &'static [&'static str],
}

/// Everything an operator of the platform does across instances.
pub const SYSTEM_OWNER: Role = Role {
    name: "SYSTEM_OWNER",
    level: OwnerType::System,
    permissions: &[
        "domain.delete",
        "domain.read",
        "domain.write",
        "events.read",
        "membership.delete",
        "membership.read",
        "membership.write",
        "org.create",
        "org.delete",
        "org.read",
        "org.write",
        "system.debug.delete",
        "system.debug.read",
        "system.debug.write",
        "system.instance.delete",
        "system.instance.read",
        "system.instance.write",
        "system.limits.write",
        "user.credential.write",
        "user.delete",
        "user.read",
        "user.write",
    ],
};

/// What an operator of the platform sees across instances.
pub const SYSTEM_OWNER_VIEWER: Role = Role {
    name: "SYSTEM_OWNER_VIEWER",
    level: OwnerType::System,
    permissions: &[
        "domain.read",
        "events.read",
        "membership.read",
        "org.read",
        "system.debug.read",
        "system.instance.read",
        "user.read",
    ],
};

/// All rights on an instance and on what is below it.
pub const IAM_OWNER: Role = Role {
    name: "IAM_OWNER",
    level: OwnerType::Instance,
    permissions: &[
        "action.execution.delete",
        "action.execution.write",
        "action.target.delete",
        "action.target.read",
        "action.target.write",
        "domain.delete",
        "domain.read",
        "domain.write",
        "events.read",
        "execution.read",
        "iam.write",
        "idp.delete",
        "idp.read",
        "idp.write",
        "membership.delete",
        "membership.read",
        "membership.write",
        "org.create",
        "org.delete",
        "org.read",
        "org.write",
        "policy.write",
        "user.credential.write",
        "user.delete",
        "user.read",
        "user.write",
    ],
};

/// All reads on an instance and on what is below it.
pub const IAM_OWNER_VIEWER: Role = Role {
    name: "IAM_OWNER_VIEWER",
    level: OwnerType::Instance,
    permissions: &[
        "action.target.read",
        "domain.read",
        "events.read",
        "execution.read",
        "idp.read",
        "membership.read",
        "org.read",
        "user.read",
    ],
};

/// All rights on the organizations of an instance, save those that would give more rights.
pub const IAM_ORG_MANAGER: Role = Role {
    name: "IAM_ORG_MANAGER",
    level: OwnerType::Instance,
    permissions: &[
        "domain.read",
        "membership.read",
        "org.create",
        "org.delete",
        "org.read",
        "org.write",
        "user.credential.write",
        "user.delete",
        "user.read",
        "user.write",
    ],
};

/// All rights on the users of an instance.
pub const IAM_USER_MANAGER: Role = Role {
    name: "IAM_USER_MANAGER",
    level: OwnerType::Instance,
    permissions: &["membership.read", "org.read", "user.credential.write", "user.delete", "user.read", "user.write"],
};

/// All rights on an organization.
pub const ORG_OWNER: Role = Role {
    name: "ORG_OWNER",
    level: OwnerType::Organization,
    permissions: &[
        "domain.delete",
        "domain.read",
        "domain.write",
        "membership.delete",
        "membership.read",
        "membership.write",
        "org.delete",
        "org.read",
        "org.write",
        "user.credential.write",
        "user.delete",
        "user.read",
        "user.write",
    ],
};

/// All reads on an organization.
pub const ORG_OWNER_VIEWER: Role = Role {
    name: "ORG_OWNER_VIEWER",
    level: OwnerType::Organization,
    permissions: &["domain.read", "membership.read", "org.read", "user.read"],
};

/// All rights on the users of an organization.
pub const ORG_USER_MANAGER: Role = Role {
    name: "ORG_USER_MANAGER",
    level: OwnerType::Organization,
    permissions: &["membership.read", "org.read", "user.credential.write", "user.delete", "user.read", "user.write"],
};

/// Every role there is.
pub const ROLES: &[Role] = &[
    SYSTEM_OWNER,
    SYSTEM_OWNER_VIEWER,
    IAM_OWNER,
    IAM_OWNER_VIEWER,
    IAM_ORG_MANAGER,
    IAM_USER_MANAGER,
    ORG_OWNER,
    ORG_OWNER_VIEWER,
    ORG_USER_MANAGER,
];

/// The role of this name.
pub fn role(name: &str) -> Option<&'static Role> {
    ROLES.iter().find(|role| role.name == name)
}

/// Whether any of the roles gives the permission. A role that this build does not know gives nothing.
pub fn permits<'a>(roles: impl IntoIterator<Item = &'a str>, permission: &str) -> bool {
    roles.into_iter().filter_map(role).any(|role| role.permissions.contains(&permission))
}

/// The permission to read what a permission is about: `org.read` of `org.write`, `user.read` of `user.credential.write`.
pub fn reading(permission: &str) -> String {
    let of = permission.strip_suffix(".credential.write").or_else(|| permission.rsplit_once('.').map(|(of, _)| of));
    format!("{}.read", of.unwrap_or(permission))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_role_gives_nothing() {
        assert!(!permits(["IAM_EMPEROR"], "action.target.read"));
    }

    #[test]
    fn a_viewer_reads_and_does_not_write() {
        assert!(permits(["IAM_OWNER_VIEWER"], "action.target.read"));
        assert!(!permits(["IAM_OWNER_VIEWER"], "action.target.write"));
    }

    #[test]
    fn an_owner_may_all_that_others_of_its_level_may() {
        for owner in [SYSTEM_OWNER, IAM_OWNER, ORG_OWNER] {
            for other in ROLES.iter().filter(|role| role.level == owner.level) {
                let all = other.permissions.iter().all(|permission| owner.permissions.contains(permission));
                assert!(all, "{} may more than {}", other.name, owner.name);
            }
        }
    }

    #[test]
    fn whoever_gives_roles_on_an_instance_has_all_of_them() {
        let gives = |role: &&Role| role.level == OwnerType::Instance && role.permissions.contains(&"membership.write");
        assert!(ROLES.iter().filter(gives).all(|role| *role == IAM_OWNER));
    }

    #[test]
    fn whoever_may_change_something_may_read_it() {
        for role in ROLES {
            for permission in role.permissions {
                let reads = reading(permission);
                let is_read = ROLES.iter().any(|role| role.permissions.contains(&reads.as_str()));
                assert!(!is_read || permits([role.name], &reads), "{}: {permission} without {reads}", role.name);
            }
        }
    }

    #[test]
    fn to_read_is_said_of_what_a_permission_is_about() {
        for (permission, reads) in [
            ("org.write", "org.read"),
            ("action.target.delete", "action.target.read"),
            ("user.credential.write", "user.read"),
            ("everything", "everything.read"),
        ] {
            assert_eq!(reading(permission), reads);
        }
    }
}
