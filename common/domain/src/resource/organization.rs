//! Organizations: the tenants within an instance.

use serde::{Deserialize, Serialize};

use super::active;
use crate::{
    claim::Claim,
    column::Column,
    context::{Owner, OwnerType},
    permission::{CREATE, Permissions, STANDARD},
    projection::{ACCESS, Name},
    standard::{Resource, States},
};

/// A tenant within an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// The name, unique in its instance ignoring case.
    pub name: String,
    /// Whether the organization is switched on; its users may do nothing while it is off.
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
    /// Creates an organization that is switched on and has no domain.
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
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("organizations_index"));
    const STATES: States = States::Switched;
    const PERMISSIONS: &'static [Permissions] = &[
        Permissions::new("org", STANDARD),
        Permissions::new("org", &[CREATE]).at(&[OwnerType::System, OwnerType::Instance]),
    ];
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
    use serde_json::json;

    use super::*;
    use crate::testing::{assert_columns, assert_patches, assert_switches};

    fn acme(is_active: bool) -> Organization {
        Organization { is_active, ..Organization::new("Acme") }
    }

    #[test]
    fn an_organization_of_an_older_build_is_active() {
        let old: Organization = serde_json::from_str(r#"{ "name": "Acme" }"#).unwrap();
        assert_eq!(old, acme(true));
    }

    #[test]
    fn each_member_has_its_column_and_its_patch() {
        let acme = Organization { primary_domain: Some("acme.example".into()), ..acme(true) };
        assert_columns(&acme, &json!({ "name": "Acme", "is_active": true }));
        let patch = OrganizationPatch::default;
        let domain = |name: &str| Some(Some(name.to_owned()));
        let patches = vec![
            (OrganizationPatch { name: Some("B".into()), ..patch() }, json!({ "name": "B" })),
            (
                OrganizationPatch { primary_domain: domain("b.example"), ..patch() },
                json!({ "primary_domain": "b.example" }),
            ),
            (OrganizationPatch { primary_domain: Some(None), ..patch() }, json!({ "primary_domain": null })),
        ];
        assert_patches(&acme, patches, &["is_active"]);
        assert_switches(&acme);
    }

    #[test]
    fn its_name_is_unique_and_it_is_a_context_itself() {
        assert_eq!(acme(true).claims(), [Claim::folded("organization_name", "Acme")]);
        assert_eq!(Organization::context("2", &Owner::instance("1")), Owner::organization("2"));
    }
}
