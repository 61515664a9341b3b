//! Instances: the tenants of the system, each with an issuer of its own.

use serde::{Deserialize, Serialize};

use super::active;
use crate::{
    column::Column,
    context::{Owner, OwnerType},
    permission::{Permissions, STANDARD},
    projection::{ACCESS, Name},
    standard::{Resource, States},
};

/// A tenant of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// The display name.
    pub name: String,
    /// The project of the platform's own API; tokens for the API carry its id as audience.
    pub platform_project_id: String,
    /// The organization of users who name none.
    #[serde(default)]
    pub default_organization_id: Option<String>,
    /// Whether the instance is switched on; nobody may do anything in it while it is off.
    #[serde(default = "active")]
    pub is_active: bool,
    /// The host that its issuer is derived from; `None` if an older build wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_domain: Option<String>,
    /// The limits on its use of the platform.
    #[serde(default)]
    pub limits: Limits,
}

/// The limits on an instance's use of the platform.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Whether its requests are refused.
    pub block: bool,
    /// How long the audit log shows events, in seconds; for ever if `None`.
    pub audit_log_retention_s: Option<u64>,
}

/// A partial update of an [`Instance`].
#[derive(Debug, Clone, Default)]
pub struct InstancePatch {
    /// See [`Instance::name`].
    pub name: Option<String>,
    /// See [`Instance::default_organization_id`].
    pub default_organization_id: Option<String>,
    /// See [`Instance::primary_domain`].
    pub primary_domain: Option<String>,
    /// See [`Limits::block`].
    pub block: Option<bool>,
    /// See [`Limits::audit_log_retention_s`].
    pub audit_log_retention_s: Option<Option<u64>>,
}

impl Instance {
    /// Creates an instance that is switched on and has no limits.
    pub fn new(name: &str, platform_project_id: &str) -> Self {
        Self {
            name: name.to_owned(),
            platform_project_id: platform_project_id.to_owned(),
            default_organization_id: None,
            is_active: true,
            primary_domain: None,
            limits: Limits::default(),
        }
    }
}

/// The columns of the read model.
pub mod column {
    use super::Instance;
    use crate::column::Column;

    /// The display name.
    pub const NAME: Column<Instance> = Column::text("name", |instance: &Instance| instance.name.clone()).filterable();
    /// Whether it is switched on.
    pub const IS_ACTIVE: Column<Instance> =
        Column::bool("is_active", |instance: &Instance| instance.is_active).filterable();
}

impl Resource for Instance {
    const NAME: &'static str = "instance";
    const COLUMNS: &'static [Column<Self>] = &[column::NAME, column::IS_ACTIVE];
    const ROWS: Option<Name> = Some(ACCESS);
    const INDEX: Option<Name> = Some(Name::first("instances_index"));
    const STATES: States = States::Switched;
    const PERMISSIONS: &'static [Permissions] = &[
        Permissions::new("system.instance", STANDARD).at(&[OwnerType::System]),
        Permissions::new("system.limits", &["write"]).at(&[OwnerType::System]),
        Permissions::new("iam", &["write"]).at(&[OwnerType::Instance]),
    ];
    type Patch = InstancePatch;

    fn patched(self, patch: InstancePatch) -> Self {
        Self {
            name: patch.name.unwrap_or(self.name),
            default_organization_id: patch.default_organization_id.or(self.default_organization_id),
            primary_domain: patch.primary_domain.or(self.primary_domain),
            limits: Limits {
                block: patch.block.unwrap_or(self.limits.block),
                audit_log_retention_s: patch.audit_log_retention_s.unwrap_or(self.limits.audit_log_retention_s),
            },
            ..self
        }
    }

    fn context(id: &str, _: &Owner) -> Owner {
        Owner::instance(id)
    }

    fn activity(&mut self) -> Option<&mut bool> {
        Some(&mut self.is_active)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{assert_columns, assert_patches, assert_switches};

    fn tenant() -> Instance {
        Instance {
            default_organization_id: Some("2".into()),
            primary_domain: Some("a.example".into()),
            limits: Limits { block: false, audit_log_retention_s: Some(60) },
            ..Instance::new("tenant", "1")
        }
    }

    #[test]
    fn each_member_has_its_column_and_its_patch() {
        assert_columns(&tenant(), &json!({ "name": "tenant", "is_active": true }));
        let patch = InstancePatch::default;
        let limits = |block, audit_log_retention_s| json!({ "limits": Limits { block, audit_log_retention_s } });
        let patches = vec![
            (InstancePatch { name: Some("b".into()), ..patch() }, json!({ "name": "b" })),
            (
                InstancePatch { default_organization_id: Some("3".into()), ..patch() },
                json!({ "default_organization_id": "3" }),
            ),
            (
                InstancePatch { primary_domain: Some("b.example".into()), ..patch() },
                json!({ "primary_domain": "b.example" }),
            ),
            (InstancePatch { block: Some(true), ..patch() }, limits(true, Some(60))),
            (InstancePatch { audit_log_retention_s: Some(Some(90)), ..patch() }, limits(false, Some(90))),
            (InstancePatch { audit_log_retention_s: Some(None), ..patch() }, limits(false, None)),
        ];
        assert_patches(&tenant(), patches, &["is_active", "platform_project_id"]);
        assert_switches(&tenant());
    }

    #[test]
    fn an_instance_of_an_older_build_is_active_and_has_no_limits() {
        let old: Instance = serde_json::from_str(r#"{ "name": "a", "platform_project_id": "1" }"#).unwrap();
        assert_eq!(old, Instance::new("a", "1"));
        let limits = Limits { block: false, audit_log_retention_s: None };
        assert!(old.is_active && old.limits == limits);
    }

    #[test]
    fn an_instance_is_a_context_itself() {
        assert_eq!(Instance::context("1", &Owner::system()), Owner::instance("1"));
        assert_eq!(tenant().claims(), []);
    }
}
