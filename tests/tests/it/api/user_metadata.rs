//! Metadata of users: by key, replaced completely, and sealed for people.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, created, done, put, send},
    eventually,
    tenant::{Tenant, new_name},
};

const USERS: &str = "/resources/v3alpha/users";

async fn person(admin: &Client) -> String {
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    done(admin, USERS, json!({ "username": new_name(), "human": { "data": data } })).await.id()
}

async fn service_user(admin: &Client) -> String {
    done(admin, USERS, json!({ "username": new_name(), "service": {} })).await.id()
}

fn at(user: &str, key: &str) -> String {
    format!("{USERS}/{user}/metadata/{key}")
}

async fn read(admin: &Client, user: &str, key: &str) -> (u16, Value) {
    let answer = send(admin.request(Method::GET, &at(user, key))).await;
    (answer.status.as_u16(), answer.body["metadata"]["value"].clone())
}

/// Searches the events of an entry.
async fn events(tenant: &Tenant, user: &str, key: &str) -> Vec<Value> {
    let id = format!("{user}/{key}");
    let body = json!({ "filters": [{ "aggregateType": "user_metadata" }, { "aggregateId": id }] });
    let found =
        send(tenant.client().await.request(Method::POST, "/resources/v3alpha/events/_search").json(&body)).await;
    found.body["result"].as_array().unwrap_or_else(|| panic!("events are found: {}", found.body)).clone()
}

#[tokio::test]
async fn an_entry_is_created_replaced_and_deleted_whoever_has_it() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    for user in [service_user(&admin).await, person(&admin).await] {
        assert_eq!(read(&admin, &user, "plan").await.0, 404);
        let request = |value: &str| admin.request(Method::PUT, &at(&user, "plan")).json(&json!({ "value": value }));
        let first = send(request("gold")).await;
        assert_eq!((first.status.as_u16(), first.id().as_str()), (201, "plan"), "{}", first.body);
        let again = send(request("gold")).await;
        assert_eq!(
            (again.status.as_u16(), again.sequence()),
            (200, first.sequence()),
            "nothing changed: {}",
            again.body
        );
        assert_eq!(read(&admin, &user, "plan").await, (200, json!("gold")));

        let stale = send(request("silver").header("if-match", "\"1\"")).await;
        assert_eq!(stale.status, 412, "{}", stale.body);
        let tag = format!("\"{}\"", first.sequence());
        let replaced = send(request("silver").header("if-match", &tag).header("prefer", "wait=10")).await;
        assert_eq!(replaced.status, 200, "{}", replaced.body);
        assert_eq!(read(&admin, &user, "plan").await, (200, json!("silver")));
        put(&admin, &at(&user, "a%2Fb"), json!({ "value": "ä\n" })).await;
        assert_eq!(read(&admin, &user, "a%2Fb").await, (200, json!("ä\n")));

        let search = admin.request(Method::POST, &at(&user, "_search")).json(&json!([]));
        let found = send(search).await;
        let ids: Vec<_> =
            found.body["result"].as_array().expect("there are some").iter().map(|it| &it["details"]["id"]).collect();
        assert_eq!(ids, ["plan", "a/b"], "by key, descending as lists are: {}", found.body);
        let gone = send(admin.request(Method::DELETE, &at(&user, "plan")).header("prefer", "wait=10")).await;
        assert_eq!(gone.status, 200, "{}", gone.body);
        assert_eq!(read(&admin, &user, "plan").await.0, 404);
        assert_eq!(send(request("bronze")).await.status, 201, "it can be created anew");
    }
}

#[tokio::test]
async fn a_retry_is_answered_as_before_though_the_user_is_gone() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    for user in [service_user(&admin).await, person(&admin).await] {
        let request = || admin.request(Method::PUT, &at(&user, "plan")).header("idempotency-key", format!("of {user}"));
        let first = send(request().json(&json!({ "value": "gold" }))).await;
        assert_eq!(first.status, 201, "{}", first.body);
        done_deleting(&admin, &user).await;
        let again = send(request().json(&json!({ "value": "gold" }))).await;
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        assert_eq!(again.headers["idempotency-replayed"], "true");
    }
}

#[tokio::test]
async fn events_tell_values_of_programs_and_not_those_of_people() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (robot, ada) = (service_user(&admin).await, person(&admin).await);
    for user in [&robot, &ada] {
        put(&admin, &at(user, "plan"), json!({ "value": "gold" })).await;
    }
    let payload = async |user: &str| {
        let found = eventually("the event is found", async || events(&tenant, user, "plan").await.pop()).await;
        serde_json::from_str::<Value>(found["payload"].as_str().expect("it is text")).expect("it is JSON")
    };
    assert_eq!(payload(&robot).await, json!({ "user_id": robot, "key": "plan", "value": "gold" }));
    assert_eq!(payload(&ada).await, json!({ "user_id": ada, "key": "plan" }));
}

#[tokio::test]
async fn entries_go_with_their_user_and_its_id_brings_none_back() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let user = service_user(&admin).await;
    put(&admin, &at(&user, "plan"), json!({ "value": "gold" })).await;
    done_deleting(&admin, &user).await;
    let again = send(admin.request(Method::PUT, &at(&user, "plan")).json(&json!({ "value": "gold" }))).await;
    assert_eq!(again.status, 404, "{}", again.body);
    assert_eq!(read(&admin, &user, "plan").await.0, 404);
}

async fn done_deleting(admin: &Client, user: &str) {
    let gone = send(admin.request(Method::DELETE, &format!("{USERS}/{user}")).header("prefer", "wait=10")).await;
    assert_eq!(gone.status, 200, "{}", gone.body);
}

#[tokio::test]
async fn a_path_that_splits_user_and_key_elsewhere_names_nothing() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let user = service_user(&admin).await;
    put(&admin, &at(&user, "a%2Fb"), json!({ "value": "gold" })).await;
    let elsewhere = at(&format!("{user}%2Fa"), "b");
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(send(admin.request(method, &elsewhere)).await.status, 404);
    }
    let written = send(admin.request(Method::PUT, &elsewhere).json(&json!({ "value": "silver" }))).await;
    assert_eq!(written.status, 404, "{}", written.body);
    assert_eq!(read(&admin, &user, "a%2Fb").await, (200, json!("gold")));
}

#[tokio::test]
async fn who_may_write_users_of_one_organization_writes_no_metadata_of_another() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let other = created(&admin, "/resources/v3alpha/organizations", json!({ "name": new_name() })).await.id();
    let theirs = json!({ "username": new_name(), "service": {} });
    let theirs = done(&admin, &format!("{USERS}?ctx.orgId={other}"), theirs).await.id();
    let viewer = tenant.client_named("viewer").await;
    let refused = send(viewer.request(Method::PUT, &at(&theirs, "plan")).json(&json!({ "value": "gold" }))).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert_eq!(read(&admin, &theirs, "plan").await.0, 404);
}
