//! Writing an index: documents and checkpoint become visible and durable together.

use std::ops::Bound;

use base::{explain::explain, fault, panic::caught};
use eventlog::record::Position;
use jiff::Timestamp;
use tantivy::{
    Index, IndexReader, IndexWriter, ReloadPolicy, TantivyDocument, Term,
    index::{SegmentId, SegmentMeta},
    indexer::{IndexWriterOptions, LogMergePolicy, MergeCandidate, MergePolicy},
    query::RangeQuery,
};
use view::table::{Change, aged::forgotten_before};

use crate::{
    directory::Unsynced,
    failure::IndexFailure,
    folder::Folder,
    layout::{Layout, key},
    manifest::{Omitted, Payload},
    rehearsal::fatal,
    search::{self, Snapshot, stored, tokenizers},
    tag::Tag,
};

/// The memory for documents before they become a segment, in bytes.
const MEMORY: usize = 50_000_000;
/// The share of deleted documents above which a segment is merged, so that deletes are purged.
const DELETED_SHARE: f32 = 0.2;

/// The number of documents above which a segment is merged only for its deletes: everything that is merged is published
/// again.
const LARGEST_MERGED: usize = 200_000;

/// Merges small segments, and every segment that has too many deletes.
#[derive(Debug)]
struct Merging(LogMergePolicy);

impl Merging {
    fn new() -> Self {
        let mut small = LogMergePolicy::default();
        small.set_del_docs_ratio_before_merge(DELETED_SHARE);
        small.set_max_docs_before_merge(LARGEST_MERGED);
        Self(small)
    }
}

impl MergePolicy for Merging {
    fn compute_merge_candidates(&self, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        let share = |segment: &SegmentMeta| segment.num_deleted_docs() as f32 / segment.max_doc() as f32;
        let is_large = |segment: &&SegmentMeta| segment.num_docs() as usize > LARGEST_MERGED;
        let worn = segments.iter().filter(is_large).filter(|segment| share(segment) > DELETED_SHARE);
        let worn = worn.map(|segment| MergeCandidate(vec![segment.id()]));
        self.0.compute_merge_candidates(segments).into_iter().chain(worn).collect()
    }
}

/// A change whose document can never be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The instance of the resource.
    pub instance_id: String,
    /// The id of the resource.
    pub id: String,
    /// The reason, for an operator. Nothing of the resource's content is quoted.
    pub error: String,
}

impl Refused {
    fn of(change: &Change, error: &str) -> Self {
        let (instance_id, id) = (change.instance_id.clone(), change.id.clone());
        Self { instance_id, id, error: format!("its document {error}") }
    }

    /// Whether this is the refused change.
    pub fn is_of(&self, change: &Change) -> bool {
        self.instance_id == change.instance_id && self.id == change.id
    }
}

/// The only writer of an index.
pub struct Writer {
    layout: Layout,
    index: Index,
    /// The threads that write; none while there is nothing to write.
    threads: Option<IndexWriter>,
    reader: IndexReader,
    omitted: Vec<Omitted>,
    /// When the record of the last commit was committed.
    committed_at: Timestamp,
    purges: u64,
    is_careful: bool,
}

impl Writer {
    /// Opens the index in a folder. If it is broken, or was written with another layout, it is deleted and started
    /// again: everything is in the log.
    pub fn open(folder: &Folder, layout: Layout) -> Result<Self, IndexFailure> {
        match Self::try_open(folder, layout.clone()) {
            Err(failure) if failure.is_lasting() => {
                tracing::warn!(error = %explain(&failure), "the search index cannot be opened and is built again");
                Self::create(folder, layout)
            }
            opened => opened,
        }
    }

    /// Starts an empty index in a folder.
    pub fn create(folder: &Folder, layout: Layout) -> Result<Self, IndexFailure> {
        folder.keep_only(|_| false)?;
        Self::try_open(folder, layout)
    }

    fn try_open(folder: &Folder, layout: Layout) -> Result<Self, IndexFailure> {
        folder.hand_over()?;
        let index = Index::open_or_create(Unsynced::open(folder.path())?, layout.schema.clone())?;
        tokenizers(&index);
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let snapshot = search::snapshot(&index, &reader, layout.clone())?;
        let (omitted, committed_at) = (snapshot.omitted.to_vec(), snapshot.committed_at);
        Ok(Self { layout, index, threads: None, reader, omitted, committed_at, purges: 0, is_careful: false })
    }

    /// Returns the threads that write, and starts them if there are none.
    fn threads(&mut self) -> Result<&mut IndexWriter, IndexFailure> {
        match self.threads {
            Some(ref mut threads) => Ok(threads),
            ref mut none => Ok(none.insert(start(&self.index)?)),
        }
    }

    /// Whether no threads were started, or they have ended.
    pub fn is_resting(&self) -> bool {
        self.threads.is_none()
    }

    /// Whether segments are merged, or are to be merged.
    ///
    /// # Errors
    /// When the list of segments cannot be read.
    pub fn is_merging(&self) -> Result<bool, IndexFailure> {
        let segments = self.index.searchable_segment_metas()?;
        Ok(!Merging::new().compute_merge_candidates(&segments).is_empty())
    }

    /// Ends the threads that write, with their memory, once they have merged what they are merging. Documents that were
    /// not committed are lost.
    ///
    /// # Errors
    /// When a thread has failed.
    pub fn rest(&mut self) -> Result<(), IndexFailure> {
        Ok(self.threads.take().map_or(Ok(()), IndexWriter::wait_merging_threads)?)
    }

    /// Returns a snapshot of the last commit.
    pub fn snapshot(&self) -> Result<Snapshot, IndexFailure> {
        let mut snapshot = search::snapshot(&self.index, &self.reader, self.layout.clone())?;
        snapshot.purges = self.purges;
        Ok(snapshot)
    }

    /// Tries every document beside the index first, until the next commit: a document may have ended a previous writer,
    /// which does not report which one.
    pub fn rehearse_documents(&mut self) {
        self.is_careful = true;
    }

    /// Replaces the documents of the changed resources. If a document cannot be created, the old one is left, and the
    /// change is returned.
    pub fn apply(&mut self, changes: &[Change]) -> Result<Vec<Refused>, IndexFailure> {
        let (mut made, mut refused) = (vec![], Vec::<Refused>::new());
        for change in changes {
            // Later changes of a refused resource have to wait for it.
            if refused.iter().any(|refused| refused.is_of(change)) {
                continue;
            }
            match caught(|| self.document(change)) {
                Ok(Ok(document)) => made.push((change, document)),
                Ok(Err(failure)) => refused.push(Refused::of(change, &format!("cannot be made: {failure}"))),
                Err(_) => refused.push(Refused::of(
                    change,
                    "cannot be made: the code panicked, and the node's standard error says where",
                )),
            }
        }
        if self.is_careful {
            for change in fatal(&self.layout, &made)? {
                refused.push(Refused::of(change, "ends what writes it, and the node's standard error says where"));
            }
            made.retain(|(change, _)| refused.iter().all(|refused| !refused.is_of(change)));
        }
        for (Change { instance_id, id, .. }, document) in made {
            let key = self.layout.terms.of(Tag::KEY, &key(instance_id, id));
            let threads = self.threads()?;
            threads.delete_term(key);
            if let Some(document) = document {
                threads.add_document(document)?;
            }
        }
        Ok(refused)
    }

    fn document(&self, Change { instance_id, id, row }: &Change) -> Result<Option<TantivyDocument>, IndexFailure> {
        let Some(row) = row else { return Ok(None) };
        fault::point_of("index.document", id);
        Ok(Some(self.layout.document(instance_id, id, row, &stored(id, row)?)))
    }

    /// Whether a segment of the last commit still contains deleted documents.
    pub fn has_deleted(&self) -> Result<bool, IndexFailure> {
        Ok(!self.segments_with_deletes()?.is_empty())
    }

    fn segments_with_deletes(&self) -> Result<Vec<SegmentId>, IndexFailure> {
        let segments = self.index.searchable_segment_metas()?;
        Ok(segments.iter().filter(|segment| segment.has_deletes()).map(SegmentMeta::id).collect())
    }

    /// Rewrites those segments of the last commit that contain deleted documents without these, and removes the old
    /// ones. A segment that is currently being merged with others is left as it is.
    pub fn purge(&mut self) -> Result<Snapshot, IndexFailure> {
        for segment in self.segments_with_deletes()? {
            if let Err(error) = self.threads()?.merge(&[segment]).wait() {
                tracing::debug!(error = %explain(&error), "a segment cannot be written anew yet");
            }
        }
        self.threads()?.garbage_collect_files().wait()?;
        self.purges += 1;
        self.snapshot()
    }

    /// Sets what the next commit omits, and returns whether that differs from before.
    pub fn omit(&mut self, omitted: Vec<Omitted>) -> bool {
        let is_other = self.omitted != omitted;
        self.omitted = omitted;
        is_other
    }

    /// Whether a commit at this time deletes documents because they are forgotten then.
    pub fn forgets(&self, committed_at: Timestamp) -> bool {
        self.layout.ends_at.is_some() && forgotten_before(self.committed_at, committed_at).is_some()
    }

    /// Deletes the documents of what expired so long ago that it is forgotten at this time of the log.
    fn forget(&mut self, committed_at: Timestamp) -> Result<(), IndexFailure> {
        let (Some(ends_at), Some(before)) = (self.layout.ends_at, forgotten_before(self.committed_at, committed_at))
        else {
            return Ok(());
        };
        let before = Term::from_field_i64(self.layout.column(ends_at)?.value, before);
        self.threads()?.delete_query(Box::new(RangeQuery::new(Bound::Unbounded, Bound::Excluded(before))))?;
        Ok(())
    }

    /// Commits the documents with their position, and returns the resulting snapshot.
    pub fn commit(&mut self, position: Position, committed_at: Timestamp) -> Result<Snapshot, IndexFailure> {
        self.forget(committed_at)?;
        let payload = Payload::new(position, committed_at, &self.omitted);
        let payload = payload.write()?;
        let mut commit = self.threads()?.prepare_commit()?;
        commit.set_payload(&payload);
        commit.commit()?;
        (self.is_careful, self.committed_at) = (false, committed_at);
        self.snapshot()
    }
}

/// Starts the threads that write an index: one for documents, one for merges, and one for files.
fn start(index: &Index) -> Result<IndexWriter, IndexFailure> {
    let options = IndexWriterOptions::builder().memory_budget_per_thread(MEMORY).num_merge_threads(1).build();
    let threads = index.writer_with_options(options)?;
    threads.set_merge_policy(Box::new(Merging::new()));
    Ok(threads)
}
