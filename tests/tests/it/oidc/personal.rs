//! Personal access tokens: valid at the API and at introspection as long as everything exists that they depend on.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, TARGETS, after, created, done, send},
    clock::Clock,
    cluster::Cluster,
    eventually,
    platform::Platform,
    tenant::{Tenant, instance_beside},
};

use super::shop::{API, Shop};

const FAR: &str = "2099-01-01T00:00:00Z";

/// Creates a token of a user, and returns its id and the token.
async fn token(admin: &Client, user: &str, end: &str) -> (String, String) {
    let made = done(admin, &format!("{API}/users/{user}/tokens"), json!({ "expirationDate": end })).await;
    (made.id(), made.body["token"].as_str().expect("it is shown").to_owned())
}

/// Returns the answer of the API for a token; a caller with the permission gets 404.
async fn answered(client: &Client, token: &str) -> (u16, Value) {
    let answer = send(client.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token)).await;
    (answer.status.as_u16(), answer.body)
}

/// Creates a user with a role that reads targets.
async fn reader(admin: &Client) -> String {
    let user = json!({ "username": "reader", "service": {} });
    let user = created(admin, &format!("{API}/users"), user).await.id();
    let role = json!({ "userId": user, "roles": ["IAM_OWNER_VIEWER"] });
    done(admin, &format!("{API}/memberships"), role).await;
    user
}

#[tokio::test]
async fn a_personal_access_token_counts_at_the_api_as_long_as_all_that_it_stands_on() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let user = reader(&admin).await;
    let change = async |method: Method, path: &str| {
        let answer = send(admin.request(method, &format!("{API}/{path}"))).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    };
    let (id, secret) = token(&admin, &user, FAR).await;
    let (other_id, other) = token(&admin, &user, FAR).await;
    for token in [&secret, &other] {
        eventually("it is known", async || (answered(&admin, token).await.0 == 404).then_some(())).await;
    }
    let shown = send(admin.request(Method::GET, &format!("{API}/users/{user}/tokens/{id}"))).await.body;
    let members: Vec<&String> = shown["token"].as_object().expect("it is there").keys().collect();
    assert_eq!(members, ["details", "expirationDate"], "nothing of it is shown again: {shown}");

    let (head, tail) = secret.split_at(secret.len() - 1);
    let swapped = secret.replace(&id, &other_id);
    let upper = secret.replacen("pat-", "PAT-", 1);
    for wrong in
        [format!("{head}{}", if tail == "A" { "B" } else { "A" }), swapped, upper, format!("pat-{id}-"), "pat-".into()]
    {
        assert_eq!(answered(&admin, &wrong).await.0, 401, "{wrong}");
    }
    let elsewhere = instance_beside(&tenant).await;
    assert_eq!(answered(&elsewhere.client().await, &secret).await.0, 401, "another instance");

    // Deleted, and no other with it.
    change(Method::DELETE, &format!("users/{user}/tokens/{other_id}")).await;
    assert_eq!(answered(&admin, &other).await.0, 401);
    assert_eq!(answered(&admin, &secret).await.0, 404);
    // It belongs to its user, and is there again with that.
    for (off, on) in [("_deactivate", "_reactivate"), ("_lock", "_unlock")] {
        change(Method::POST, &format!("users/{user}/{off}")).await;
        assert_eq!(answered(&admin, &secret).await.0, 401, "{off}");
        change(Method::POST, &format!("users/{user}/{on}")).await;
        eventually(on, async || (answered(&admin, &secret).await.0 == 404).then_some(())).await;
    }
    let organization = done(&admin, &format!("{API}/organizations"), json!({ "name": "Beside" })).await.id();
    let robot = json!({ "username": "robot", "service": {} });
    let robot = created(&admin, &format!("{API}/users?ctx.orgId={organization}"), robot).await.id();
    let (_, of_robot) = token(&admin, &robot, FAR).await;
    // It has no role, and is known.
    eventually("it is known", async || (answered(&admin, &of_robot).await.0 == 403).then_some(())).await;
    change(Method::POST, &format!("organizations/{organization}/_deactivate")).await;
    assert_eq!(answered(&admin, &of_robot).await.0, 401, "its organization is switched off");
    change(Method::DELETE, &format!("users/{user}")).await;
    assert_eq!(answered(&admin, &secret).await.0, 401, "its user was deleted");
}

#[tokio::test]
async fn a_personal_access_token_ends_when_it_shall() {
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    let admin = platform.client().await;
    let user = reader(&admin).await;
    let end = base::clock::now() + jiff::SignedDuration::from_hours(1);
    let (_, secret) = token(&admin, &user, &end.to_string()).await;
    eventually("it is known", async || (answered(&admin, &secret).await.0 == 404).then_some(())).await;
    clock.set_ahead(Duration::from_hours(1));
    let (status, body) = answered(&admin, &secret).await;
    assert_eq!((status, &body["details"][0]["reason"]), (401, &json!("TOKEN_EXPIRED")), "{body}");
}

#[tokio::test]
async fn what_is_to_last_for_ever_ends_with_the_year_9999() {
    const LAST: &str = "9999-12-31T23:59:59Z";
    let shop = Shop::open(json!({})).await;
    let user = &shop.user.user_id;
    let (id, secret) = token(&shop.admin, user, LAST).await;
    let told = eventually("it is active", async || {
        let told = shop.introspect(&secret).await;
        (told["active"] == true).then_some(told)
    });
    assert_eq!(told.await["exp"], json!(253_402_300_799_i64));
    let key = json!({ "keyType": "KEY_TYPE_ED25519", "expirationDate": LAST });
    let key = done(&shop.admin, &format!("{API}/users/{user}/keys"), key).await.id();
    for (kind, name, id) in [("tokens", "token", id), ("keys", "key", key)] {
        let path = format!("{API}/users/{user}/{kind}");
        let read = send(shop.admin.request(Method::GET, &format!("{path}/{id}"))).await;
        assert_eq!(read.body[name]["expirationDate"], LAST, "{}", read.body);
        let found = send(shop.admin.request(Method::POST, &format!("{path}/_search")).json(&json!([]))).await;
        assert_eq!(found.body["result"][0]["expirationDate"], LAST, "{}", found.body);
    }
}

#[tokio::test]
async fn whoever_has_a_deleted_token_neither_writes_nor_reads_behind_that_on_any_node() {
    let cluster = Cluster::start().await;
    let [_projector, command, query] = ["projector", "command", "query"].map(|role| cluster.node(role, role, &[], &[]));
    cluster.writes(&command).await;
    cluster.is_ready(&query).await;
    let [admin, other] = [&command, &query].map(|node| cluster.client(node));
    let user = created(&admin, &format!("{API}/users"), json!({ "username": "writer", "service": {} })).await.id();
    done(&admin, &format!("{API}/memberships"), json!({ "userId": user, "roles": ["IAM_OWNER"] })).await;
    for round in 0..10 {
        let (id, secret) = token(&admin, &user, FAR).await;
        eventually("it is known", async || (answered(&other, &secret).await.0 == 404).then_some(())).await;
        let write = async |name: &str| {
            let organizations = admin.anonymous(Method::POST, &format!("{API}/organizations")).bearer_auth(&secret);
            send(organizations.json(&json!({ "name": format!("{name} {round}") }))).await
        };
        assert_eq!(write("Early").await.status, 201);
        let deleted = send(admin.request(Method::DELETE, &format!("{API}/users/{user}/tokens/{id}"))).await;
        assert_eq!(deleted.status, 200, "{}", deleted.body);
        let read = other.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(&secret);
        let read = after(&deleted, read).await;
        assert_eq!(read.status, 401, "{round}: a read behind it: {}", read.body);
        let write = write("Late").await;
        assert_eq!(write.status, 401, "{round}: a write behind it: {}", write.body);
    }
}

#[tokio::test]
async fn an_app_is_told_what_a_personal_access_token_is_worth_for_its_project() {
    let shop = Shop::open(json!({ "authorizationRequired": true })).await;
    let (id, secret) = token(&shop.admin, &shop.user.user_id, FAR).await;
    assert_eq!(shop.introspect(&secret).await, json!({ "active": false }), "the project does not admit the user");
    shop.grant(&["clerk"]).await;
    let told = eventually("it is active", async || {
        let told = shop.introspect(&secret).await;
        (told["active"] == true).then_some(told)
    });
    let told = told.await;
    assert_eq!((&told["sub"], &told["aud"]), (&json!(shop.user.user_id), &json!([shop.project])));
    assert_eq!((&told["jti"], &told["exp"]), (&json!(id), &json!(4_070_908_800_i64)));
    assert!(told["urn:platform:iam:org:project:roles"].get("clerk").is_some(), "{told}");
    assert!(told["urn:platform:iam:user:resourceowner:id"].is_string(), "{told}");
    shop.change(Method::DELETE, &format!("users/{}/tokens/{id}", shop.user.user_id), None).await;
    assert_eq!(shop.introspect(&secret).await, json!({ "active": false }));
}
