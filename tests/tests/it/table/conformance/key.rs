//! The rows of keys, which apps and users both have.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    key::{
        CreateAppKeyRequest, CreateUserKeyRequest, DeleteAppKeyRequest, DeleteUserKeyRequest, GetAppKeyRequest,
        GetUserKeyRequest, Key, KeyFieldName, KeySearchFilter, KeyType, SearchAppKeysRequest, SearchUserKeysRequest,
        key::Source, key_search_filter::Filter,
    },
    object::{InIdsFilter, ListQuery},
    operation::{
        CREATE_APP_KEY, CREATE_USER_KEY, DELETE_APP_KEY, DELETE_USER_KEY, GET_APP_KEY, GET_USER_KEY, SEARCH_APP_KEYS,
        SEARCH_USER_KEYS,
    },
    wellknown::Timestamp,
};
use serde_json::json;

use super::{
    app::an_app,
    posted,
    row::{Check, Subject, row},
    subject,
    user::a_user,
    wire::World,
};

const JWK: &str = r#"{"kty":"OKP","crv":"Ed25519","x":"Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE"}"#;

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![
        create_of_user(),
        row(&DELETE_USER_KEY, a_user_key)
            .good("a key", |it| DeleteUserKeyRequest { id: id(it), user_id: of(it) })
            .done(),
        row(&GET_USER_KEY, a_user_key)
            .good("a key", |it| GetUserKeyRequest { id: id(it), user_id: of(it) })
            .bad("of another user", "RESOURCE_NOT_FOUND", |it| GetUserKeyRequest { id: id(it), user_id: other(it) })
            .done(),
        search_of_user(),
        row(&CREATE_APP_KEY, an_app)
            .good("a public key", |it| CreateAppKeyRequest { app_id: id(it), key: Some(public_key(JWK)) })
            .bad("a user", "RESOURCE_NOT_FOUND", |_| CreateAppKeyRequest {
                app_id: "1".into(),
                key: Some(public_key(JWK)),
            })
            .alike()
            .done(),
        row(&DELETE_APP_KEY, an_app_key)
            .good("a key", |it| DeleteAppKeyRequest { id: id(it), app_id: of(it) })
            .bad("of another app", "RESOURCE_NOT_FOUND", |it| DeleteAppKeyRequest { id: id(it), app_id: other(it) })
            .alike()
            .done(),
        row(&GET_APP_KEY, an_app_key)
            .good("a key", |it| GetAppKeyRequest { id: id(it), app_id: of(it) })
            .alike()
            .done(),
        row(&SEARCH_APP_KEYS, an_app_key)
            .good("all of an app", |it| SearchAppKeysRequest { app_id: of(it), ..SearchAppKeysRequest::default() })
            .alike()
            .done(),
    ]
}

fn id(subject: &Subject) -> String {
    subject.id.clone()
}

/// Returns the holder of the key.
fn of(subject: &Subject) -> String {
    subject.others[0].clone()
}

/// Returns another holder.
fn other(subject: &Subject) -> String {
    subject.others[1].clone()
}

/// Creates a key of the first holder, and names the second.
async fn create(world: &World, kind: &str, [holder, other]: [Subject; 2]) -> Subject {
    let key = json!({ "publicKey": JWK, "expirationDate": "2099-01-01T00:00:00Z" });
    let path = format!("/resources/v3alpha/{kind}/{}/keys", holder.id);
    subject(&posted(world, &path, &key).await).naming([holder.id, other.id])
}

fn a_user_key(world: &World) -> BoxFuture<'_, Subject> {
    async move { create(world, "users", [a_user(world).await, a_user(world).await]).await }.boxed()
}

fn an_app_key(world: &World) -> BoxFuture<'_, Subject> {
    async move { create(world, "apps", [an_app(world).await, an_app(world).await]).await }.boxed()
}

fn key(source: Source) -> Key {
    // The last day of the year 2098.
    Key { source: Some(source), expiration_date: Some(Timestamp { seconds: 4_070_822_400, nanos: 0 }) }
}

fn public_key(text: &str) -> Key {
    key(Source::PublicKey(text.to_owned()))
}

fn of_user(subject: &Subject, key: Key) -> CreateUserKeyRequest {
    CreateUserKeyRequest { user_id: subject.id.clone(), key: Some(key) }
}

fn create_of_user() -> Box<dyn Check + Sync> {
    row(&CREATE_USER_KEY, a_user)
        .good("a public key", |it| of_user(it, public_key(JWK)))
        .good("the same as PEM", |it| {
            let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
            of_user(it, public_key(pem))
        })
        .good("a pair", |it| of_user(it, key(Source::KeyType(KeyType::Ed25519.into()))))
        .bad("nothing", "INVALID_REQUEST", |it| CreateUserKeyRequest { user_id: it.id.clone(), key: None })
        .bad("an empty key", "INVALID_REQUEST", |it| of_user(it, Key::default()))
        .bad("no type", "INVALID_REQUEST", |it| of_user(it, key(Source::KeyType(0))))
        .bad("no key", "INVALID_REQUEST", |it| of_user(it, public_key("key")))
        .bad("a long key", "INVALID_REQUEST", |it| of_user(it, public_key(&"x".repeat(8193))))
        .bad("the private half", "INVALID_REQUEST", |it| of_user(it, public_key(&JWK.replace('}', r#","d":"AA"}"#))))
        .bad("what has expired", "INVALID_REQUEST", |it| {
            of_user(it, Key { expiration_date: Some(Timestamp { seconds: 1, nanos: 0 }), ..public_key(JWK) })
        })
        .bad("no end", "INVALID_REQUEST", |it| of_user(it, Key { expiration_date: None, ..public_key(JWK) }))
        .bad("nobody", "RESOURCE_NOT_FOUND", |_| CreateUserKeyRequest { user_id: "1".into(), key: Some(public_key(JWK)) })
        .done()
}

fn search_request(subject: &Subject, filters: Vec<Filter>) -> SearchUserKeysRequest {
    let filters = filters.into_iter().map(|filter| KeySearchFilter { filter: Some(filter) }).collect();
    SearchUserKeysRequest { user_id: of(subject), filters, ..SearchUserKeysRequest::default() }
}

fn search_of_user() -> Box<dyn Check + Sync> {
    row(&SEARCH_USER_KEYS, a_user_key)
        .good("by id", |it| search_request(it, vec![Filter::InIds(InIdsFilter { ids: vec![it.id.clone()] })]))
        .good("all of a user", |it| search_request(it, vec![]))
        .good("of nobody", |it| SearchUserKeysRequest { user_id: "1".into(), ..search_request(it, vec![]) })
        .good("a page in another order", |it| SearchUserKeysRequest {
            query: Some(ListQuery { offset: 0, limit: 2, asc: true }),
            sorting_column: KeyFieldName::ExpirationDate.into(),
            ..search_request(it, vec![])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |it| SearchUserKeysRequest {
            filters: vec![KeySearchFilter { filter: None }],
            ..search_request(it, vec![])
        })
        .done()
}
