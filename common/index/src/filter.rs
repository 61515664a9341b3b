//! Filters: what of an index is asked for.

use domain::{
    column::Column,
    context::{Owner, Part},
};

/// How a text is compared: code point by code point, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// It is the same.
    Equals,
    /// It begins with it.
    StartsWith,
    /// It has it somewhere.
    Contains,
    /// It ends with it.
    EndsWith,
}

/// One condition on a resource, by its own columns; a search has all of them.
#[derive(Debug, Clone)]
pub enum Filter<R: 'static> {
    /// A text column compares.
    Text {
        /// The column.
        column: &'static Column<R>,
        /// How it is compared.
        method: Method,
        /// Whether both sides are folded before.
        ignores_case: bool,
        /// With what it is compared.
        text: String,
    },
    /// A column is on or off.
    Is {
        /// The column.
        column: &'static Column<R>,
        /// What it is.
        value: bool,
    },
    /// A column is on or off, save for what is so or is not so for another reason.
    IsUnless {
        /// The column.
        column: &'static Column<R>,
        /// What it is.
        value: bool,
        /// The ids of what is found whatever is in the column.
        found: Vec<String>,
        /// The ids of what is not.
        passed: Vec<String>,
    },
    /// A text column is none of these.
    NoneOf {
        /// The column.
        column: &'static Column<R>,
        /// What it is not.
        texts: Vec<String>,
    },
    /// An integer column is greater.
    Above {
        /// The column.
        column: &'static Column<R>,
        /// Than this.
        value: i64,
    },
    /// The id is one of these.
    Ids(Vec<String>),
    /// Roles must be held for it in one of these contexts, or who may read that one sees it, too.
    In(Vec<Owner>),
    /// As above, in none of these.
    NotIn(Vec<Owner>),
    /// Roles must be held for it in one of these contexts, or it is in one of these parts of contexts.
    Within {
        /// The contexts.
        contexts: Vec<Owner>,
        /// The parts, each with the context that it is in.
        parts: Vec<(Owner, Part)>,
    },
    /// All of these hold.
    All(Vec<Self>),
    /// At least one of these holds.
    Any(Vec<Self>),
    /// This does not hold.
    Not(Box<Self>),
}

impl<R> Filter<R> {
    /// A text column compares, with case.
    pub fn text(column: &'static Column<R>, method: Method, text: String) -> Self {
        Self::Text { column, method, ignores_case: false, text }
    }

    /// How many conditions there are in it, those that combine others among them, and how deep they are nested.
    pub fn size(&self) -> (usize, usize) {
        let inner = self.inner().iter().map(Self::size);
        let (count, depth) = inner.fold((0, 0), |(sum, most), (count, depth)| (sum + count, most.max(depth)));
        (count + 1, depth + 1)
    }

    /// The filters that it combines.
    pub(crate) fn inner(&self) -> &[Self] {
        match self {
            Self::All(filters) | Self::Any(filters) => filters,
            Self::Not(filter) => std::slice::from_ref(filter),
            _ => &[],
        }
    }
}

impl Method {
    /// Compares as stored.
    pub fn compare(self, text: &str, with: &str) -> bool {
        match self {
            Self::Equals => text == with,
            Self::StartsWith => text.starts_with(with),
            Self::Contains => text.contains(with),
            Self::EndsWith => text.ends_with(with),
        }
    }
}
