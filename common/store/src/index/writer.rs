//! Writing an index: documents and checkpoint become visible and durable together.

use jiff::Timestamp;
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, TantivyError, Term, indexer::LogMergePolicy};

use super::{
    Failure, Folder, Layout, Snapshot,
    directory::Unsynced,
    layout::key,
    manifest::Payload,
    search::{self, stored, tokenizers},
};
use crate::{explain::explain, record::Position, table::Change};

/// The memory that documents gather in before they become a segment, in bytes.
const MEMORY: usize = 50_000_000;
/// A segment with a larger share of deleted documents is merged, so that deletes are purged.
const DELETED_SHARE: f32 = 0.2;

/// The one writer of an index.
pub struct Writer {
    layout: Layout,
    index: Index,
    writer: IndexWriter,
    reader: IndexReader,
}

impl Writer {
    /// Opens the index in a folder. What cannot be opened, or was written with another layout, is deleted and begins
    /// anew: the log has it all.
    pub fn open(folder: &Folder, layout: Layout) -> Result<Self, Failure> {
        match Self::try_open(folder, layout.clone()) {
            // The writer before it has not ended yet, and what it wrote is good.
            Err(Failure::Tantivy(error @ TantivyError::LockFailure(..))) => Err(error.into()),
            Err(failure) => {
                tracing::warn!(error = %explain(&failure), "the search index cannot be opened and is built again");
                Self::create(folder, layout)
            }
            opened => opened,
        }
    }

    /// Begins anew in a folder.
    pub fn create(folder: &Folder, layout: Layout) -> Result<Self, Failure> {
        folder.keep_only(|_| false)?;
        Self::try_open(folder, layout)
    }

    fn try_open(folder: &Folder, layout: Layout) -> Result<Self, Failure> {
        folder.hand_over()?;
        let index = Index::open_or_create(Unsynced::open(folder.path())?, layout.schema.clone())?;
        tokenizers(&index);
        let writer = index.writer_with_num_threads(1, MEMORY)?;
        let mut merging = LogMergePolicy::default();
        merging.set_del_docs_ratio_before_merge(DELETED_SHARE);
        writer.set_merge_policy(Box::new(merging));
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { layout, index, writer, reader })
    }

    /// The index as it was committed last.
    pub fn snapshot(&self) -> Result<Snapshot, Failure> {
        search::snapshot(&self.index, &self.reader, self.layout.clone())
    }

    /// Replaces the documents of the changed resources.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), Failure> {
        for Change { instance_id, id, row } in changes {
            self.writer.delete_term(Term::from_field_text(self.layout.key, &key(instance_id, id)));
            if let Some(row) = row {
                let document = self.layout.document(instance_id, id, row, &stored(id, row)?);
                self.writer.add_document(document)?;
            }
        }
        Ok(())
    }

    /// Commits the documents and the position behind which they stand, and gives the index as it is then.
    pub fn commit(&mut self, position: Position, committed_at: Timestamp) -> Result<Snapshot, Failure> {
        let payload = Payload::new(position, committed_at);
        let mut commit = self.writer.prepare_commit()?;
        commit.set_payload(&serde_json::to_string(&payload).map_err(|_| Failure::Inconsistent)?);
        commit.commit()?;
        self.snapshot()
    }
}
