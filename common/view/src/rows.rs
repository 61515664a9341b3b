//! Rows of resources as they were read.

use domain::context::Owner;
use jiff::Timestamp;

/// An answer of a read model and how fresh it is, both from one snapshot.
#[derive(Debug)]
pub struct Fresh<T> {
    /// The sequence that the read model had processed.
    pub processed: u64,
    /// When the event of that sequence was committed.
    pub timestamp: Timestamp,
    /// What was asked for.
    pub answer: T,
}

/// A resource as the read model has it.
#[derive(Debug, Clone)]
pub struct Found<R> {
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
    pub found: Found<R>,
}
