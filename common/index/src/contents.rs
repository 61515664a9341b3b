//! What an index has, by digests, to be checked against what it should have: slowly, and without keeping its files.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use eventlog::record::Position;
use jiff::Timestamp;
use tantivy::{
    DocSet, Index, ReloadPolicy, SegmentReader, TERMINATED, directory::RamDirectory, schema::IndexRecordOption,
    tokenizer::TokenizerManager,
};
use view::table::Change;

use crate::{
    comparison::{Fingerprint, hash},
    failure::IndexFailure,
    grams::{TOKENIZER, Trigrams},
    layout::{Layout, key},
    manifest::Omitted,
    search::{self, Snapshot, stored},
    tag::Tag,
};

/// The memory that a writer expects to need, in bytes. It begins with a table of a third of it, and takes more if need be.
const MEMORY: usize = 1_000_000;

/// What an index has at a position: a digest of each document, in 25 to 50 bytes of memory.
pub struct Contents {
    layout: Layout,
    documents: HashMap<u64, Fingerprint>,
    /// The last record in it.
    pub position: Position,
    /// When that record was committed.
    pub committed_at: Timestamp,
    /// What it omits.
    pub omitted: Arc<[Omitted]>,
}

impl Snapshot {
    /// Digests what it has. It reads the index whole, and blocks.
    ///
    /// # Errors
    /// When the files cannot be read, or are not those of an index.
    pub fn contents(&self) -> Result<Contents, IndexFailure> {
        let Self { layout, position, committed_at, omitted, .. } = self.clone();
        Ok(Contents { layout, documents: self.fingerprints(hash)?, position, committed_at, omitted })
    }

    /// Returns instance and id of the next documents after a key, `instance/id`, in the order of the keys. It blocks.
    ///
    /// # Errors
    /// When the files cannot be read, or are not those of an index.
    pub fn keys_after(&self, last: &str, limit: usize) -> Result<Vec<(String, String)>, IndexFailure> {
        let mut found = BTreeSet::new();
        for segment in self.searcher.segment_readers() {
            found.extend(keys_of(segment, &self.layout, last, limit)?);
        }
        let split = |key: &String| key.split_once('/').map(|(instance, id)| (instance.to_owned(), id.to_owned()));
        found.iter().take(limit).map(|key| split(key).ok_or(IndexFailure::Inconsistent)).collect()
    }
}

/// The keys of a segment's documents after one.
fn keys_of(segment: &SegmentReader, layout: &Layout, last: &str, limit: usize) -> Result<Vec<String>, IndexFailure> {
    let inverted = segment.inverted_index(layout.terms.whole)?;
    let mut terms = inverted.terms().range().gt(Tag::KEY.of(last)).into_stream()?;
    let mut found = vec![];
    while found.len() < limit && terms.advance() {
        let term = str::from_utf8(terms.key()).map_err(|_| IndexFailure::Inconsistent)?;
        let (Some(Tag::KEY), key) = Tag::split(term) else { break };
        let mut documents = inverted.read_postings_from_terminfo(terms.value(), IndexRecordOption::Basic)?;
        while documents.doc() != TERMINATED {
            if !segment.is_deleted(documents.doc()) {
                found.push(key.to_owned());
                break;
            }
            documents.advance();
        }
    }
    Ok(found)
}

impl Contents {
    /// Returns how many documents it has.
    pub fn count(&self) -> usize {
        self.documents.len()
    }

    /// Returns those of these changes after which it would be another one: documents that differ or are missing, or that
    /// are there and should not be. It blocks.
    ///
    /// # Errors
    /// When a document cannot be made.
    pub fn deviations(&self, mut expected: Vec<Change>) -> Result<Vec<Change>, IndexFailure> {
        if expected.is_empty() {
            return Ok(expected);
        }
        let wanted = fingerprints(&self.layout, &expected)?;
        expected.retain(|Change { instance_id, id, .. }| {
            let key = hash(key(instance_id, id).as_str());
            self.documents.get(&key) != wanted.get(&key)
        });
        Ok(expected)
    }
}

/// The fingerprints of documents, taken from an index in memory, so that nothing but the code that reads an index knows
/// what one has.
fn fingerprints(layout: &Layout, changes: &[Change]) -> Result<HashMap<u64, Fingerprint>, IndexFailure> {
    let tokenizers = TokenizerManager::default();
    tokenizers.register(TOKENIZER, Trigrams);
    let index = Index::builder().schema(layout.schema.clone()).tokenizers(tokenizers);
    let mut writer = index.single_segment_index_writer(RamDirectory::create(), MEMORY)?;
    for Change { instance_id, id, row } in changes {
        if let Some(row) = row {
            writer.add_document(layout.document(instance_id, id, row, &stored(id, row)?))?;
        }
    }
    let index = writer.finalize()?;
    let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
    search::snapshot(&index, &reader, layout.clone())?.fingerprints(hash)
}
