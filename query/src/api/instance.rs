//! Instances as they are read.

use std::time::Duration;

use api::details;
use domain::resource::instance::{Instance, column};
use index::{Filter, Key};
use proto::instance::{
    GetInstance, GetInstanceRequest, InstanceFieldName, Limits, SearchInstancesRequest,
    instance_search_filter::Filter as Wanted,
};
use view::{
    projection::{ACCESS, INSTANCES_INDEX, Projection},
    rows::Found,
};

use crate::{
    search::{in_state, named, state},
    standard::Shown,
};

impl Shown for Instance {
    type Get = GetInstanceRequest;
    type Search = SearchInstancesRequest;
    const TABLE: &'static Projection = &ACCESS;
    const INDEX: &'static Projection = &INSTANCES_INDEX;

    fn key(column: InstanceFieldName) -> Key {
        match column {
            InstanceFieldName::Unspecified | InstanceFieldName::CreationDate => Key::Created,
            InstanceFieldName::Id => Key::Id,
            InstanceFieldName::ChangeDate => Key::Changed,
            InstanceFieldName::Name => Key::by(&column::NAME),
            InstanceFieldName::State => Key::by(&column::IS_ACTIVE),
        }
    }

    fn filter(wanted: Wanted) -> Filter {
        match wanted {
            Wanted::Name(name) => named(&column::NAME, name),
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
            Wanted::State(wanted) => in_state(&column::IS_ACTIVE, wanted.state()),
        }
    }

    fn shown(found: &Found<Self>) -> GetInstance {
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
