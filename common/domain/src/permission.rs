//! Permissions: what may be done with which kind of object.
//!
//! The permission that an operation needs is stated in the protos, the permissions about a resource beside the
//! resource, and the permissions that a role gives in [`crate::role`].

use crate::context::OwnerType;

/// The verbs that apply to most resources.
pub const STANDARD: &[&str] = &["read", "write", "delete"];
/// The verb for creating an object, where that is more or less than to write.
pub const CREATE: &str = "create";
const EVERY_LEVEL: &[OwnerType] = &[OwnerType::System, OwnerType::Instance, OwnerType::Organization];

/// Permissions that are about one kind of object: `org.read`, `org.write` and so on.
#[derive(Debug, Clone, Copy)]
pub struct Permissions {
    pub(crate) about: &'static str,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) levels: &'static [OwnerType],
}

impl Permissions {
    /// Permissions about a kind of object that owners of every level may have.
    pub const fn new(about: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { about, verbs, levels: EVERY_LEVEL }
    }

    /// Restricts the permissions to owners of these levels.
    #[must_use]
    pub const fn at(mut self, levels: &'static [OwnerType]) -> Self {
        self.levels = levels;
        self
    }
}

/// Returns the permission to read the kind of object that a permission is about: `org.read` for `org.write`,
/// `user.read` for `user.credential.write`.
pub fn reading(permission: &str) -> String {
    let of = permission.strip_suffix(".credential.write").or_else(|| permission.rsplit_once('.').map(|(of, _)| of));
    format!("{}.read", of.unwrap_or(permission))
}

#[cfg(test)]
mod tests {
    use super::*;

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
