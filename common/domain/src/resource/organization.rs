//! Organizations: the tenants within an instance.

use serde::{Deserialize, Serialize};

use super::active;
use crate::{claim::Claim, column::Column, context::Owner, standard::Resource};

/// A tenant within an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// The name, unique in its instance with case not counting.
    pub name: String,
    /// Whether its users may do anything at all.
    #[serde(default = "active")]
    pub is_active: bool,
    /// The name of its primary domain, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_domain: Option<String>,
}

/// A partial update of an [`Organization`].
#[derive(Debug, Clone, Default)]
pub struct OrganizationPatch {
    /// See [`Organization::name`].
    pub name: Option<String>,
    /// See [`Organization::primary_domain`].
    pub primary_domain: Option<Option<String>>,
}

impl Organization {
    /// One that is switched on and has no domain.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_active: true, primary_domain: None }
    }
}

/// The columns of the read model.
pub mod column {
    use super::Organization;
    use crate::column::Column;

    /// The display name.
    pub const NAME: Column<Organization> =
        Column::text("name", |organization: &Organization| organization.name.clone()).filterable();
    /// Whether it is switched on.
    pub const IS_ACTIVE: Column<Organization> =
        Column::bool("is_active", |organization: &Organization| organization.is_active).filterable();
}

impl Resource for Organization {
    const NAME: &'static str = "organization";
    const COLUMNS: &'static [Column<Self>] = &[column::NAME, column::IS_ACTIVE];
    type Patch = OrganizationPatch;

    fn patched(self, patch: OrganizationPatch) -> Self {
        Self {
            name: patch.name.unwrap_or(self.name),
            primary_domain: patch.primary_domain.unwrap_or(self.primary_domain),
            ..self
        }
    }

    fn context(id: &str, _: &Owner) -> Owner {
        Owner::organization(id)
    }

    fn activity(&mut self) -> Option<&mut bool> {
        Some(&mut self.is_active)
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::folded("organization_name", &self.name)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rejection::Rejection,
        standard::{Command, Event, Standard},
        testing::given,
    };

    fn acme(is_active: bool) -> Organization {
        Organization { is_active, ..Organization::new("Acme") }
    }

    #[test]
    fn an_organization_of_an_older_build_is_active() {
        let old: Organization = serde_json::from_str(r#"{ "name": "Acme" }"#).unwrap();
        assert_eq!(old, acme(true));
    }

    #[test]
    fn it_is_switched_off_once() {
        let off = Event::Changed { to: acme(false).into(), fields: vec!["is_active".into()] };
        given::<Standard<Organization>>([Event::Added(acme(true).into())])
            .when(Command::Switch(false))
            .then([off.clone()]);
        given::<Standard<Organization>>([Event::Added(acme(true).into()), off])
            .when(Command::Switch(false))
            .then_rejected(&Rejection::Precondition("it is inactive already"));
    }
}
