//! The tags of terms, by which all columns share a field.
//!
//! tantivy begins each dictionary of a segment with a table of almost a megabyte, whatever is written into it
//! (`tantivy_fst`'s registry of nodes). So all columns share a dictionary: the first character of a term, its tag, names
//! the column.

/// What a term is of: its first character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(char);

impl Tag {
    /// Instance and id, by which a document is replaced.
    pub(crate) const KEY: Self = Self('!');
    pub(crate) const INSTANCE: Self = Self('"');
    pub(crate) const ID: Self = Self('#');
    /// Level and id of the context in which roles for it must be held.
    pub(crate) const OWNER: Self = Self('$');

    /// Returns the tags of the columns, in their order. They begin where the others end; one that needs two bytes is
    /// as good as any other.
    pub(crate) fn of_columns() -> impl Iterator<Item = Self> {
        ('%'..).map(Self)
    }

    /// Returns a text that begins with this tag.
    pub(crate) fn of(self, text: &str) -> String {
        let mut tagged = String::with_capacity(self.0.len_utf8() + text.len());
        tagged.push(self.0);
        tagged.push_str(text);
        tagged
    }

    /// Splits a text from its tag.
    pub(crate) fn split(tagged: &str) -> (Option<Self>, &str) {
        let mut chars = tagged.chars();
        (chars.next().map(Self), chars.as_str())
    }

    /// Returns its character.
    pub(crate) fn char(self) -> char {
        self.0
    }
}
