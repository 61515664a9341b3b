//! Instances: the tenants of the system, each with an issuer of its own.

use serde::{Deserialize, Serialize};

use crate::{
    field::Field,
    standard::{Resource, Unpatchable},
};

/// A tenant of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// The display name.
    pub name: String,
    /// The project of the platform's own API; tokens for the API carry its id as audience.
    pub platform_project_id: String,
}

impl Resource for Instance {
    const NAME: &'static str = "instance";
    const FIELDS: &'static [Field<Self>] =
        &[Field::text("name", |instance: &Self| instance.name.clone().into()).filterable()];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }
}
