//! Generated ids: decimal strings of 63-bit numbers that grow with time.
//!
//! 41 bits of milliseconds since 2026, 10 bits of node number, 12 bits counting within a millisecond. Nodes need no
//! coordination beyond a number of their own.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

use crate::{clock, secret::sha256};

/// The start of 2026, in milliseconds since the Unix epoch.
const EPOCH_MS: i64 = 1_767_225_600_000;
const NODE_BITS: u32 = 10;
const COUNT_BITS: u32 = 12;

/// The largest node number.
pub const MAX_NODE: u16 = (1 << NODE_BITS) - 1;

/// Generates ids on one node.
#[derive(Debug)]
pub struct Ids {
    node: u64,
    /// Millisecond and count of the last id.
    last: AtomicU64,
}

impl Ids {
    /// Creates a generator for the node with this number, `0..=MAX_NODE`; higher bits are cut off.
    pub fn new(node: u16) -> Self {
        Self { node: u64::from(node & MAX_NODE), last: AtomicU64::new(0) }
    }

    /// Makes sure that no id follows that may have been generated before this time, although the clock may have gone
    /// back since.
    pub fn not_before(&self, time: Timestamp) {
        let elapsed = u64::try_from(time.as_millisecond() + 1 - EPOCH_MS).unwrap_or_default();
        self.last.fetch_max(elapsed << COUNT_BITS, Ordering::Relaxed);
    }

    /// Generates the next id. It is larger than every id before it on this node, even when the clock goes back.
    pub fn next(&self) -> String {
        let elapsed = u64::try_from(clock::now().as_millisecond() - EPOCH_MS).unwrap_or_default();
        let now = elapsed << COUNT_BITS;
        let advance = |last: u64| Some(now.max(last + 1));
        let last = match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance) {
            Ok(last) | Err(last) => last,
        };
        let ticket = now.max(last + 1);
        let (ms, count) = (ticket >> COUNT_BITS, ticket & ((1 << COUNT_BITS) - 1));
        ((ms << (NODE_BITS + COUNT_BITS)) | (self.node << COUNT_BITS) | count).to_string()
    }
}

/// Derives an id from a text: a number of 63 bits as well, always the same for the same text.
pub fn from_hash(text: &str) -> String {
    number_from_hash(text).to_string()
}

/// Like [`from_hash`], as a number.
pub fn number_from_hash(text: &str) -> u64 {
    sha256(text.as_bytes()).first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)) >> 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_grow_and_fit_63_bits() {
        let ids = Ids::new(3);
        let made: Vec<u64> = (0..10_000).map(|_| ids.next().parse().unwrap()).collect();
        assert!(made.is_sorted_by(|a, b| a < b));
        assert!(made.iter().all(|id| *id < 1 << 63));
    }

    #[test]
    fn nodes_never_make_the_same_id() {
        let (a, b) = (Ids::new(1), Ids::new(2));
        let made: HashSet<String> = (0..1000).flat_map(|_| [a.next(), b.next()]).collect();
        assert_eq!(made.len(), 2000);
    }
}
