//! Projects: what tokens are for.

use serde::{Deserialize, Serialize};

use crate::{
    field::Field,
    standard::{Resource, Unpatchable},
};

/// A group of applications that share roles and an audience.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// The display name.
    pub name: String,
}

impl Resource for Project {
    const NAME: &'static str = "project";
    const FIELDS: &'static [Field<Self>] =
        &[Field::text("name", |project: &Self| project.name.clone().into()).filterable()];
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
