//! Searches one snapshot of an index.

use std::sync::Arc;

use domain::{
    context::{Owner, OwnerType},
    standard::Resource,
};
use eventlog::record::Position;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tantivy::{
    Index, IndexMeta, IndexReader, Searcher, TantivyDocument,
    directory::{Directory, META_LOCK},
    query::BooleanQuery,
    schema::Value,
};
use view::{
    rows::{PageBudget, StoredResource},
    table::Row,
};

use crate::{
    bounds::Bounds,
    failure::IndexFailure,
    filter::Filter,
    grams::{TOKENIZER, Trigrams},
    layout::Layout,
    manifest::{Omitted, Payload},
    page::{Page, PageCollector, SortColumn},
    query::query,
    sieve::Sieve,
};

/// A search.
#[derive(Debug, Clone)]
pub struct Search<R: 'static> {
    /// The instances; nothing of another one is ever found. `None` for the entire system.
    pub instances: Option<Vec<String>>,
    /// The filters, all of which must match.
    pub filters: Vec<Filter<R>>,
    /// The requested part of the matches.
    pub page: Page<R>,
}

/// The result of a search.
#[derive(Debug)]
pub struct Hits<R> {
    /// The total number of matches.
    pub total: usize,
    /// The matches of the page, as far as they fit into one.
    pub page: Vec<StoredResource<R>>,
}

/// An index at one moment: its documents and its position, which belong together.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) searcher: Searcher,
    pub(crate) layout: Layout,
    /// Its segments; while this is alive, tantivy does not remove their files.
    pub(crate) metas: Arc<IndexMeta>,
    /// The last record in it.
    pub position: Position,
    /// When that record was committed.
    pub committed_at: Timestamp,
    /// What it omits.
    pub omitted: Arc<[Omitted]>,
    /// How often its writer has purged: after a purge, what was purged must not stay published either.
    pub(crate) purges: u64,
}

/// The stored content of a document.
#[derive(Serialize, Deserialize)]
pub(crate) struct Stored<'a> {
    id: &'a str,
    owner_type: OwnerType,
    owner_id: &'a str,
    pub(crate) sequence: u64,
    changed_at: i64,
    #[serde(borrow)]
    state: &'a RawValue,
}

impl Snapshot {
    /// Searches within bounds.
    ///
    /// # Errors
    /// [`IndexFailure::Stopped`] if it would exceed them.
    pub fn search<R: Resource>(&self, search: &Search<R>, bounds: &Bounds) -> Result<Hits<R>, IndexFailure> {
        self.find(search, bounds).map_err(|failure| bounds.stopped().map_or(failure, IndexFailure::Stopped))
    }

    fn find<R: Resource>(&self, search: &Search<R>, bounds: &Bounds) -> Result<Hits<R>, IndexFailure> {
        let query = query(&self.layout, search.instances.as_deref(), &search.filters)?;
        let Page { key, ascending, offset, limit } = search.page;
        let by = SortColumn::from(key);
        if let SortColumn::Column(column) = by {
            self.layout.column(column)?;
        }
        let sieves = search.filters.iter().filter_map(|filter| Sieve::of(&self.layout, filter).transpose());
        let sieves = sieves.collect::<Result<Vec<_>, _>>()?;
        let collector = PageCollector { by, ascending, offset, limit, sieves: &sieves, bounds };
        let (page, total) = self.collect(&query, &collector)?;
        let read = |document: Vec<u8>| {
            bounds.count(0)?;
            read(&document).ok_or(IndexFailure::Inconsistent)
        };
        let page = page.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Hits { total, page })
    }

    /// Returns the stored content of the documents of a page, as far as it fits into one, and the total number of
    /// matches.
    fn collect(
        &self,
        query: &BooleanQuery,
        collector: &PageCollector<'_>,
    ) -> Result<(Vec<Vec<u8>>, usize), IndexFailure> {
        let (page, total) = self.searcher.search(query, collector)?;
        let (mut found, mut room) = (vec![], PageBudget::default());
        for address in page {
            collector.bounds.count(0)?;
            let document: TantivyDocument = self.searcher.doc(address)?;
            let stored = document.get_first(self.layout.document).and_then(|value| value.as_bytes());
            let stored = stored.ok_or(IndexFailure::Inconsistent)?;
            if !room.takes(stored.len()) {
                break;
            }
            found.push(stored.to_vec());
        }
        Ok((found, total))
    }
}

impl Snapshot {
    /// Returns the same documents at a later position, up to which no event changes any of them.
    pub fn at(&self, position: Position, committed_at: Timestamp) -> Result<Self, IndexFailure> {
        let payload = Payload::new(position, committed_at, &self.omitted).write()?;
        let metas = Arc::new(IndexMeta { payload: Some(payload), ..(*self.metas).clone() });
        Ok(Self { metas, position, committed_at, ..self.clone() })
    }

    /// Returns the number of documents, of all instances.
    pub fn documents(&self) -> u64 {
        self.searcher.num_docs()
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Snapshot").field("position", &self.position).finish_non_exhaustive()
    }
}

/// Returns a snapshot of the last commit of an index.
pub(crate) fn snapshot(index: &Index, reader: &IndexReader, layout: Layout) -> Result<Snapshot, IndexFailure> {
    // A merge may replace the segments meanwhile and remove their files.
    let lock = index.directory().acquire_lock(&META_LOCK).map_err(tantivy::TantivyError::from)?;
    let metas = index.load_metas()?;
    drop(lock);
    reader.reload()?;
    let payload = Payload::of(metas.payload.as_deref());
    Ok(Snapshot {
        searcher: reader.searcher(),
        layout,
        position: payload.position(),
        committed_at: payload.committed_at(),
        omitted: payload.omitted.into(),
        purges: 0,
        metas: Arc::new(metas),
    })
}

/// Registers the tokenizer of texts.
pub(crate) fn tokenizers(index: &Index) {
    index.tokenizers().register(TOKENIZER, Trigrams);
}

pub(crate) fn stored(id: &str, row: &Row) -> Result<Vec<u8>, IndexFailure> {
    let state: &RawValue = serde_json::from_str(&row.state).map_err(|_| IndexFailure::Inconsistent)?;
    let stored = Stored {
        id,
        owner_type: row.owner.kind,
        owner_id: &row.owner.id,
        sequence: row.sequence,
        changed_at: row.changed_at.as_microsecond(),
        state,
    };
    serde_json::to_vec(&stored).map_err(|_| IndexFailure::Inconsistent)
}

/// Writes what is stored of a document as this build does; `None` if its state is none.
pub(crate) fn rewritten(layout: &Layout, stored: &[u8]) -> Option<Vec<u8>> {
    let stored: Stored = serde_json::from_slice(stored).ok()?;
    let state = (layout.rewritten)(stored.state.get())?;
    serde_json::to_vec(&Stored { state: serde_json::from_str(&state).ok()?, ..stored }).ok()
}

fn read<R: Resource>(stored: &[u8]) -> Option<StoredResource<R>> {
    let stored: Stored = serde_json::from_slice(stored).ok()?;
    Some(StoredResource {
        id: stored.id.to_owned(),
        owner: Owner { kind: stored.owner_type, id: stored.owner_id.to_owned() },
        sequence: stored.sequence,
        changed_at: Timestamp::from_microsecond(stored.changed_at).ok()?,
        state: serde_json::from_str(stored.state.get()).ok()?,
    })
}
