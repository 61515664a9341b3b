//! What is taken out of executions when it is removed.

/// Takes something out of an execution that is no longer there.
#[derive(Debug, Clone)]
pub enum Without {
    /// A target.
    Target(String),
    /// An included execution.
    Include(String),
}
