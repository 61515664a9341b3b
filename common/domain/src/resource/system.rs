//! The system, of which there is one per log; it exists from the setup on.

use serde::{Deserialize, Serialize};

use crate::{column::Column, standard::Resource};

/// The id of the one system.
pub const ID: &str = "system";

/// The system above all instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// The instance that the setup created.
    pub first_instance_id: String,
    /// Whether the events of all aggregates have their references; those of the first versions did not.
    #[serde(default)]
    pub has_references: bool,
    /// Whether the events of all people have the contacts by which they are found; earlier versions did not write them.
    #[serde(default)]
    pub has_contacts: bool,
}

/// A partial update of a [`System`]: brings up to date what earlier versions wrote.
#[derive(Debug, Clone)]
pub struct SystemPatch;

impl Resource for System {
    const NAME: &'static str = "system";
    const COLUMNS: &'static [Column<Self>] = &[];
    type Patch = SystemPatch;

    fn patched(self, _: SystemPatch) -> Self {
        Self { has_references: true, has_contacts: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_patches;

    #[test]
    fn that_of_an_older_build_has_no_references_until_that_is_said() {
        let old: System = serde_json::from_str(r#"{ "first_instance_id": "1" }"#).unwrap();
        assert!(!old.has_references && !old.has_contacts);
        let changes = serde_json::json!({ "has_references": true, "has_contacts": true });
        assert_patches(&old, vec![(SystemPatch, changes)], &["first_instance_id"]);
    }
}
