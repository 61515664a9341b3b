//! Users. So far only service users: programs that act in their own name.

use serde::{Deserialize, Serialize};

use crate::{
    claim::Claim,
    field::{Field, Lookup},
    standard::{Resource, Unpatchable},
};

/// Somebody or something that can hold roles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The name that a service user authenticates with as `client_id`; unique in its instance, case not counting.
    pub username: String,
    /// The keyed hash of the client secret, base64url; `None` while there is none.
    pub secret: Option<String>,
    /// Whether the user may do anything at all.
    pub is_active: bool,
}

impl Resource for User {
    const NAME: &'static str = "user";
    const FIELDS: &'static [Field<Self>] = &[
        Field::text("username", |user: &Self| user.username.clone().into()).filterable().looked_up(Lookup::Instance),
        Field::bool("is_active", |user: &Self| user.is_active.into()),
    ];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::folded("username", &self.username)]
    }
}
