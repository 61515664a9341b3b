//! Converts instances between the API and the core.

use std::time::Duration;

use domain::resource::instance::{Instance, InstancePatch, column};
use index::{Filter, SortKey};
use proto::instance::{
    GetInstance, GetInstanceRequest, InstanceFieldName, Limits, PatchInstanceRequest, SearchInstancesRequest,
    SetLimits, instance_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{
    details,
    filter::{in_state, named, state},
    standard::{PatchRequest, Readable},
};

impl Readable for Instance {
    type Get = GetInstanceRequest;
    type Search = SearchInstancesRequest;

    fn key(column: InstanceFieldName) -> SortKey<Self> {
        match column {
            InstanceFieldName::Unspecified | InstanceFieldName::CreationDate => SortKey::Created,
            InstanceFieldName::Id => SortKey::Id,
            InstanceFieldName::ChangeDate => SortKey::Changed,
            InstanceFieldName::Name => SortKey::Column(&column::NAME),
            InstanceFieldName::State => SortKey::Column(&column::IS_ACTIVE),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::Name(name) => named(&column::NAME, name),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetInstance {
        let Self { name, platform_project_id: _, default_organization_id: _, is_active, primary_domain, limits } =
            found.state.clone();
        let retention = limits.audit_log_retention_s.map(Duration::from_secs);
        GetInstance {
            details: Some(details::of(found)),
            name,
            state: state(is_active).into(),
            primary_domain: primary_domain.unwrap_or_default(),
            limits: Some(Limits {
                block: limits.block,
                audit_log_retention: retention.and_then(|retention| retention.try_into().ok()),
            }),
        }
    }
}

impl PatchRequest for PatchInstanceRequest {
    type Resource = Instance;

    fn patch(&self) -> InstancePatch {
        let name = self.instance.as_ref().and_then(|wanted| wanted.name.clone());
        InstancePatch { name, ..InstancePatch::default() }
    }
}

/// Converts the limits of an instance. A retention of zero removes that limit.
pub fn limits(wanted: SetLimits) -> InstancePatch {
    let seconds = |duration: Duration| (!duration.is_zero()).then_some(duration.as_secs().max(1));
    let retention = wanted.audit_log_retention.and_then(|duration| Duration::try_from(duration).ok());
    InstancePatch { block: wanted.block, audit_log_retention_s: retention.map(seconds), ..InstancePatch::default() }
}
