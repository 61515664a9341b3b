//! The rows of personal access tokens.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    object::{InIdsFilter, ListQuery},
    operation::{
        CREATE_PERSONAL_ACCESS_TOKEN, DELETE_PERSONAL_ACCESS_TOKEN, GET_PERSONAL_ACCESS_TOKEN,
        SEARCH_PERSONAL_ACCESS_TOKENS,
    },
    token::{
        CreatePersonalAccessTokenRequest, DeletePersonalAccessTokenRequest, GetPersonalAccessTokenRequest,
        PersonalAccessToken, PersonalAccessTokenFieldName, PersonalAccessTokenSearchFilter,
        SearchPersonalAccessTokensRequest, personal_access_token_search_filter::Filter,
    },
    wellknown::Timestamp,
};
use serde_json::json;

use super::{
    posted,
    row::{Check, Subject, row},
    subject,
    user::a_user,
    wire::World,
};

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create(),
        row(&DELETE_PERSONAL_ACCESS_TOKEN, a_token)
            .good("a token", |it| DeletePersonalAccessTokenRequest { id: it.id.clone(), user_id: of(it) })
            .bad("of another user", "RESOURCE_NOT_FOUND", |it| DeletePersonalAccessTokenRequest {
                id: it.id.clone(),
                user_id: it.others[1].clone(),
            })
            .done(),
        row(&GET_PERSONAL_ACCESS_TOKEN, a_token)
            .good("a token", |it| GetPersonalAccessTokenRequest { id: it.id.clone(), user_id: of(it) })
            .done(),
        search(),
    ]
}

/// Returns the user of the token.
fn of(subject: &Subject) -> String {
    subject.others[0].clone()
}

/// Creates a token of the first of two users.
fn a_token(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let (user, other) = (a_user(world).await.id, a_user(world).await.id);
        let wanted = json!({ "expirationDate": "2099-01-01T00:00:00Z" });
        let made = posted(world, &format!("/resources/v3alpha/users/{user}/tokens"), &wanted).await;
        subject(&made).naming([user, other])
    }
    .boxed()
}

fn create_request(subject: &Subject, seconds: i64) -> CreatePersonalAccessTokenRequest {
    let token = PersonalAccessToken { expiration_date: Some(Timestamp { seconds, nanos: 0 }) };
    CreatePersonalAccessTokenRequest { user_id: subject.id.clone(), token: Some(token) }
}

/// The last day of the year 2098.
const FAR: i64 = 4_070_822_400;

fn create() -> Box<dyn Check + Sync> {
    row(&CREATE_PERSONAL_ACCESS_TOKEN, a_user)
        .good("a token", |it| create_request(it, FAR))
        .bad("nothing", "INVALID_REQUEST", |it| CreatePersonalAccessTokenRequest {
            token: None,
            ..create_request(it, FAR)
        })
        .bad("no end", "INVALID_REQUEST", |it| CreatePersonalAccessTokenRequest {
            token: Some(PersonalAccessToken::default()),
            ..create_request(it, FAR)
        })
        .bad("what has expired", "INVALID_REQUEST", |it| create_request(it, 1))
        .bad("nobody", "RESOURCE_NOT_FOUND", |it| CreatePersonalAccessTokenRequest {
            user_id: "1".into(),
            ..create_request(it, FAR)
        })
        .done()
}

fn search_request(subject: &Subject, filters: Vec<Filter>) -> SearchPersonalAccessTokensRequest {
    let filters = filters.into_iter().map(|filter| PersonalAccessTokenSearchFilter { filter: Some(filter) }).collect();
    SearchPersonalAccessTokensRequest { user_id: of(subject), filters, ..SearchPersonalAccessTokensRequest::default() }
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_PERSONAL_ACCESS_TOKENS, a_token)
        .good("by id", |it| search_request(it, vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("all of a user", |it| search_request(it, vec![]))
        .good("a page in another order", |it| SearchPersonalAccessTokensRequest {
            query: Some(ListQuery { offset: 0, limit: 2, asc: true }),
            sorting_column: PersonalAccessTokenFieldName::ExpirationDate.into(),
            ..search_request(it, vec![])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |it| SearchPersonalAccessTokensRequest {
            filters: vec![PersonalAccessTokenSearchFilter { filter: None }],
            ..search_request(it, vec![])
        })
        .done()
}
