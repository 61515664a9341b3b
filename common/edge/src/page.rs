//! Limits of pages of lists.

/// How many results a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number if the request has none.
    pub default: u32,
    /// The largest number.
    pub largest: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { default: 100, largest: 1000 }
    }
}
