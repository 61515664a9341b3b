//! The rows of metadata of users.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    metadata::{
        DeleteUserMetadataRequest, GetUserMetadataRequest, Metadata, MetadataFieldName, MetadataSearchFilter,
        PutUserMetadataRequest, SearchUserMetadataRequest, metadata_search_filter::Filter,
    },
    object::{ListQuery, NameFilter, TextFilterMethod},
    operation::{DELETE_USER_METADATA, GET_USER_METADATA, PUT_USER_METADATA, SEARCH_USER_METADATA},
};
use reqwest::Method;
use serde_json::json;
use tests::client::send;

use super::{
    row::{Check, Subject, row},
    subject,
    user::a_user,
    wire::World,
};

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        put(),
        row(&DELETE_USER_METADATA, an_entry)
            .good("an entry", |it| DeleteUserMetadataRequest { id: it.id.clone(), user_id: of(it) })
            .bad("of another user", "RESOURCE_NOT_FOUND", |it| DeleteUserMetadataRequest {
                id: it.id.clone(),
                user_id: it.others[1].clone(),
            })
            .done(),
        row(&GET_USER_METADATA, an_entry)
            .good("an entry", |it| GetUserMetadataRequest { id: it.id.clone(), user_id: of(it) })
            .bad("of another user", "RESOURCE_NOT_FOUND", |it| GetUserMetadataRequest {
                id: it.id.clone(),
                user_id: it.others[1].clone(),
            })
            .done(),
        search(),
    ]
}

/// Returns the user of the entry.
fn of(subject: &Subject) -> String {
    subject.others[0].clone()
}

/// Creates an entry of the first of two users.
fn an_entry(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let (user, other) = (a_user(world).await.id, a_user(world).await.id);
        let path = format!("/resources/v3alpha/users/{user}/metadata/a%20plan");
        let made = send(world.owner.request(Method::PUT, &path).json(&json!({ "value": "gold" }))).await;
        subject(&made).naming([user, other])
    }
    .boxed()
}

fn entry(subject: &Subject, key: &str, value: &str) -> PutUserMetadataRequest {
    let metadata = Some(Metadata { value: value.to_owned() });
    PutUserMetadataRequest { id: key.to_owned(), user_id: of(subject), metadata }
}

fn put() -> Box<dyn Check + Sync> {
    row(&PUT_USER_METADATA, an_entry)
        .good("another value", |it| entry(it, &it.id, "silver"))
        .good("the same value", |it| entry(it, &it.id, "gold"))
        .good("another key", |it| entry(it, "a/b ä?#%2F", "\"quoted\"\n"))
        .good("no text", |it| entry(it, "empty", ""))
        .bad("nothing", "INVALID_REQUEST", |it| PutUserMetadataRequest { metadata: None, ..entry(it, "a", "") })
        .bad("a long key", "INVALID_REQUEST", |it| entry(it, &"x".repeat(201), ""))
        .bad("a long value", "INVALID_REQUEST", |it| entry(it, "a", &"x".repeat(16_385)))
        .bad("a value of many bytes", "INVALID_REQUEST", |it| entry(it, "a", &"ä".repeat(8_193)))
        .bad("U+0000", "INVALID_REQUEST", |it| entry(it, "a", "b\0"))
        .bad("a key like a verb", "INVALID_REQUEST", |it| entry(it, "_plan", ""))
        .bad("a key like a folder", "INVALID_REQUEST", |it| entry(it, ".plan", ""))
        .bad("nobody", "RESOURCE_NOT_FOUND", |it| PutUserMetadataRequest { user_id: "1".into(), ..entry(it, "a", "b") })
        .done()
}

fn search_request(subject: &Subject, filters: Vec<Filter>) -> SearchUserMetadataRequest {
    let filters = filters.into_iter().map(|filter| MetadataSearchFilter { filter: Some(filter) }).collect();
    SearchUserMetadataRequest { user_id: of(subject), filters, ..SearchUserMetadataRequest::default() }
}

fn search() -> Box<dyn Check + Sync> {
    row(&SEARCH_USER_METADATA, an_entry)
        .good("by key", |it| {
            let method = TextFilterMethod::StartsWith.into();
            search_request(it, vec![Filter::Key(NameFilter { name: "a pl".into(), method })])
        })
        .good("all of a user", |it| search_request(it, vec![]))
        .good("of nobody", |it| SearchUserMetadataRequest { user_id: "1".into(), ..search_request(it, vec![]) })
        .good("a page in another order", |it| SearchUserMetadataRequest {
            query: Some(ListQuery { offset: 0, limit: 2, asc: true }),
            sorting_column: MetadataFieldName::CreationDate.into(),
            ..search_request(it, vec![])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |it| SearchUserMetadataRequest {
            filters: vec![MetadataSearchFilter { filter: None }],
            ..search_request(it, vec![])
        })
        .done()
}
