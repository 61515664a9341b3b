//! States that travel between versions: what a build does not know of them, it keeps.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A state with the members that this build does not know. A newer build wrote them; they are written back as they are,
/// so that a change by an older node loses nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WithUnknown<T> {
    /// What is known.
    #[serde(flatten)]
    pub known: T,
    /// The other members, by name.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl<T> WithUnknown<T> {
    /// The state after a change of what is known.
    pub fn map(self, change: impl FnOnce(T) -> T) -> Self {
        Self { known: change(self.known), unknown: self.unknown }
    }
}

impl<T> From<T> for WithUnknown<T> {
    fn from(known: T) -> Self {
        Self { known, unknown: Map::new() }
    }
}

impl<T> Deref for WithUnknown<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.known
    }
}
