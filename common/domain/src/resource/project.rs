//! Projects: what tokens are for.

use serde::{Deserialize, Serialize};

use crate::{
    column::Column,
    projection::{ACCESS, Name},
    standard::{Resource, Unpatchable},
};

/// A group of applications that share roles and an audience.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// The display name.
    pub name: String,
}

/// The columns of the read model.
pub mod column {
    use super::Project;
    use crate::column::Column;

    /// The display name.
    pub const NAME: Column<Project> = Column::text("name", |project: &Project| project.name.clone()).filterable();
}

impl Resource for Project {
    const NAME: &'static str = "project";
    const COLUMNS: &'static [Column<Self>] = &[column::NAME];
    const ROWS: Option<Name> = Some(ACCESS);
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_columns;

    #[test]
    fn each_member_has_its_column() {
        assert_columns(&Project { name: "a".into() }, &serde_json::json!({ "name": "a" }));
    }
}
