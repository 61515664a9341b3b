//! Memberships as they are read.

use std::sync::Arc;

use domain::{field::Kind, permission::ROLES, resource::membership::Membership};
use proto::membership::{
    self, AvailableRole, GetMembership, GetMembershipRequest, GetMembershipResponse, ListAvailableRolesRequest,
    ListAvailableRolesResponse, MembershipFieldName, MembershipSearchFilter, SearchMembershipsRequest,
    SearchMembershipsResponse, membership_search_filter,
};
use store::{
    index::{Filter, Hits, Key, Method},
    projection::{ACCESS, MEMBERSHIPS_INDEX},
    rows::Found,
};
use transport::{details, edge::Call, error::Error, mount::Answer};

use crate::{Queries, search::List};

pub(super) async fn get(
    queries: Arc<Queries>,
    call: Call,
    request: GetMembershipRequest,
) -> Result<Answer<GetMembershipResponse>, Error> {
    let answer = |found| GetMembershipResponse { membership: Some(response(&found)) };
    queries.get::<Membership, _>(&call, &ACCESS, &request.id, answer).await
}

pub(super) async fn search(
    queries: Arc<Queries>,
    call: Call,
    request: SearchMembershipsRequest,
) -> Result<Answer<SearchMembershipsResponse>, Error> {
    let column = request.sorting_column();
    let list = List {
        query: request.query,
        key: key(column),
        filters: request.filters.into_iter().filter_map(filter).collect(),
    };
    let answer = |details, hits: Hits<Membership>| SearchMembershipsResponse {
        details: Some(details),
        sorting_column: column.into(),
        result: hits.page.iter().map(response).collect(),
    };
    queries.search(&call, &MEMBERSHIPS_INDEX, list, answer).await
}

pub(super) async fn roles(
    queries: Arc<Queries>,
    call: Call,
    ListAvailableRolesRequest { ctx: _ }: ListAvailableRolesRequest,
) -> Result<Answer<ListAvailableRolesResponse>, Error> {
    let held = ROLES.iter().filter(|role| role.level == call.context.kind);
    let roles = held.map(|role| AvailableRole {
        role: role.name.to_owned(),
        permissions: role.permissions.iter().map(|&permission| permission.to_owned()).collect(),
    });
    queries.constant(&call, ListAvailableRolesResponse { roles: roles.collect() }).await
}

fn key(column: MembershipFieldName) -> Key {
    match column {
        MembershipFieldName::Unspecified | MembershipFieldName::CreationDate => Key::Created,
        MembershipFieldName::Id => Key::Id,
        MembershipFieldName::ChangeDate => Key::Changed,
        MembershipFieldName::UserId => Key::Column("user_id", Kind::Text),
    }
}

fn filter(filter: MembershipSearchFilter) -> Option<Filter> {
    use membership_search_filter::Filter as Wanted;
    let text = |column, method, text| Filter::Text { column, method, ignores_case: false, text };
    Some(match filter.filter? {
        Wanted::UserId(id) => text("user_id", Method::Equals, id),
        // The column has a space before and behind each role, and no role has one.
        Wanted::Role(role) if role.contains(' ') => Filter::Ids(vec![]),
        Wanted::Role(role) => text("roles", Method::Contains, format!(" {role} ")),
        Wanted::InIds(ids) => Filter::Ids(ids.ids),
    })
}

fn response(found: &Found<Membership>) -> GetMembership {
    let Membership { user_id, context: _, roles } = found.state.clone();
    GetMembership { details: Some(details::of(found)), membership: Some(membership::Membership { user_id, roles }) }
}
