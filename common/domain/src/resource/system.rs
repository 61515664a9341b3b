//! The system: there is one per log, and it exists from the setup on.

use serde::{Deserialize, Serialize};

use crate::{column::Column, standard::Resource};

/// The id of the one system.
pub const ID: &str = "system";

/// Everything above the instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// The instance that the setup created.
    pub first_instance_id: String,
    /// Whether the events of all aggregates say which others they name; those of the first versions did not.
    #[serde(default)]
    pub has_references: bool,
    /// Whether those of all people say by which addresses they are found, which began later.
    #[serde(default)]
    pub has_contacts: bool,
}

/// A partial update of a [`System`]: what earlier versions wrote is brought up to date.
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
