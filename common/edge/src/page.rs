//! How much of a list is answered.

/// How many results an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Where the caller does not say.
    pub default: u32,
    /// At most.
    pub largest: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { default: 100, largest: 1000 }
    }
}
