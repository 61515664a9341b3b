//! The names and versions of what the read side keeps of resources. What it does with them is its own.

/// A projection by name: a set of tables, or a search index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// The name, for example `targets`.
    pub name: &'static str,
    /// The version; a change of tables or of their meaning needs a new one.
    pub version: i32,
}

impl Name {
    /// The first version of a projection.
    pub const fn first(name: &'static str) -> Self {
        Self { name, version: 1 }
    }
}

/// The settings of contexts.
pub const SETTINGS: Name = Name::first("settings");

/// What admits requests and issues tokens: tenants, users, roles, keys.
pub const ACCESS: Name = Name { name: "access", version: 10 };
