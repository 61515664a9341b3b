//! Filters of searches.

use domain::{
    column::Column,
    context::{Owner, Part},
};

/// How a text is compared: code point by code point, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// It equals the text.
    Equals,
    /// It begins with the text.
    StartsWith,
    /// It contains the text.
    Contains,
    /// It ends with the text.
    EndsWith,
}

/// A condition on a resource, by its own columns; the matches of a search meet all of its filters.
#[derive(Debug, Clone)]
pub enum Filter<R: 'static> {
    /// Compares a text column.
    Text {
        /// The column.
        column: &'static Column<R>,
        /// How it is compared.
        method: Method,
        /// Whether both sides are folded first.
        ignores_case: bool,
        /// The text to compare with.
        text: String,
    },
    /// A boolean column has a value.
    Is {
        /// The column.
        column: &'static Column<R>,
        /// The value.
        value: bool,
    },
    /// A boolean column has a value, except for ids that match or do not match for another reason.
    IsUnless {
        /// The column.
        column: &'static Column<R>,
        /// The value.
        value: bool,
        /// The ids that match whatever is in the column.
        found: Vec<String>,
        /// The ids that do not match.
        passed: Vec<String>,
    },
    /// A text column equals none of these.
    NoneOf {
        /// The column.
        column: &'static Column<R>,
        /// The texts.
        texts: Vec<String>,
    },
    /// An integer column is greater than a value.
    Above {
        /// The column.
        column: &'static Column<R>,
        /// The value.
        value: i64,
    },
    /// The id is one of these.
    Ids(Vec<String>),
    /// Roles for it must be held in one of these contexts, or it is visible to readers of one of them, too.
    In(Vec<Owner>),
    /// The negation of [`Filter::In`].
    NotIn(Vec<Owner>),
    /// Roles for it must be held in one of these contexts, or it is in one of these parts of contexts.
    Within {
        /// The contexts.
        contexts: Vec<Owner>,
        /// The parts, each with the context that it is in.
        parts: Vec<(Owner, Part)>,
    },
    /// All of these match.
    All(Vec<Self>),
    /// At least one of these matches.
    Any(Vec<Self>),
    /// This does not match.
    Not(Box<Self>),
}

impl<R> Filter<R> {
    /// Compares a text column, with case.
    pub fn text(column: &'static Column<R>, method: Method, text: String) -> Self {
        Self::Text { column, method, ignores_case: false, text }
    }

    /// Returns the number of conditions, including those that combine others, and how deep they are nested.
    pub fn size(&self) -> (usize, usize) {
        let inner = self.inner().iter().map(Self::size);
        let (count, depth) = inner.fold((0, 0), |(sum, most), (count, depth)| (sum + count, most.max(depth)));
        (count + 1, depth + 1)
    }

    /// Returns the filters that it combines.
    pub(crate) fn inner(&self) -> &[Self] {
        match self {
            Self::All(filters) | Self::Any(filters) => filters,
            Self::Not(filter) => std::slice::from_ref(filter),
            _ => &[],
        }
    }
}

impl Method {
    /// Compares two texts as stored.
    pub fn compare(self, text: &str, with: &str) -> bool {
        match self {
            Self::Equals => text == with,
            Self::StartsWith => text.starts_with(with),
            Self::Contains => text.contains(with),
            Self::EndsWith => text.ends_with(with),
        }
    }
}
