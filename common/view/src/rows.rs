//! Rows of resources as they were read.

use domain::context::Owner;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::database::DatabaseFailure;

/// The largest page of a list, in bytes as stored: less than the 4 MiB that gRPC clients accept by default.
pub const LARGEST_PAGE: usize = 3 << 20;

/// An answer of a read model and how fresh it is, both from one snapshot.
#[derive(Debug)]
pub struct Fresh<T> {
    /// The sequence that the read model had processed.
    pub processed: u64,
    /// When the event of that sequence was committed.
    pub timestamp: Timestamp,
    /// Whether the requested object is parked, and lacks its later events however far the read model is.
    pub is_parked: bool,
    /// The answer itself.
    pub answer: T,
}

impl<T> Fresh<T> {
    /// Converts the answer, which stays as fresh.
    ///
    /// # Errors
    /// Those of the conversion.
    pub fn try_map<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Fresh<U>, E> {
        let Self { processed, timestamp, is_parked, answer } = self;
        Ok(Fresh { processed, timestamp, is_parked, answer: make(answer)? })
    }
}

/// The room that is left in a page.
#[derive(Debug)]
pub struct PageBudget {
    left: usize,
    is_empty: bool,
}

impl Default for PageBudget {
    fn default() -> Self {
        Self { left: LARGEST_PAGE, is_empty: true }
    }
}

impl PageBudget {
    /// Whether something of this size fits in. The first always does: a page without anything would have no next one.
    pub fn takes(&mut self, size: usize) -> bool {
        let fits = self.is_empty || size <= self.left;
        self.left = if fits { self.left.saturating_sub(size) } else { 0 };
        self.is_empty = false;
        fits
    }
}

/// A resource as the read model has it.
#[derive(Debug, Clone)]
pub struct StoredResource<R> {
    /// The id.
    pub id: String,
    /// The context that it belongs to.
    pub owner: Owner,
    /// The sequence of its last event.
    pub sequence: u64,
    /// When its last event was committed.
    pub changed_at: Timestamp,
    /// The resource.
    pub state: R,
}

/// A resource of any instance as the read model has it.
#[derive(Debug, Clone)]
pub struct Stored<R> {
    /// The instance that it belongs to.
    pub instance_id: String,
    /// The resource.
    pub found: StoredResource<R>,
}

impl Stored<Box<RawValue>> {
    /// Reads the state as a resource of this aggregate type.
    ///
    /// # Errors
    /// When the row is not that of such a resource.
    pub fn read<R: DeserializeOwned>(self, aggregate_type: &'static str) -> Result<StoredResource<R>, DatabaseFailure> {
        let Self { instance_id, found: StoredResource { id, owner, sequence, changed_at, state } } = self;
        match serde_json::from_str(state.get()) {
            Ok(state) => Ok(StoredResource { id, owner, sequence, changed_at, state }),
            Err(_) => Err(DatabaseFailure::Inconsistent { table: aggregate_type, instance_id, id }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_something_and_nothing_after_what_does_not_fit() {
        let taken = |sizes: &[usize]| {
            let mut room = PageBudget::default();
            sizes.iter().map(|size| room.takes(*size)).collect::<Vec<_>>()
        };
        assert_eq!(taken(&[LARGEST_PAGE - 1, 1, 1]), [true, true, false]);
        assert_eq!(taken(&[LARGEST_PAGE + 1, 1]), [true, false], "the first always fits");
        assert_eq!(taken(&[2, LARGEST_PAGE, 1]), [true, false, false], "nothing is left out in between");
    }
}
