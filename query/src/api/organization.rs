//! Organizations as they are read.

use std::sync::Arc;

use domain::{
    field::Kind,
    rejection::Rejection,
    resource::{instance::Instance, organization::Organization},
};
use proto::organization::{
    self, GetInstanceDefaultRequest, GetInstanceDefaultResponse, GetOrganization, GetOrganizationRequest,
    GetOrganizationResponse, OrganizationFieldName, OrganizationSearchFilter, SearchOrganizationsRequest,
    SearchOrganizationsResponse, organization_search_filter,
};
use store::{
    index::{Filter, Hits, Key},
    projection::{ACCESS, ORGANIZATIONS_INDEX},
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
    request: GetOrganizationRequest,
) -> Result<Answer<GetOrganizationResponse>, Error> {
    let answer = |found| GetOrganizationResponse { organization: Some(response(&found)) };
    queries.get::<Organization, _>(&call, &ACCESS, &request.id, answer).await
}

pub(super) async fn instance_default(
    queries: Arc<Queries>,
    call: Call,
    GetInstanceDefaultRequest { ctx: _ }: GetInstanceDefaultRequest,
) -> Result<Answer<GetInstanceDefaultResponse>, Error> {
    let instance = queries.fresh::<Instance>(&call, &ACCESS, &call.tenant.id).await?.answer;
    let id =
        instance.and_then(|found| found.state.default_organization_id).ok_or(Rejection::NotFound("organization"))?;
    let answer = |found| GetInstanceDefaultResponse { organization: Some(response(&found)) };
    queries.get::<Organization, _>(&call, &ACCESS, &id, answer).await
}

pub(super) async fn search(
    queries: Arc<Queries>,
    call: Call,
    request: SearchOrganizationsRequest,
) -> Result<Answer<SearchOrganizationsResponse>, Error> {
    let column = request.sorting_column();
    let list = List {
        query: request.query,
        key: key(column),
        filters: request.filters.into_iter().filter_map(filter).collect(),
    };
    let answer = |details, hits: Hits<Organization>| SearchOrganizationsResponse {
        details: Some(details),
        sorting_column: column.into(),
        result: hits.page.iter().map(response).collect(),
    };
    queries.search(&call, &ORGANIZATIONS_INDEX, list, answer).await
}

fn key(column: OrganizationFieldName) -> Key {
    match column {
        OrganizationFieldName::Unspecified | OrganizationFieldName::CreationDate => Key::Created,
        OrganizationFieldName::Id => Key::Id,
        OrganizationFieldName::ChangeDate => Key::Changed,
        OrganizationFieldName::Name => Key::Column("name", Kind::Text),
        OrganizationFieldName::State => Key::Column("is_active", Kind::Bool),
    }
}

fn filter(filter: OrganizationSearchFilter) -> Option<Filter> {
    use organization_search_filter::Filter as Wanted;
    Some(match filter.filter? {
        Wanted::Name(name) => named("name", name),
        Wanted::InIds(ids) => Filter::Ids(ids.ids),
        Wanted::State(wanted) => in_state(wanted.state()),
    })
}

fn response(found: &Found<Organization>) -> GetOrganization {
    let Organization { name, is_active } = found.state.clone();
    GetOrganization {
        details: Some(details::of(found)),
        organization: Some(organization::Organization { name }),
        state: state(is_active).into(),
    }
}
