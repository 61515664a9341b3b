//! How much of a list is answered.

/// How many results there are where the caller does not say.
pub const DEFAULT_LIMIT: u32 = 100;
/// How many there are at most.
pub const LARGEST_LIMIT: u32 = 1000;
