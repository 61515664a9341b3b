//! What the read side stores, sorts and searches by, said once per resource.

use serde_json::Value;

/// The storage type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text: `text` in Postgres, a raw string field in tantivy.
    Text,
    /// Integer: `bigint`, `i64`.
    Integer,
    /// Boolean: `boolean`, `bool`.
    Bool,
}

/// How the table finds rows by a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Not at all; searches go to the index.
    None,
    /// By instance and value.
    Instance,
    /// By value alone, across instances.
    System,
}

/// One column of a read model.
pub struct Field<R> {
    /// The column name, also the tantivy field name.
    pub name: &'static str,
    /// The storage type.
    pub kind: Kind,
    /// Reads the value from the state. It has the type that `kind` names.
    pub value: fn(&R) -> Value,
    /// Whether a search may filter by it.
    pub filter: bool,
    /// Whether the table has a btree for it.
    pub lookup: Lookup,
}

impl<R> Field<R> {
    const fn new(name: &'static str, kind: Kind, value: fn(&R) -> Value) -> Self {
        Self { name, kind, value, filter: false, lookup: Lookup::None }
    }

    /// A text column.
    pub const fn text(name: &'static str, value: fn(&R) -> Value) -> Self {
        Self::new(name, Kind::Text, value)
    }

    /// An integer column.
    pub const fn integer(name: &'static str, value: fn(&R) -> Value) -> Self {
        Self::new(name, Kind::Integer, value)
    }

    /// A boolean column.
    pub const fn bool(name: &'static str, value: fn(&R) -> Value) -> Self {
        Self::new(name, Kind::Bool, value)
    }

    /// Lets searches filter by this column.
    pub const fn filterable(mut self) -> Self {
        self.filter = true;
        self
    }

    /// Lets the table find rows by this column within these bounds.
    pub const fn looked_up(mut self, lookup: Lookup) -> Self {
        self.lookup = lookup;
        self
    }
}
