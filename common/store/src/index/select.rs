//! The window of a sorted list without sorting the list.
//!
//! Keys of text are ordinals, which mean nothing across segments. So ranks are found by pivots: a term of one segment,
//! looked up in the dictionaries of the others. What it costs does not depend on where the window is.

use std::{cmp::Ordering, ops::Bound};

use tantivy::{
    DocAddress, DocId, SegmentOrdinal, TantivyError,
    columnar::{Column, StrColumn},
};

/// How many keys are looked at to choose a pivot, and how far it is chosen from the rank among them.
const SAMPLE: usize = 256;
const MARGIN: usize = 6;

/// One match.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match {
    /// The sort key; of text, the ordinal in its segment.
    pub(super) key: u64,
    pub(super) doc: DocId,
}

/// The matches of a segment.
pub(super) struct Matches {
    pub(super) segment: SegmentOrdinal,
    /// What the keys are ordinals of; numbers have none.
    pub(super) dictionary: Option<StrColumn>,
    /// What breaks ties.
    pub(super) ids: Column<u64>,
    pub(super) found: Vec<Match>,
}

/// The direction of the key; ids ascend in either.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) ascending: bool,
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

/// What stands at a rank.
struct Place {
    pivot: Pivot,
    id: u64,
    /// In each segment, how many matches have a lower key, and how many one that is not higher. They stand in front.
    below: Vec<usize>,
    through: Vec<usize>,
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
    let all = segments.iter().map(|matches| matches.found.len()).collect();
    let to = place(&mut segments, order, all, offset.saturating_add(limit).min(total) - 1)?;
    // What is behind the window is behind in memory too, so the first of the window is looked for in front only.
    let from = place(&mut segments, order, to.through.clone(), offset)?;
    let mut page: Vec<(Pivot, u64, DocAddress)> = vec![];
    for ((matches, begin), end) in segments.iter().zip(&from.below).zip(&to.through) {
        let (low, high) = (matches.cut(&from.pivot)?, matches.cut(&to.pivot)?);
        let within = matches.found[*begin..*end].iter().map(|found| (found, matches.id(found)));
        let mut within: Vec<_> = within
            .filter(|(found, id)| (!low.is_at(found.key) || *id >= from.id) && (!high.is_at(found.key) || *id <= to.id))
            .collect();
        within.sort_unstable_by_key(|(found, _)| found.key);
        let pivots = matches.resolve_all(within.iter().map(|(found, _)| found.key))?;
        let resolved = pivots.into_iter().zip(within);
        page.extend(resolved.map(|(pivot, (found, id))| (pivot, id, DocAddress::new(matches.segment, found.doc))));
    }
    page.sort_by(|(a, a_id, _), (b, b_id, _)| order.directed(a.compare(b)).then(a_id.cmp(b_id)));
    Ok(page.into_iter().map(|(_, _, address)| address).collect())
}

/// Finds what stands at a rank among the first matches of each segment, which are only moved around.
fn place(segments: &mut [Matches], order: Order, mut ends: Vec<usize>, mut rank: usize) -> tantivy::Result<Place> {
    // What can still be at the rank, in each segment.
    let mut begins = vec![0; segments.len()];
    loop {
        let pivot = pivot(segments, order, (&begins, &ends), rank)?;
        let cuts = segments.iter().map(|matches| matches.cut(&pivot)).collect::<tantivy::Result<Vec<_>>>()?;
        let split = |at: &[usize], segments: &mut [Matches], is_front: &dyn Fn(&Cut) -> Front| -> Vec<usize> {
            let candidates = segments.iter_mut().zip(&cuts).zip(at.iter().zip(&ends));
            let fronts = candidates.map(|((matches, cut), (begin, end))| {
                begin + is_front(cut).partition(&mut matches.found[*begin..*end])
            });
            fronts.collect()
        };
        let below = split(&begins, segments, &|cut| order.below(*cut));
        let less = count(&begins, &below);
        if rank < less {
            ends = below;
            continue;
        }
        let through = split(&below, segments, &|cut| Front::At(cut.is_there.then_some(cut.first)));
        let equal = count(&below, &through);
        if rank < less + equal {
            let mut ids: Vec<u64> = vec![];
            for ((matches, begin), end) in segments.iter().zip(&below).zip(&through) {
                ids.extend(matches.found[*begin..*end].iter().map(|found| matches.id(found)));
            }
            let (_, id, _) = ids.select_nth_unstable(rank - less);
            return Ok(Place { pivot, id: *id, below, through });
        }
        rank -= less + equal;
        begins = through;
    }
}

fn count(begins: &[usize], ends: &[usize]) -> usize {
    begins.iter().zip(ends).map(|(begin, end)| end - begin).sum()
}

/// A key near the rank, of the segment with the most candidates: a little behind it in the first half and a little before
/// it in the second, so that most of the others are out after one look.
fn pivot(
    segments: &[Matches],
    order: Order,
    (begins, ends): (&[usize], &[usize]),
    rank: usize,
) -> tantivy::Result<Pivot> {
    let widest = (0..segments.len()).max_by_key(|index| ends[*index] - begins[*index]).unwrap_or_default();
    let candidates = &segments[widest].found[begins[widest]..ends[widest]];
    let mut sample: Vec<u64> =
        candidates.iter().step_by(candidates.len().div_ceil(SAMPLE).max(1)).map(|found| found.key).collect();
    sample.sort_unstable();
    if !order.ascending {
        sample.reverse();
    }
    let total = count(begins, ends);
    let near = rank * sample.len() / total.max(1);
    let near = if rank < total / 2 { near + MARGIN } else { near.saturating_sub(MARGIN) };
    segments[widest].resolve(sample[near.min(sample.len() - 1)])
}

/// What a partition moves to the front.
#[derive(Debug, Clone, Copy)]
enum Front {
    /// Lower keys.
    Below(u64),
    /// Keys from this on.
    From(u64),
    /// This key, if any.
    At(Option<u64>),
}

impl Front {
    /// Moves it and says how much it is.
    fn partition(self, matches: &mut [Match]) -> usize {
        match self {
            Self::Below(bound) => partition(matches, |key| key < bound),
            Self::From(bound) => partition(matches, |key| key >= bound),
            Self::At(None) => 0,
            Self::At(Some(wanted)) => partition(matches, |key| key == wanted),
        }
    }
}

/// Without a branch on the key, which nobody could predict.
fn partition(matches: &mut [Match], is_front: impl Fn(u64) -> bool) -> usize {
    let mut front = 0;
    for index in 0..matches.len() {
        let key = matches[index].key;
        matches.swap(index, front);
        front += usize::from(is_front(key));
    }
    front
}

impl Cut {
    /// Whether a key is the pivot.
    fn is_at(self, key: u64) -> bool {
        self.is_there && key == self.first
    }
}

impl Matches {
    fn id(&self, found: &Match) -> u64 {
        self.ids.first(found.doc).unwrap_or_default()
    }

    fn resolve(&self, key: u64) -> tantivy::Result<Pivot> {
        let Some(dictionary) = &self.dictionary else { return Ok(Pivot::Number(key)) };
        let mut term = vec![];
        dictionary.dictionary().ord_to_term(key, &mut term)?;
        Ok(Pivot::Text(term))
    }

    /// The same for many keys, which ascend: terms beside each other are read together.
    fn resolve_all(&self, keys: impl Iterator<Item = u64>) -> tantivy::Result<Vec<Pivot>> {
        let Some(dictionary) = &self.dictionary else { return Ok(keys.map(Pivot::Number).collect()) };
        let (keys, mut terms) = (keys.collect::<Vec<_>>(), vec![]);
        let push = |term: &[u8]| terms.push(Pivot::Text(term.to_vec()));
        if dictionary.dictionary().sorted_ords_to_term_cb(&keys, push)? {
            return Ok(terms);
        }
        Err(TantivyError::InternalError("a key is in no dictionary".to_owned()))
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

    /// The keys that come before a pivot.
    fn below(self, cut: Cut) -> Front {
        match (self.ascending, cut.is_there) {
            (true, _) => Front::Below(cut.first),
            (false, true) => cut.first.checked_add(1).map_or(Front::At(None), Front::From),
            (false, false) => Front::From(cut.first),
        }
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
