//! The window of a sorted list without sorting the list.
//!
//! Keys of text are ordinals, which mean nothing across segments. So ranks are found by pivots: a term of one segment,
//! looked up in the dictionaries of the others. What it costs does not depend on where the window is.

use std::{cmp::Ordering, ops::Bound};

use tantivy::{DocAddress, DocId, SegmentOrdinal, columnar::StrColumn};

/// One match with its keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match {
    /// The sort key; of text, the ordinal in its segment.
    pub(super) key: u64,
    pub(super) id: u64,
    pub(super) doc: DocId,
}

/// The matches of a segment.
pub(super) struct Matches {
    pub(super) segment: SegmentOrdinal,
    /// What the keys are ordinals of; numbers have none.
    pub(super) dictionary: Option<StrColumn>,
    pub(super) found: Vec<Match>,
}

/// The direction of the key; ids ascend in either.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) ascending: bool,
}

/// A place in the order of all matches.
#[derive(Debug, Clone)]
struct Place {
    pivot: Pivot,
    id: u64,
}

/// A key that means the same in every segment.
#[derive(Debug, Clone)]
enum Pivot {
    Number(u64),
    Text(Vec<u8>),
}

/// Where a pivot lies among the keys of one segment.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// The first key that is not below the pivot.
    first: u64,
    /// Whether that key is the pivot.
    is_there: bool,
}

/// The documents from `offset` on, at most `limit`, in order.
pub(super) fn window(
    mut segments: Vec<Matches>,
    order: Order,
    offset: usize,
    limit: usize,
) -> tantivy::Result<Vec<DocAddress>> {
    let total: usize = segments.iter().map(|matches| matches.found.len()).sum();
    if offset >= total || limit == 0 {
        return Ok(vec![]);
    }
    let last = (offset + limit).min(total) - 1;
    let from = place(&mut segments, order, offset)?;
    let to = place(&mut segments, order, last)?;
    let mut page: Vec<(Pivot, u64, DocAddress)> = vec![];
    for matches in &segments {
        let (low, high) = (matches.cut(&from.pivot)?, matches.cut(&to.pivot)?);
        for found in &matches.found {
            let is_behind = order.against(found, low, from.id) != Ordering::Less;
            let is_before = order.against(found, high, to.id) != Ordering::Greater;
            if is_behind && is_before {
                page.push((matches.resolve(found.key)?, found.id, DocAddress::new(matches.segment, found.doc)));
            }
        }
    }
    page.sort_by(|(a, a_id, _), (b, b_id, _)| order.directed(a.compare(b)).then(a_id.cmp(b_id)));
    Ok(page.into_iter().map(|(_, _, address)| address).collect())
}

/// What stands at a rank. The matches are only moved around.
fn place(segments: &mut [Matches], order: Order, mut rank: usize) -> tantivy::Result<Place> {
    // What can still be at the rank, in each segment.
    let mut ranges: Vec<(usize, usize)> = segments.iter().map(|matches| (0, matches.found.len())).collect();
    loop {
        let widest = (0..segments.len()).max_by_key(|index| ranges[*index].1 - ranges[*index].0).unwrap_or_default();
        let (begin, end) = ranges[widest];
        let middle = segments[widest].found[begin + (end - begin) / 2].key;
        let pivot = segments[widest].resolve(middle)?;
        let (mut before, mut same) = (vec![], vec![]);
        for (matches, (begin, end)) in segments.iter_mut().zip(&ranges) {
            let cut = matches.cut(&pivot)?;
            let candidates = &mut matches.found[*begin..*end];
            let first = partition(candidates, |found| order.against_key(found.key, cut) == Ordering::Less);
            let behind =
                partition(&mut candidates[first..], |found| order.against_key(found.key, cut) == Ordering::Equal);
            before.push(first);
            same.push(behind);
        }
        let (less, equal): (usize, usize) = (before.iter().sum(), same.iter().sum());
        if rank < less {
            for (range, first) in ranges.iter_mut().zip(before) {
                range.1 = range.0 + first;
            }
        } else if rank < less + equal {
            let mut ids: Vec<u64> = vec![];
            for ((matches, range), (first, count)) in segments.iter().zip(&ranges).zip(before.iter().zip(&same)) {
                let begin = range.0 + first;
                ids.extend(matches.found[begin..begin + count].iter().map(|found| found.id));
            }
            let (_, id, _) = ids.select_nth_unstable(rank - less);
            return Ok(Place { pivot, id: *id });
        } else {
            rank -= less + equal;
            for (range, (first, count)) in ranges.iter_mut().zip(before.iter().zip(&same)) {
                range.0 += first + count;
            }
        }
    }
}

/// Moves what meets the condition to the front and says how much that is.
fn partition(matches: &mut [Match], is_front: impl Fn(&Match) -> bool) -> usize {
    let mut front = 0;
    for index in 0..matches.len() {
        if is_front(&matches[index]) {
            matches.swap(front, index);
            front += 1;
        }
    }
    front
}

impl Matches {
    fn resolve(&self, key: u64) -> tantivy::Result<Pivot> {
        let Some(dictionary) = &self.dictionary else { return Ok(Pivot::Number(key)) };
        let mut term = vec![];
        dictionary.dictionary().ord_to_term(key, &mut term)?;
        Ok(Pivot::Text(term))
    }

    fn cut(&self, pivot: &Pivot) -> tantivy::Result<Cut> {
        let (dictionary, term) = match (&self.dictionary, pivot) {
            (Some(dictionary), Pivot::Text(term)) => (dictionary.dictionary(), term),
            (_, Pivot::Number(number)) => return Ok(Cut { first: *number, is_there: true }),
            (None, Pivot::Text(_)) => return Ok(Cut { first: 0, is_there: false }),
        };
        let (first, _) = dictionary.term_bounds_to_ord(Bound::Included(term), Bound::Unbounded)?;
        let first = match first {
            Bound::Included(first) | Bound::Excluded(first) => first,
            Bound::Unbounded => 0,
        };
        Ok(Cut { first, is_there: dictionary.term_ord(term)?.is_some() })
    }
}

impl Order {
    fn directed(self, ordering: Ordering) -> Ordering {
        if self.ascending { ordering } else { ordering.reverse() }
    }

    /// A key against a pivot.
    fn against_key(self, key: u64, cut: Cut) -> Ordering {
        self.directed(match key.cmp(&cut.first) {
            Ordering::Equal if !cut.is_there => Ordering::Greater,
            ordering => ordering,
        })
    }

    /// A match against a place.
    fn against(self, found: &Match, cut: Cut, id: u64) -> Ordering {
        self.against_key(found.key, cut).then(found.id.cmp(&id))
    }
}

impl Pivot {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}
