//! Selects the window of a sorted list without sorting the list.
//!
//! Keys of text are ordinals, which mean nothing across segments. So the matches are split at pivots: a term of one
//! segment, looked up in the dictionaries of the others. Matches outside the window are only moved around, so the cost
//! hardly depends on where the window is.

use std::{cmp::Ordering, ops::Range};

use tantivy::{
    DocAddress, DocId, SegmentOrdinal, TantivyError,
    columnar::{Column, StrColumn, TermOrdHit},
};

/// A list of at most this size is sorted, and not split any further.
const FEW: usize = 512;
/// How many matches are sampled to choose a pivot, and how far from the window it is chosen among them.
const SAMPLE: usize = 256;
const MARGIN: usize = 6;

/// One match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Match {
    /// The sort key; for text, the ordinal in its segment.
    pub(crate) key: u64,
    pub(crate) doc: DocId,
}

/// The matches of a segment.
pub(crate) struct Matches {
    pub(crate) source: Source,
    pub(crate) found: Vec<Match>,
}

/// The data of a segment that its matches refer to.
pub(crate) struct Source {
    pub(crate) segment: SegmentOrdinal,
    /// The dictionary that the keys are ordinals of; `None` for numbers.
    pub(crate) dictionary: Option<StrColumn>,
    /// The ids, which break ties.
    pub(crate) ids: Column<u64>,
}

/// The direction of the key; ids ascend in either.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) ascending: bool,
}

/// Some of the matches of a segment.
struct SegmentMatches<'a> {
    source: &'a Source,
    found: &'a mut [Match],
}

/// A sort key and id with the same meaning in every segment.
struct Pivot {
    key: SortValue,
    id: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SortValue {
    Number(u64),
    Text(Vec<u8>),
}

/// The keys of a segment that are before a pivot.
struct KeysBefore {
    /// The range of keys that are before it.
    from: u64,
    through: u64,
    /// The key of the pivot, if the segment has it: matches with this key and a lower id are before it.
    tied: Option<u64>,
    id: u64,
}

/// Returns the documents from `offset` on, at most `limit`, in order.
pub(crate) fn window(
    mut segments: Vec<Matches>,
    order: Order,
    offset: usize,
    limit: usize,
) -> tantivy::Result<Vec<DocAddress>> {
    let parts: Vec<_> = segments
        .iter_mut()
        .map(|matches| SegmentMatches { source: &matches.source, found: &mut matches.found })
        .collect();
    let total = count(&parts);
    let mut page = vec![];
    order.collect(parts, offset.min(total)..offset.saturating_add(limit).min(total), &mut page)?;
    Ok(page)
}

fn count(parts: &[SegmentMatches<'_>]) -> usize {
    parts.iter().map(|part| part.found.len()).sum()
}

impl Order {
    /// Appends the matches with these ranks to the page.
    fn collect(
        self,
        parts: Vec<SegmentMatches<'_>>,
        ranks: Range<usize>,
        page: &mut Vec<DocAddress>,
    ) -> tantivy::Result<()> {
        let total = count(&parts);
        if ranks.is_empty() {
            return Ok(());
        }
        if total <= FEW || ranks.len() == total {
            let sorted = self.sort(parts)?;
            page.extend(sorted[ranks].iter().map(|(_, address)| address));
            return Ok(());
        }
        let pivot = self.pivot(&parts, &ranks, total)?;
        let (mut front, mut back) = (vec![], vec![]);
        for SegmentMatches { source, found } in parts {
            let middle = source.partition(found, &self.before(source, &pivot)?);
            let (before, after) = found.split_at_mut(middle);
            front.push(SegmentMatches { source, found: before });
            back.push(SegmentMatches { source, found: after });
        }
        let middle = count(&front);
        if middle == 0 {
            // Keys and ids are equal: nothing distinguishes them.
            let sorted = self.sort(back)?;
            page.extend(sorted[ranks].iter().map(|(_, address)| address));
            return Ok(());
        }
        self.collect(front, ranks.start.min(middle)..ranks.end.min(middle), page)?;
        self.collect(back, ranks.start.saturating_sub(middle)..ranks.end.saturating_sub(middle), page)
    }

    fn sort(self, parts: Vec<SegmentMatches<'_>>) -> tantivy::Result<Vec<(Pivot, DocAddress)>> {
        let mut sorted = vec![];
        for SegmentMatches { source, found } in parts {
            found.sort_unstable_by_key(|found| found.key);
            let keys = source.resolve(found.iter().map(|found| found.key).collect())?;
            sorted.extend(
                keys.into_iter().zip(found).map(|(key, found)| {
                    (Pivot { key, id: source.id(found) }, DocAddress::new(source.segment, found.doc))
                }),
            );
        }
        sorted.sort_unstable_by(|(one, _), (other, _)| self.compare(&one.key, one.id, &other.key, other.id));
        Ok(sorted)
    }

    /// Chooses a match a little outside the window, on the side where more lies outside, so that most of it is dropped
    /// after one pass. It is never the first of all, so there is something on both sides of it.
    fn pivot(self, parts: &[SegmentMatches<'_>], ranks: &Range<usize>, total: usize) -> tantivy::Result<Pivot> {
        // Looking up terms is expensive, so they are compared within a segment; numbers are the same in all.
        let widest = parts.iter().max_by_key(|part| part.found.len()).into_iter();
        let is_text = parts.iter().any(|part| part.source.dictionary.is_some());
        let looked_at: Vec<_> = if is_text { widest.collect() } else { parts.iter().collect() };
        let step = looked_at.iter().map(|part| part.found.len()).sum::<usize>().div_ceil(SAMPLE).max(1);
        let mut sample: Vec<_> = looked_at
            .iter()
            .flat_map(|part| {
                part.found.iter().step_by(step).map(|found| (found.key, part.source.id(found), part.source))
            })
            .collect();
        sample.sort_unstable_by(|one, other| self.compare(&one.0, one.1, &other.0, other.1));
        let near = if total - ranks.end > ranks.start {
            (ranks.end * sample.len()).div_ceil(total) + MARGIN
        } else {
            (ranks.start * sample.len() / total).saturating_sub(MARGIN)
        };
        let (key, id, source) = &sample[near.clamp(1, sample.len() - 1)];
        let key = source.resolve(vec![*key])?.pop().ok_or_else(unknown)?;
        Ok(Pivot { key, id: *id })
    }

    fn compare<K: Ord>(self, one: &K, one_id: u64, other: &K, other_id: u64) -> Ordering {
        let keys = if self.ascending { one.cmp(other) } else { other.cmp(one) };
        keys.then(one_id.cmp(&other_id))
    }

    fn before(self, source: &Source, place: &Pivot) -> tantivy::Result<KeysBefore> {
        // The first key that is not lower, and whether it is the same.
        let (first, is_there) = match (&source.dictionary, &place.key) {
            (_, SortValue::Number(number)) => (*number, true),
            (None, SortValue::Text(_)) => (0, false),
            (Some(terms), SortValue::Text(term)) => match terms.dictionary().term_ord_or_next(term)? {
                TermOrdHit::Exact(ordinal) => (ordinal, true),
                TermOrdHit::Next(ordinal) => (ordinal, false),
            },
        };
        let keys = match (self.ascending, is_there) {
            (true, _) => first.checked_sub(1).map(|last| (0, last)),
            (false, true) => first.checked_add(1).map(|first| (first, u64::MAX)),
            (false, false) => Some((first, u64::MAX)),
        };
        let (from, through) = keys.unwrap_or((1, 0));
        Ok(KeysBefore { from, through, tied: is_there.then_some(first), id: place.id })
    }
}

impl Source {
    /// Moves the matches before a pivot to the front, and returns their number.
    fn partition(&self, found: &mut [Match], before: &KeysBefore) -> usize {
        let mut front = 0;
        for index in 0..found.len() {
            let this = found[index];
            // Without a branch on the comparison, which would be unpredictable; ties are rare, or else almost all the
            // same.
            let mut is_before = (before.from..=before.through).contains(&this.key);
            if before.tied == Some(this.key) {
                is_before = self.id(&this) < before.id;
            }
            found.swap(index, front);
            front += usize::from(is_before);
        }
        front
    }

    fn id(&self, found: &Match) -> u64 {
        self.ids.first(found.doc).unwrap_or_default()
    }

    /// Resolves keys, which ascend, to their values. Neighbouring terms are read together.
    fn resolve(&self, keys: Vec<u64>) -> tantivy::Result<Vec<SortValue>> {
        let Some(terms) = &self.dictionary else { return Ok(keys.into_iter().map(SortValue::Number).collect()) };
        let mut resolved = Vec::with_capacity(keys.len());
        let all =
            terms.dictionary().sorted_ords_to_term_cb(&keys, |term| resolved.push(SortValue::Text(term.to_vec())))?;
        all.then_some(resolved).ok_or_else(unknown)
    }
}

fn unknown() -> TantivyError {
    TantivyError::InternalError("a key is in no dictionary".to_owned())
}
