//! Organizations: the tenants within an instance.

use serde::{Deserialize, Serialize};

use crate::{
    claim::Claim,
    field::Field,
    standard::{Resource, Unpatchable},
};

/// A tenant within an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// The name, unique in its instance with case not counting.
    pub name: String,
}

impl Resource for Organization {
    const NAME: &'static str = "organization";
    const FIELDS: &'static [Field<Self>] =
        &[Field::text("name", |organization: &Self| organization.name.clone().into()).filterable()];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::folded("organization_name", &self.name)]
    }
}
