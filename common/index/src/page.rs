//! Collects a page: every match with its sort key, of which only the page is resolved.

use domain::column::{Column as ResourceColumn, Definition, Kind};
use tantivy::{
    COLLECT_BLOCK_BUFFER_LEN, DocAddress, DocId, Score, SegmentOrdinal, SegmentReader, TantivyError,
    collector::{Collector, SegmentCollector},
    columnar::Column,
    query::Weight,
};

use crate::{
    bounds::Bounds,
    layout::{CHANGED, CREATED, ID},
    select::{self, Match, Matches, Order, Source},
    sieve::Sieve,
};

/// How many documents tantivy delivers at a time.
const BLOCK: usize = COLLECT_BLOCK_BUFFER_LEN;
/// With this many matches, room is made for all: a long list that grows step by step is copied more often than it is
/// read.
const MANY: usize = 32 * 1024;

/// The sort key of a page; the id breaks ties, ascending in either direction.
#[derive(Debug)]
pub enum SortKey<R: 'static> {
    /// The time at which it was created.
    Created,
    /// The time at which it was last changed.
    Changed,
    /// The id.
    Id,
    /// A column.
    Column(&'static ResourceColumn<R>),
}

impl<R> Clone for SortKey<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for SortKey<R> {}

/// The requested part of the matches.
#[derive(Debug)]
pub struct Page<R: 'static> {
    /// The sort key.
    pub key: SortKey<R>,
    /// Whether the smallest comes first.
    pub ascending: bool,
    /// The number of matches before the page.
    pub offset: usize,
    /// The most matches of the page.
    pub limit: usize,
}

impl<R> Clone for Page<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Page<R> {}

/// A sort key without the type of its resource.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SortColumn {
    Created,
    Changed,
    Id,
    Column(Definition),
}

impl<R> From<SortKey<R>> for SortColumn {
    fn from(key: SortKey<R>) -> Self {
        match key {
            SortKey::Created => Self::Created,
            SortKey::Changed => Self::Changed,
            SortKey::Id => Self::Id,
            SortKey::Column(column) => Self::Column(column.definition),
        }
    }
}

/// Collects the page and counts all matches.
pub(crate) struct PageCollector<'a> {
    pub(crate) by: SortColumn,
    pub(crate) ascending: bool,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
    /// Filters that are decided match by match.
    pub(crate) sieves: &'a [Sieve],
    pub(crate) bounds: &'a Bounds,
}

/// A page: the addresses of its documents, in order, and the total number of matches.
pub(crate) type Collected = (Vec<DocAddress>, usize);

/// The matches of a segment.
pub(crate) struct Segment {
    matches: Matches,
    key: KeyColumn,
    /// The number of documents.
    documents: usize,
}

enum KeyColumn {
    Unsigned(Column<u64>),
    Signed(Column<i64>),
    Bool(Column<bool>),
}

impl Collector for PageCollector<'_> {
    type Fruit = Collected;
    type Child = Segment;

    fn for_segment(&self, segment: SegmentOrdinal, reader: &SegmentReader) -> tantivy::Result<Segment> {
        let fast = reader.fast_fields();
        let ids = fast.u64(ID)?;
        let mut dictionary = None;
        let key = match self.by {
            SortColumn::Created => KeyColumn::Signed(fast.i64(CREATED)?),
            SortColumn::Changed => KeyColumn::Signed(fast.i64(CHANGED)?),
            // The id as sort key follows the direction; as tie breaker it would not.
            SortColumn::Id => KeyColumn::Unsigned(ids.clone()),
            SortColumn::Column(Definition { name, kind, .. }) => match kind {
                Kind::Text => {
                    let column = fast.str(name)?;
                    let column = column.ok_or_else(|| TantivyError::SchemaError(format!("{name} is no text")))?;
                    let ordinals = column.ords().clone();
                    dictionary = Some(column);
                    KeyColumn::Unsigned(ordinals)
                }
                Kind::Integer => KeyColumn::Signed(fast.i64(name)?),
                Kind::Bool => KeyColumn::Bool(fast.bool(name)?),
            },
        };
        let documents = reader.max_doc() as usize;
        let source = Source { segment, dictionary, ids };
        Ok(Segment { matches: Matches { source, found: vec![] }, key, documents })
    }

    fn requires_scoring(&self) -> bool {
        false
    }

    fn merge_fruits(&self, segments: Vec<Matches>) -> tantivy::Result<Collected> {
        let total = segments.iter().map(|matches| matches.found.len()).sum();
        let order = Order { ascending: self.ascending };
        Ok((select::window(segments, order, self.offset, self.limit)?, total))
    }

    fn collect_segment(
        &self,
        weight: &dyn Weight,
        segment: SegmentOrdinal,
        reader: &SegmentReader,
    ) -> tantivy::Result<Matches> {
        let mut collected = self.for_segment(segment, reader)?;
        let alive = reader.alive_bitset();
        let mut living = Vec::with_capacity(BLOCK);
        // tantivy's own loop is not used because nothing can stop it.
        let mut matches = weight.scorer(reader, 1.0)?;
        let mut docs = [0; BLOCK];
        loop {
            let count = matches.fill_buffer(&mut docs);
            self.bounds.count(count)?;
            let docs = &docs[..count];
            match alive {
                None => collected.collect_block(docs),
                Some(alive) => {
                    living.clear();
                    living.extend(docs.iter().copied().filter(|doc| alive.is_alive(*doc)));
                    collected.collect_block(&living);
                }
            }
            if count < BLOCK {
                break;
            }
        }
        let mut matches = collected.harvest();
        for sieve in self.sieves {
            sieve.retain(reader, &mut matches.found, self.bounds)?;
        }
        Ok(matches)
    }
}

impl SegmentCollector for Segment {
    type Fruit = Matches;

    fn collect(&mut self, doc: DocId, _: Score) {
        self.collect_block(&[doc]);
    }

    fn collect_block(&mut self, docs: &[DocId]) {
        let found = &mut self.matches.found;
        if found.len() >= MANY {
            found.reserve_exact(self.documents.saturating_sub(found.len()));
        }
        for docs in docs.chunks(BLOCK) {
            match &self.key {
                KeyColumn::Unsigned(column) => collect(column, docs, found, |key| key),
                KeyColumn::Signed(column) => collect(column, docs, found, tantivy::i64_to_u64),
                KeyColumn::Bool(column) => collect(column, docs, found, u64::from),
            }
        }
    }

    fn harvest(self) -> Matches {
        self.matches
    }
}

/// Reads the keys of a block at once: one document at a time would cost more than the rest of a search.
fn collect<T: Copy + Default + PartialOrd + std::fmt::Debug + Send + Sync + 'static>(
    column: &Column<T>,
    docs: &[DocId],
    found: &mut Vec<Match>,
    key: impl Fn(T) -> u64,
) {
    let mut values = [None; BLOCK];
    let values = &mut values[..docs.len()];
    column.first_vals(docs, values);
    found.extend(docs.iter().zip(values).map(|(doc, value)| Match { key: key(value.unwrap_or_default()), doc: *doc }));
}
