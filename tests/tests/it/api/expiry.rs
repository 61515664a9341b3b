//! Expiry of what is valid for a limited time: secrets, signing keys, access tokens, stored answers.

use std::time::Duration;

use proto::operation::GET_TARGET;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{Answer, Client, TARGETS, after, created, post, send, target},
    clock::Clock,
    endpoint::{Endpoint, execute},
    platform::Platform,
};

const HOUR: Duration = Duration::from_hours(1);
const USERS: &str = "/resources/v3alpha/users";
const SESSIONS: &str = "/resources/v3alpha/sessions";
/// How long the former secret or key is requested to stay valid.
const AN_HOUR: &str = "3600s";

/// Returns the status of the token endpoint for a secret of `rotating`.
async fn token(client: &Client, secret: &Answer) -> u16 {
    let secret = secret.body["clientSecret"].as_str().expect("it is shown");
    let request = client.anonymous(Method::POST, "/oauth/v2/token").basic_auth("rotating", Some(secret));
    send(request.form(&[("grant_type", "client_credentials"), ("scope", "openid")])).await.status.as_u16()
}

/// Returns by how many keys the call is signed that a read of the target makes.
async fn signatures(client: &Client, endpoint: &Endpoint, id: &str) -> usize {
    endpoint.take();
    let read = send(client.request(Method::GET, &format!("{TARGETS}/{id}"))).await;
    assert_eq!(read.status, StatusCode::OK, "{}", read.body);
    endpoint.called(1).await.remove(0).header("platform-signature").matches("v1=").count()
}

/// Returns the outcomes of reading a session, of searching it, and of an empty change.
async fn sessions(client: &Client, id: &str) -> (u16, usize, u16) {
    let path = format!("{SESSIONS}/{id}");
    let read = send(client.request(Method::GET, &path)).await.status.as_u16();
    let found = post(client, &format!("{SESSIONS}/_search"), json!([{ "inIds": { "ids": [id] } }])).await;
    let changed = send(client.request(Method::PATCH, &path).json(&json!({}))).await.status.as_u16();
    (read, found.body["result"].as_array().map_or(0, Vec::len), changed)
}

/// Creates a target with an idempotency key, and returns whether the answer is a repetition.
async fn keyed(client: &Client) -> (String, bool) {
    let request = client.request(Method::POST, TARGETS).header("idempotency-key", "key");
    let answer = send(request.json(&target("keyed"))).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    (answer.id(), answer.headers.contains_key("idempotency-replayed"))
}

#[tokio::test]
async fn what_expires_ends_when_its_time_is_over() {
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    let (client, endpoint) = (platform.client().await, Endpoint::start().await);

    let (id, _) = endpoint.target(&client, "restWebhook", &json!({})).await;
    execute(&client, json!({ "request": { "method": GET_TARGET.facts.grpc } }), &[&id]).await;
    let rotation = json!({ "expirationSigningKey": AN_HOUR });
    let rotated = send(client.request(Method::PATCH, &format!("{TARGETS}/{id}")).json(&rotation)).await;
    assert_eq!(rotated.status, StatusCode::OK, "{}", rotated.body);
    let user = created(&client, USERS, json!({ "username": "rotating", "service": { "name": "Rotating" } })).await.id();
    let path = format!("{USERS}/{user}/_generate_secret");
    let old = post(&client, &path, json!({})).await;
    let new = post(&client, &format!("{path}?previousExpiration={AN_HOUR}"), json!({})).await;
    after(&new, client.request(Method::GET, &format!("{USERS}/{user}"))).await;
    let session = created(&client, SESSIONS, json!({ "lifetime": AN_HOUR })).await.id();
    assert_eq!(sessions(&client, &session).await, (200, 1, 200));
    let first = keyed(&client).await;
    assert!(!first.1, "nobody used the key before");

    assert_eq!(signatures(&client, &endpoint, &id).await, 2, "the old key signs beside the new one");
    assert_eq!((token(&client, &old).await, token(&client, &new).await), (200, 200));
    clock.set_ahead(HOUR);
    assert_eq!(signatures(&client, &endpoint, &id).await, 1, "the old key signs no longer");
    assert_eq!((token(&client, &old).await, token(&client, &new).await), (401, 200), "90");
    assert_eq!(sessions(&client, &session).await, (404, 0, 404), "it ends by itself");

    clock.set_ahead(12 * HOUR);
    let read = || send(client.request(Method::GET, &format!("{TARGETS}/{id}")));
    read().await.assert_refused("a token that was used before", 401, "TOKEN_EXPIRED");
    let client = platform.client().await;
    assert_eq!(keyed(&client).await, (first.0.clone(), true), "the same command, the same answer");
    clock.set_ahead(24 * HOUR);
    let later = platform.client().await;
    client.get_target(&id, None).await.assert_refused("the next token", 401, "TOKEN_EXPIRED");
    let (other, is_replayed) = keyed(&later).await;
    assert!(!is_replayed && other != first.0, "the key is free again");
}
