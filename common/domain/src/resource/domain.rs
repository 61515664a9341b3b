//! Domains: the hosts under which an instance answers.

use serde::{Deserialize, Serialize};

use crate::{
    claim::Claim,
    field::{Field, Lookup},
    standard::{Resource, Unpatchable},
};

/// A host name, without port, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// The host name or the literal address.
    pub name: String,
    /// Whether the instance's issuer is made of it.
    pub is_primary: bool,
}

impl Resource for Domain {
    const NAME: &'static str = "domain";
    const FIELDS: &'static [Field<Self>] = &[
        Field::text("name", |domain: &Self| domain.name.clone().into()).filterable().looked_up(Lookup::System),
        Field::bool("is_primary", |domain: &Self| domain.is_primary.into()),
    ];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::system("instance_domain", &self.name)]
    }
}
