//! Memberships: which roles a user holds in which context.

use serde::{Deserialize, Serialize};

use crate::{
    claim::Claim,
    context::{Owner, OwnerType},
    field::{Field, Lookup},
    standard::{Resource, Unpatchable},
};

/// The roles of one user in one context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The user.
    pub user_id: String,
    /// Where the roles hold, and below.
    pub context: Owner,
    /// The names of the roles.
    pub roles: Vec<String>,
}

impl Membership {
    /// The value that makes context and user unique, and by which a membership is found.
    pub fn claim(context: &Owner, user_id: &str) -> Claim {
        let level = match context.kind {
            OwnerType::System => "system",
            OwnerType::Instance => "instance",
            OwnerType::Organization => "organization",
        };
        Claim::instance("membership", format!("{level}/{}/{user_id}", context.id))
    }
}

impl Resource for Membership {
    const NAME: &'static str = "membership";
    const FIELDS: &'static [Field<Self>] =
        &[Field::text("user_id", |membership: &Self| membership.user_id.clone().into())
            .filterable()
            .looked_up(Lookup::Instance)];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Self::claim(&self.context, &self.user_id)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_of_the_same_id_do_not_clash() {
        assert_ne!(Membership::claim(&Owner::instance("1"), "2"), Membership::claim(&Owner::organization("1"), "2"));
    }
}
