//! Instances as they are read.

use std::{sync::Arc, time::Duration};

use domain::{field::Kind, resource::instance::Instance};
use proto::instance::{
    GetInstance, GetInstanceRequest, GetInstanceResponse, InstanceFieldName, InstanceSearchFilter, Limits,
    SearchInstancesRequest, SearchInstancesResponse, instance_search_filter,
};
use store::{
    index::{Filter, Hits, Key},
    projection::{ACCESS, INSTANCES_INDEX},
    rows::Found,
};
use transport::{details, edge::Call, error::Error, mount::Answer};

use crate::{
    Queries,
    search::{List, in_state, named, state},
};

pub(super) async fn get(
    queries: Arc<Queries>,
    call: Call,
    request: GetInstanceRequest,
) -> Result<Answer<GetInstanceResponse>, Error> {
    let answer = |found| GetInstanceResponse { instance: Some(response(&found)) };
    queries.get::<Instance, _>(&call, &ACCESS, &request.id, answer).await
}

pub(super) async fn search(
    queries: Arc<Queries>,
    call: Call,
    request: SearchInstancesRequest,
) -> Result<Answer<SearchInstancesResponse>, Error> {
    let column = request.sorting_column();
    let list = List {
        query: request.query,
        key: key(column),
        filters: request.filters.into_iter().filter_map(filter).collect(),
    };
    let answer = |details, hits: Hits<Instance>| SearchInstancesResponse {
        details: Some(details),
        sorting_column: column.into(),
        result: hits.page.iter().map(response).collect(),
    };
    queries.search(&call, &INSTANCES_INDEX, list, answer).await
}

fn key(column: InstanceFieldName) -> Key {
    match column {
        InstanceFieldName::Unspecified | InstanceFieldName::CreationDate => Key::Created,
        InstanceFieldName::Id => Key::Id,
        InstanceFieldName::ChangeDate => Key::Changed,
        InstanceFieldName::Name => Key::Column("name", Kind::Text),
        InstanceFieldName::State => Key::Column("is_active", Kind::Bool),
    }
}

fn filter(filter: InstanceSearchFilter) -> Option<Filter> {
    use instance_search_filter::Filter as Wanted;
    Some(match filter.filter? {
        Wanted::Name(name) => named("name", name),
        Wanted::InIds(ids) => Filter::Ids(ids.ids),
        Wanted::State(wanted) => in_state(wanted.state()),
    })
}

fn response(found: &Found<Instance>) -> GetInstance {
    let Instance { name, platform_project_id: _, default_organization_id: _, is_active, limits } = found.state.clone();
    let retention = limits.audit_log_retention_s.map(Duration::from_secs);
    GetInstance {
        details: Some(details::of(found)),
        name,
        state: state(is_active).into(),
        limits: Some(Limits {
            block: limits.block,
            audit_log_retention: retention.and_then(|retention| retention.try_into().ok()),
        }),
    }
}
