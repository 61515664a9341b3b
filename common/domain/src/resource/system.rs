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
}

/// A partial update of a [`System`].
#[derive(Debug, Clone)]
pub struct SystemPatch {
    /// See [`System::has_references`].
    pub has_references: bool,
}

impl Resource for System {
    const NAME: &'static str = "system";
    const COLUMNS: &'static [Column<Self>] = &[];
    type Patch = SystemPatch;

    fn patched(self, SystemPatch { has_references }: SystemPatch) -> Self {
        Self { has_references, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_patches;

    #[test]
    fn that_of_an_older_build_has_no_references_until_that_is_said() {
        let old: System = serde_json::from_str(r#"{ "first_instance_id": "1" }"#).unwrap();
        assert!(!old.has_references);
        let changes = serde_json::json!({ "has_references": true });
        assert_patches(&old, vec![(SystemPatch { has_references: true }, changes)], &["first_instance_id"]);
    }
}
