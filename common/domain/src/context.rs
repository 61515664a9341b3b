//! The levels of tenancy and what belongs to them.

use serde::{Deserialize, Serialize};

/// The level of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerType {
    /// The entire platform.
    System,
    /// One tenant with an issuer of its own.
    Instance,
    /// One organization within an instance.
    Organization,
}

/// A part of an organization in which roles can be held, too.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// The kind of the part.
    pub kind: PartKind,
    /// The id of the project or project grant.
    pub id: String,
}

/// The kinds of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// A project of the organization.
    Project,
    /// A project that was granted to the organization.
    ProjectGrant,
}

impl Part {
    /// Creates a project part.
    pub fn project(id: impl Into<String>) -> Self {
        Self { kind: PartKind::Project, id: id.into() }
    }

    /// Creates a project grant part.
    pub fn project_grant(id: impl Into<String>) -> Self {
        Self { kind: PartKind::ProjectGrant, id: id.into() }
    }
}

/// The place in which roles must be held for something: the context, one above it, or one of these parts of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolePlace {
    /// The context.
    pub context: Owner,
    /// The parts.
    pub parts: Vec<Part>,
}

impl From<Owner> for RolePlace {
    fn from(context: Owner) -> Self {
        Self { context, parts: vec![] }
    }
}

/// The context that a resource belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The level.
    pub kind: OwnerType,
    /// The id of the instance or organization; empty for the system.
    pub id: String,
}

impl Owner {
    /// Returns the system as owner.
    pub fn system() -> Self {
        Self { kind: OwnerType::System, id: String::new() }
    }

    /// Returns an instance as owner.
    pub fn instance(id: impl Into<String>) -> Self {
        Self { kind: OwnerType::Instance, id: id.into() }
    }

    /// Returns an organization as owner.
    pub fn organization(id: impl Into<String>) -> Self {
        Self { kind: OwnerType::Organization, id: id.into() }
    }

    /// Returns the contexts whose roles apply in this one: from itself up to the system. `instance_id` is the instance
    /// of an organization.
    pub fn chain(&self, instance_id: &str) -> Vec<Self> {
        let above = match self.kind {
            OwnerType::System => vec![],
            OwnerType::Instance => vec![Self::system()],
            OwnerType::Organization => vec![Self::instance(instance_id), Self::system()],
        };
        std::iter::once(self.clone()).chain(above).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_of_every_context_above_hold() {
        let (organization, instance, system) = (Owner::organization("2"), Owner::instance("1"), Owner::system());
        assert_eq!(system.chain("1"), vec![system.clone()]);
        assert_eq!(instance.chain("1"), [instance.clone(), system.clone()]);
        assert_eq!(organization.chain("1"), [organization.clone(), instance, system]);
    }
}
