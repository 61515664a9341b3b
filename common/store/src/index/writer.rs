//! Writing an index: documents and checkpoint become visible and durable together.

use std::{fs, path::Path};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, Term, indexer::LogMergePolicy};

use super::{
    Failure, Layout,
    layout::key,
    search::{Snapshot, open, stored},
};
use crate::{record::Position, table::Change};

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

/// What a commit says of itself.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Payload {
    sequence: u64,
    stream_sequence: u64,
    digest: String,
    committed_at: i64,
}

impl Writer {
    /// Opens the index in a folder. What cannot be opened, or was written with another layout, is deleted and begins
    /// anew: the log has it all.
    pub fn open(folder: &Path, layout: Layout) -> Result<Self, Failure> {
        Self::try_open(folder, layout.clone()).or_else(|error| {
            tracing::warn!(%error, "the search index cannot be opened and is built again");
            fs::remove_dir_all(folder)?;
            Self::try_open(folder, layout)
        })
    }

    fn try_open(folder: &Path, layout: Layout) -> Result<Self, Failure> {
        let index = open(folder, &layout)?;
        index.validate_checksum()?.into_iter().next().map_or(Ok(()), |_| Err(Failure::Inconsistent))?;
        let writer = index.writer_with_num_threads(1, MEMORY)?;
        let mut merging = LogMergePolicy::default();
        merging.set_del_docs_ratio_before_merge(DELETED_SHARE);
        writer.set_merge_policy(Box::new(merging));
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { layout, index, writer, reader })
    }

    /// The index as it was committed last.
    pub fn snapshot(&self) -> Result<Snapshot, Failure> {
        self.reader.reload()?;
        let payload = self.index.load_metas()?.payload.unwrap_or_default();
        let payload: Payload = serde_json::from_str(&payload).unwrap_or_default();
        let digest = hex::decode(&payload.digest).ok().and_then(|digest| digest.try_into().ok()).unwrap_or_default();
        Ok(Snapshot {
            searcher: self.reader.searcher(),
            layout: self.layout.clone(),
            position: Position { sequence: payload.sequence, stream_sequence: payload.stream_sequence, digest },
            committed_at: Timestamp::from_microsecond(payload.committed_at).unwrap_or(Timestamp::UNIX_EPOCH),
        })
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
        let payload = Payload {
            sequence: position.sequence,
            stream_sequence: position.stream_sequence,
            digest: hex::encode(position.digest),
            committed_at: committed_at.as_microsecond(),
        };
        let mut commit = self.writer.prepare_commit()?;
        commit.set_payload(&serde_json::to_string(&payload).map_err(|_| Failure::Inconsistent)?);
        commit.commit()?;
        self.snapshot()
    }
}
