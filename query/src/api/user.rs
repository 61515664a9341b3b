//! Users as they are read. Nothing of their secrets is.

use std::sync::Arc;

use domain::{field::Kind, resource::user::User};
use proto::user::{
    self, GetUser, GetUserRequest, GetUserResponse, SearchUsersRequest, SearchUsersResponse, ServiceUser,
    UserFieldName, UserSearchFilter, user::Type, user_search_filter,
};
use store::{
    index::{Filter, Hits, Key},
    projection::{ACCESS, USERS_INDEX},
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
    request: GetUserRequest,
) -> Result<Answer<GetUserResponse>, Error> {
    let answer = |found| GetUserResponse { user: Some(response(&found)) };
    queries.get::<User, _>(&call, &ACCESS, &request.id, answer).await
}

pub(super) async fn search(
    queries: Arc<Queries>,
    call: Call,
    request: SearchUsersRequest,
) -> Result<Answer<SearchUsersResponse>, Error> {
    let column = request.sorting_column();
    let list = List {
        query: request.query,
        key: key(column),
        filters: request.filters.into_iter().filter_map(filter).collect(),
    };
    let answer = |details, hits: Hits<User>| SearchUsersResponse {
        details: Some(details),
        sorting_column: column.into(),
        result: hits.page.iter().map(response).collect(),
    };
    queries.search(&call, &USERS_INDEX, list, answer).await
}

fn key(column: UserFieldName) -> Key {
    match column {
        UserFieldName::Unspecified | UserFieldName::CreationDate => Key::Created,
        UserFieldName::Id => Key::Id,
        UserFieldName::ChangeDate => Key::Changed,
        UserFieldName::Username => Key::Column("username", Kind::Text),
        UserFieldName::Name => Key::Column("name", Kind::Text),
        UserFieldName::State => Key::Column("is_active", Kind::Bool),
    }
}

fn filter(filter: UserSearchFilter) -> Option<Filter> {
    use user_search_filter::Filter as Wanted;
    Some(match filter.filter? {
        Wanted::Username(name) => named("username", name),
        Wanted::Name(name) => named("name", name),
        Wanted::InIds(ids) => Filter::Ids(ids.ids),
        Wanted::State(wanted) => in_state(wanted.state()),
    })
}

fn response(found: &Found<User>) -> GetUser {
    let User { username, name, description, secret, previous: _, is_active } = found.state.clone();
    GetUser {
        details: Some(details::of(found)),
        user: Some(user::User { username, r#type: Some(Type::Service(ServiceUser { name, description })) }),
        state: state(is_active).into(),
        has_secret: secret.is_some(),
    }
}
