//! Collecting a page: every match with its sort key, then only the page is resolved.

use domain::field::Kind;
use tantivy::{
    DocAddress, DocId, Score, SegmentOrdinal, SegmentReader,
    collector::{Collector, SegmentCollector},
    columnar::{Column, StrColumn},
};

use super::{
    filter::CaseCheck,
    layout::{CHANGED, CREATED, ID},
    select::{self, Matches, Order},
};

/// By what a page is sorted; the id breaks ties, ascending in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// By when it was created.
    Created,
    /// By when it was changed last.
    Changed,
    /// By the id.
    Id,
    /// By a column.
    Column(&'static str, Kind),
}

/// Which part of the matches is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// By what they are sorted.
    pub key: Key,
    /// Whether the smallest comes first.
    pub ascending: bool,
    /// How many come before.
    pub offset: usize,
    /// How many there are at most.
    pub limit: usize,
}

/// Collects the page and counts all matches.
pub(super) struct PageCollector {
    pub(super) page: Page,
    pub(super) checks: Vec<CaseCheck>,
}

/// A page: where its documents are, in order, and how many matches there are.
pub(super) type Collected = (Vec<DocAddress>, usize);

/// The matches of a segment.
pub(super) struct Segment {
    matches: Matches,
    key: KeyColumn,
    id: Column<u64>,
    checks: Vec<Checked>,
    text: String,
}

enum KeyColumn {
    Text(StrColumn),
    Signed(Column<i64>),
    Bool(Column<bool>),
    Id,
}

struct Checked {
    check: CaseCheck,
    column: StrColumn,
    /// The last ordinal that was looked at: neighbours often share it.
    last: Option<(u64, bool)>,
}

impl Collector for PageCollector {
    type Fruit = Collected;
    type Child = Segment;

    fn for_segment(&self, segment: SegmentOrdinal, reader: &SegmentReader) -> tantivy::Result<Segment> {
        let fast = reader.fast_fields();
        let text = |name: &str| {
            let column = fast.str(name)?;
            column.ok_or_else(|| tantivy::TantivyError::SchemaError(format!("{name} is no text")))
        };
        let key = match self.page.key {
            Key::Created => KeyColumn::Signed(fast.i64(CREATED)?),
            Key::Changed => KeyColumn::Signed(fast.i64(CHANGED)?),
            Key::Id => KeyColumn::Id,
            Key::Column(name, Kind::Text) => KeyColumn::Text(text(name)?),
            Key::Column(name, Kind::Integer) => KeyColumn::Signed(fast.i64(name)?),
            Key::Column(name, Kind::Bool) => KeyColumn::Bool(fast.bool(name)?),
        };
        let checked = |check: &CaseCheck| Ok(Checked { check: check.clone(), column: text(check.column)?, last: None });
        let dictionary = match &key {
            KeyColumn::Text(column) => Some(column.clone()),
            _ => None,
        };
        Ok(Segment {
            matches: Matches { segment, dictionary, found: vec![] },
            key,
            id: fast.u64(ID)?,
            checks: self.checks.iter().map(checked).collect::<tantivy::Result<_>>()?,
            text: String::new(),
        })
    }

    fn requires_scoring(&self) -> bool {
        false
    }

    fn merge_fruits(&self, segments: Vec<Matches>) -> tantivy::Result<Collected> {
        let total = segments.iter().map(|matches| matches.found.len()).sum();
        let order = Order { ascending: self.page.ascending };
        Ok((select::window(segments, order, self.page.offset, self.page.limit)?, total))
    }
}

impl SegmentCollector for Segment {
    type Fruit = Matches;

    fn collect(&mut self, doc: DocId, _: Score) {
        if !self.is_checked(doc) {
            return;
        }
        let key = match &self.key {
            KeyColumn::Text(column) => column.ords().first(doc).unwrap_or_default(),
            KeyColumn::Signed(column) => tantivy::i64_to_u64(column.first(doc).unwrap_or_default()),
            KeyColumn::Bool(column) => column.first(doc).unwrap_or_default().into(),
            KeyColumn::Id => 0,
        };
        let id = self.id.first(doc).unwrap_or_default();
        // A page by id has the id as its key, so that it follows the direction.
        let key = if matches!(self.key, KeyColumn::Id) { id } else { key };
        self.matches.found.push(select::Match { key, id, doc });
    }

    fn harvest(self) -> Matches {
        self.matches
    }
}

impl Segment {
    fn is_checked(&mut self, doc: DocId) -> bool {
        let text = &mut self.text;
        self.checks.iter_mut().all(|checked| {
            let Some(ord) = checked.column.ords().first(doc) else { return false };
            if let Some((_, is_met)) = checked.last.filter(|(last, _)| *last == ord) {
                return is_met;
            }
            text.clear();
            let is_met = checked.column.ord_to_str(ord, text).unwrap_or(false) && checked.check.is_met(text);
            checked.last = Some((ord, is_met));
            is_met
        })
    }
}
