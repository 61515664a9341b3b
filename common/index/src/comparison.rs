//! Comparing two indexes of the same layout, document by document: what is stored, the terms by which it is found, and
//! the values by which it is sorted. Positions within a text are not compared.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use domain::column::Kind;
use tantivy::{
    DocId, DocSet, SegmentReader, TERMINATED, TantivyDocument,
    columnar::{Column, StrColumn},
    schema::{Field, IndexRecordOption, Value},
};

use crate::{
    failure::IndexFailure,
    layout::{CHANGED, CREATED, ID, Layout},
    search::{Snapshot, Stored, rewritten},
    tag::Tag,
};

/// How many blocks of stored documents are kept unpacked; they are read in their order.
const BLOCKS: usize = 2;

/// What a comparison knows of a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// The sequence of the event that changed the resource last.
    sequence: u64,
    digest: u64,
}

impl Snapshot {
    /// Returns the keys, `instance/id`, of the documents that only one of two indexes has, or that differ, in order.
    /// What changed later than the one that is less far has is passed over: the other may already have it.
    ///
    /// It reads both indexes whole, and blocks.
    pub fn differences(&self, other: &Self) -> Result<Vec<String>, IndexFailure> {
        let (here, mut there) = (self.fingerprints(str::to_owned)?, other.fingerprints(str::to_owned)?);
        let settled = self.position.sequence.min(other.position.sequence);
        let is_settled = |found: Option<&Fingerprint>| found.is_none_or(|found| found.sequence <= settled);
        let mut differing = vec![];
        for (key, one) in here {
            let other = there.remove(&key);
            if other != Some(one) && is_settled(Some(&one)) && is_settled(other.as_ref()) {
                differing.push(key);
            }
        }
        differing.extend(there.into_iter().filter(|(_, found)| is_settled(Some(found))).map(|(key, _)| key));
        differing.sort_unstable();
        Ok(differing)
    }

    /// Returns the fingerprint of each document, by what a caller makes of its key.
    pub(crate) fn fingerprints<K: Eq + Hash + Clone>(
        &self,
        name: fn(&str) -> K,
    ) -> Result<HashMap<K, Fingerprint>, IndexFailure> {
        let mut found = HashMap::with_capacity(self.searcher.num_docs().try_into().unwrap_or_default());
        for segment in self.searcher.segment_readers() {
            SegmentDigests::new(segment, name).read(&self.layout, &mut found)?;
        }
        Ok(found)
    }
}

/// The documents of a segment.
struct SegmentDigests<'a, K> {
    segment: &'a SegmentReader,
    digests: Vec<u64>,
    keys: Vec<Option<K>>,
    name: fn(&str) -> K,
}

impl<'a, K: Eq + Hash + Clone> SegmentDigests<'a, K> {
    fn new(segment: &'a SegmentReader, name: fn(&str) -> K) -> Self {
        let documents = segment.max_doc() as usize;
        Self { segment, digests: vec![0; documents], keys: vec![None; documents], name }
    }

    fn read(mut self, layout: &Layout, found: &mut HashMap<K, Fingerprint>) -> Result<(), IndexFailure> {
        self.add_terms(layout.terms.whole)?;
        self.add_terms(layout.terms.grams)?;
        self.add_values(layout)?;
        let store = self.segment.get_store_reader(BLOCKS)?;
        for doc in self.segment.doc_ids_alive() {
            let document: TantivyDocument = store.get(doc)?;
            let stored = document.get_first(layout.document).and_then(|value| value.as_bytes());
            let stored = stored.ok_or(IndexFailure::Inconsistent)?;
            let Stored { sequence, .. } = serde_json::from_slice(stored).map_err(|_| IndexFailure::Inconsistent)?;
            // An earlier build may have written it, without members that it did not know.
            self.add(doc, &rewritten(layout, stored).as_deref().unwrap_or(stored));
            let (digest, key) = (self.digests[doc as usize], self.keys[doc as usize].take());
            let of_key = found.entry(key.ok_or(IndexFailure::Inconsistent)?).or_default();
            // Two documents with one key are no document that another index has.
            of_key.sequence = of_key.sequence.max(sequence);
            of_key.digest = of_key.digest.wrapping_add(digest);
        }
        Ok(())
    }

    /// Adds something to the digest of a document. A sum, so that the order does not matter.
    fn add(&mut self, doc: DocId, part: &impl Hash) {
        let digest = &mut self.digests[doc as usize];
        *digest = digest.wrapping_add(hash(part));
    }

    fn add_terms(&mut self, field: Field) -> Result<(), IndexFailure> {
        let inverted = self.segment.inverted_index(field)?;
        let mut terms = inverted.terms().stream()?;
        while let Some((term, place)) = terms.next() {
            let text = str::from_utf8(term).map_err(|_| IndexFailure::Inconsistent)?;
            let (tag, key) = Tag::split(text);
            let mut documents = inverted.read_postings_from_terminfo(place, IndexRecordOption::Basic)?;
            while documents.doc() != TERMINATED {
                let doc = documents.doc();
                self.add(doc, &(field.field_id(), text));
                if tag == Some(Tag::KEY) {
                    self.keys[doc as usize] = Some((self.name)(key));
                }
                documents.advance();
            }
        }
        Ok(())
    }

    fn add_values(&mut self, layout: &Layout) -> Result<(), IndexFailure> {
        let fast = self.segment.fast_fields();
        self.add_column(ID, &fast.u64(ID)?);
        for name in [CREATED, CHANGED] {
            self.add_column(name, &fast.i64(name)?);
        }
        for definition in layout.definitions() {
            let name = definition.name;
            match definition.kind {
                Kind::Text => {
                    if let Some(column) = fast.str(name)? {
                        self.add_texts(name, &column)?;
                    }
                }
                Kind::Integer => self.add_column(name, &fast.i64(name)?),
                Kind::Bool => self.add_column(name, &fast.bool(name)?),
            }
        }
        Ok(())
    }

    fn add_column<T: Hash + PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static>(
        &mut self,
        name: &str,
        values: &Column<T>,
    ) {
        for doc in self.segment.doc_ids_alive() {
            self.add(doc, &(name, values.first(doc)));
        }
    }

    fn add_texts(&mut self, name: &str, column: &StrColumn) -> Result<(), IndexFailure> {
        let mut terms = column.dictionary().stream()?;
        let mut digests = Vec::with_capacity(column.num_terms());
        while terms.advance() {
            digests.push(hash(&terms.key()));
        }
        for doc in self.segment.doc_ids_alive() {
            let value = column.ords().first(doc).and_then(|ordinal| digests.get(usize::try_from(ordinal).ok()?));
            self.add(doc, &(name, value));
        }
        Ok(())
    }
}

/// Returns a hash that is the same in every process of a build.
pub(crate) fn hash<T: Hash + ?Sized>(part: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}
