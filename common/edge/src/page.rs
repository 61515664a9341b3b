//! Limits of pages of lists.

/// How many results a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// If the request does not say.
    pub default: u32,
    /// At most.
    pub largest: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { default: 100, largest: 1000 }
    }
}
