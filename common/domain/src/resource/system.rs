//! The system: there is one per log, and it exists from the setup on.

use serde::{Deserialize, Serialize};

use crate::{
    column::Column,
    standard::{Resource, Unpatchable},
};

/// The id of the one system.
pub const ID: &str = "system";

/// Everything above the instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// The instance that the setup created.
    pub first_instance_id: String,
}

impl Resource for System {
    const NAME: &'static str = "system";
    const COLUMNS: &'static [Column<Self>] = &[];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }
}
