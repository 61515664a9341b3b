//! Needles that are too short for a trigram. A lookup would cost as much as the values of all instances, so they are
//! searched for in the values of matches.

use base::fold::fold;
use tantivy::{SegmentReader, TantivyError};

use crate::{
    filter::{Filter, Method},
    grams,
    select::Match,
};

/// A short text that must be contained in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needle {
    column: &'static str,
    ignores_case: bool,
    text: String,
}

impl Needle {
    /// Returns the needle of a filter, if it is too short to be looked up.
    pub(crate) fn of<R>(filter: &Filter<R>) -> Option<Self> {
        let Filter::Text { column, method: Method::Contains, ignores_case, text } = filter else { return None };
        let text = if *ignores_case { fold(text) } else { text.clone() };
        grams::is_short(&text).then_some(Self { column: column.definition.name, ignores_case: *ignores_case, text })
    }

    /// Returns which of the matches contain it.
    pub(crate) fn fits(&self, reader: &SegmentReader, found: &[Match]) -> tantivy::Result<Vec<bool>> {
        let column = reader.fast_fields().str(self.column)?;
        let column = column.ok_or_else(|| TantivyError::SchemaError(format!("{} is no text", self.column)))?;
        let value = |found: &Match| column.ords().first(found.doc);
        let mut values: Vec<u64> = found.iter().filter_map(value).collect();
        values.sort_unstable();
        values.dedup();
        let mut fitting = vec![];
        let mut next = values.iter();
        column.dictionary().sorted_ords_to_term_cb(&values, |term| {
            let value = next.next();
            if self.is_in(&String::from_utf8_lossy(term)) {
                fitting.extend(value);
            }
        })?;
        let has = |found| value(found).is_some_and(|value| fitting.binary_search(&value).is_ok());
        Ok(found.iter().map(has).collect())
    }

    fn is_in(&self, text: &str) -> bool {
        if self.ignores_case { fold(text).contains(&self.text) } else { text.contains(&self.text) }
    }
}
