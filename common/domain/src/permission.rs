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
        "execution.read",
        "idp.delete",
        "idp.read",
        "idp.write",
        "policy.write",
    ],
};

/// All reads on an instance and on what is below it.
pub const IAM_OWNER_VIEWER: Role = Role {
    name: "IAM_OWNER_VIEWER",
    level: OwnerType::Instance,
    permissions: &["action.target.read", "execution.read", "idp.read"],
};

/// Everything an operator of the platform does across instances.
pub const SYSTEM_OWNER: Role = Role {
    name: "SYSTEM_OWNER",
    level: OwnerType::System,
    permissions: &["system.debug.delete", "system.debug.read", "system.debug.write"],
};

/// Every role there is.
pub const ROLES: &[Role] = &[IAM_OWNER, IAM_OWNER_VIEWER, SYSTEM_OWNER];

/// The role of this name.
pub fn role(name: &str) -> Option<&'static Role> {
    ROLES.iter().find(|role| role.name == name)
}

/// Whether any of the roles gives the permission. A role that this build does not know gives nothing.
pub fn permits<'a>(roles: impl IntoIterator<Item = &'a str>, permission: &str) -> bool {
    roles.into_iter().filter_map(role).any(|role| role.permissions.contains(&permission))
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
    fn the_owner_may_all_that_a_viewer_may() {
        assert!(IAM_OWNER_VIEWER.permissions.iter().all(|permission| IAM_OWNER.permissions.contains(permission)));
    }
}
