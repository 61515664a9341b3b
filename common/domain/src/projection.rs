//! The names and versions of the projections of resources. What the read side does with them is its own matter.

/// The name of a projection: a set of tables, or a search index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// The name without a version, for example `targets`.
    pub name: &'static str,
    /// The version; a change of tables or of their meaning needs a new one.
    pub version: i32,
}

impl Name {
    /// Names the first version of a projection.
    pub const fn first(name: &'static str) -> Self {
        Self { name, version: 1 }
    }
}

/// The settings of contexts.
pub const SETTINGS: Name = Name::first("settings");

/// The data that admits requests and issues tokens: tenants, users, roles, keys.
pub const ACCESS: Name = Name { name: "access", version: 10 };
