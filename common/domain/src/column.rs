//! Columns that the read side stores, sorts and searches by, defined once per resource.

use std::fmt;

/// The storage type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text: `text` in Postgres, a raw string field in tantivy.
    Text,
    /// Integer: `bigint`, `i64`.
    Integer,
    /// Boolean: `boolean`, `bool`.
    Bool,
}

/// How the table finds rows by a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Not at all; searches go to the index.
    None,
    /// By instance and value.
    Instance,
    /// By value alone, across instances.
    System,
}

/// A column without the type of its resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// The column name, also the tantivy field name.
    pub name: &'static str,
    /// The storage type.
    pub kind: Kind,
    /// Whether a search may filter by it.
    pub is_filterable: bool,
    /// Whether the table has a btree for it.
    pub lookup: Lookup,
}

/// The value of a column in one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The value of a text column.
    Text(String),
    /// The value of an integer column.
    Integer(i64),
    /// The value of a boolean column.
    Bool(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(formatter),
            Self::Integer(integer) => integer.fmt(formatter),
            Self::Bool(bool) => bool.fmt(formatter),
        }
    }
}

/// A column of a read model: how it is stored, and how its value is read from a resource.
pub struct Column<R> {
    /// How it is stored.
    pub definition: Definition,
    read: Read<R>,
}

/// How the value is read from a resource; its kind is that of the column.
enum Read<R> {
    Text(fn(&R) -> String),
    Integer(fn(&R) -> i64),
    Bool(fn(&R) -> bool),
}

impl<R> fmt::Debug for Column<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.definition.fmt(formatter)
    }
}

impl<R> Column<R> {
    /// A text column.
    pub const fn text(name: &'static str, read: fn(&R) -> String) -> Self {
        Self::new(name, Kind::Text, Read::Text(read))
    }

    /// An integer column.
    pub const fn integer(name: &'static str, read: fn(&R) -> i64) -> Self {
        Self::new(name, Kind::Integer, Read::Integer(read))
    }

    /// A boolean column.
    pub const fn bool(name: &'static str, read: fn(&R) -> bool) -> Self {
        Self::new(name, Kind::Bool, Read::Bool(read))
    }

    const fn new(name: &'static str, kind: Kind, read: Read<R>) -> Self {
        let definition = Definition { name, kind, is_filterable: false, lookup: Lookup::None };
        Self { definition, read }
    }

    /// Lets searches filter by this column.
    pub const fn filterable(mut self) -> Self {
        self.definition.is_filterable = true;
        self
    }

    /// Lets the table find rows by this column in this scope.
    pub const fn looked_up(mut self, lookup: Lookup) -> Self {
        self.definition.lookup = lookup;
        self
    }

    /// Returns the value of a resource in this column.
    pub fn value(&self, resource: &R) -> Value {
        match self.read {
            Read::Text(read) => Value::Text(read(resource)),
            Read::Integer(read) => Value::Integer(read(resource)),
            Read::Bool(read) => Value::Bool(read(resource)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_of_the_kind_of_its_column() {
        struct Point {
            x: i64,
        }
        let columns: [(Column<Point>, Value); 3] = [
            (Column::text("text", |point| point.x.to_string()), Value::Text("7".into())),
            (Column::integer("integer", |point| point.x), Value::Integer(7)),
            (Column::bool("bool", |point| point.x > 0), Value::Bool(true)),
        ];
        let kinds = columns.iter().map(|(column, _)| column.definition.kind);
        assert_eq!(kinds.collect::<Vec<_>>(), [Kind::Text, Kind::Integer, Kind::Bool]);
        for (column, value) in &columns {
            assert_eq!(column.value(&Point { x: 7 }), *value);
        }
    }

    #[test]
    fn a_value_is_printed_without_its_kind() {
        for (value, printed) in
            [(Value::Text("a b".to_owned()), "a b"), (Value::Integer(-7), "-7"), (Value::Bool(true), "true")]
        {
            assert_eq!(value.to_string(), printed);
        }
    }

    #[test]
    fn a_column_is_printed_as_it_is_stored() {
        let column: Column<()> = Column::integer("size", |()| 0);
        assert_eq!(format!("{column:?}"), format!("{:?}", column.definition));
    }

    #[test]
    fn a_column_says_how_it_is_found() {
        let plain: Column<()> = Column::text("name", |()| String::new());
        assert_eq!((plain.definition.is_filterable, plain.definition.lookup), (false, Lookup::None));
        let found = plain.filterable().looked_up(Lookup::System);
        assert_eq!((found.definition.is_filterable, found.definition.lookup), (true, Lookup::System));
    }
}
