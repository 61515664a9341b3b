//! Permissions: what may be done with which kind of object.
//!
//! Which permission an operation needs is said in the protos, which are about a resource beside the resource, and which a
//! role gives in [`crate::role`].

use crate::context::OwnerType;

/// What is done with most resources.
pub const STANDARD: &[&str] = &["read", "write", "delete"];
/// What is done to what is not there yet, where that is more or less than to write.
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
    /// What owners of every level may do with a kind of object.
    pub const fn new(about: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { about, verbs, levels: EVERY_LEVEL }
    }

    /// Only owners of these levels may do it.
    #[must_use]
    pub const fn at(mut self, levels: &'static [OwnerType]) -> Self {
        self.levels = levels;
        self
    }
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
