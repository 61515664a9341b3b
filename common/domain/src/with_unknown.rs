//! States that travel between versions: a build retains the members that it does not know.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// A state with the members that this build does not know. A newer build wrote them; they are written back unchanged,
/// so that a change by an older node loses nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WithUnknown<T> {
    /// The members that this build knows.
    #[serde(flatten)]
    pub known: T,
    /// The other members, by name.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl<T> WithUnknown<T> {
    /// Changes the known members, and retains the others.
    pub fn map(self, change: impl FnOnce(T) -> T) -> Self {
        Self { known: change(self.known), unknown: self.unknown }
    }
}

/// All members, before the unknown ones are separated.
#[derive(Deserialize)]
struct Members<T> {
    #[serde(flatten)]
    known: T,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl<'de, T: Serialize + Deserialize<'de>> Deserialize<'de> for WithUnknown<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Members { known, rest: mut unknown } = Members::<T>::deserialize(deserializer)?;
        // A state that has secrets is flattened itself, and then removes nothing from the rest.
        if !unknown.is_empty()
            && let Ok(Value::Object(members)) = serde_json::to_value(&known)
        {
            unknown.retain(|name, _| !members.contains_key(name));
        }
        Ok(Self { known, unknown })
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
