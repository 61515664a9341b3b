//! As of which sequence an answer is right.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The sequence as of which something is known to be so, at least. It grows while the log says nothing else.
#[derive(Debug, Clone, Default)]
pub struct AsOf(Arc<AtomicU64>);

impl AsOf {
    /// The sequence.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Notes that it is still so as of a later sequence.
    pub(super) fn advance(&self, sequence: u64) {
        self.0.fetch_max(sequence, Ordering::AcqRel);
    }
}

impl From<u64> for AsOf {
    fn from(sequence: u64) -> Self {
        Self(Arc::new(sequence.into()))
    }
}
