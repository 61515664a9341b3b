//! The record that is being filled.

use domain::log_class::LogClass;
use eventlog::record::{Answer, Event};

/// The record being filled.
#[derive(Default)]
pub(crate) struct Draft {
    /// The log that it is for.
    pub(crate) class: LogClass,
    /// Its events.
    pub(crate) events: Vec<Event>,
    /// Its answers to idempotent commands.
    pub(crate) answers: Vec<Answer>,
    /// The stream sequence up to which it permits a purge of its log; 0 if it permits nothing new.
    pub(crate) purged_to: u64,
    /// Its approximate size in bytes.
    pub(crate) bytes: usize,
}

impl Draft {
    /// Whether there is nothing to commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.answers.is_empty() && self.purged_to == 0
    }
}
