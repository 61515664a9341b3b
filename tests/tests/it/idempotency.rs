//! Idempotency keys: one key, one command, one answer.

use reqwest::{Method, StatusCode};
use tests::{
    client::{Answer, Client, TARGETS, send, target},
    platform::Platform,
};

async fn create(client: &Client, name: &str, key: &str) -> Answer {
    send(client.request(Method::POST, TARGETS).header("idempotency-key", key).json(&target(name))).await
}

fn is_replayed(answer: &Answer) -> bool {
    answer.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
}

#[tokio::test]
async fn the_first_answer_comes_again_also_after_a_restart_and_a_kill() {
    let mut platform = Platform::start().await;
    let client = platform.client().await;
    let first = create(&client, "first", "key").await;
    assert_eq!((first.status, is_replayed(&first)), (StatusCode::CREATED, false));
    let again = create(&client, "first", "key").await;
    assert_eq!((again.status, is_replayed(&again)), (StatusCode::CREATED, true));
    assert_eq!(again.body, first.body, "what is shown once comes again too");

    create(&client, "second", "key").await.assert_refused("another request", 400, "IDEMPOTENCY_KEY_REUSED");
    create(&client, "x", "").await.assert_refused("an empty key", 400, "INVALID_REQUEST");

    platform.stop().await;
    platform.restart(&[]).await;
    assert_eq!(create(&client, "first", "key").await.body, first.body);
    platform.process().kill().await;
    platform.restart(&[]).await;
    assert_eq!(create(&client, "first", "key").await.body, first.body);
    create(&client, "second", "key").await.assert_refused("another request", 400, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn many_requests_with_one_key_create_one_target() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let all = (0..20).map(|_| create(&client, "one", "key"));
    let mut ids = vec![];
    for answer in futures::future::join_all(all).await {
        match answer.status {
            StatusCode::CREATED => ids.push(answer.id()),
            _ => answer.assert_refused("in progress", 409, "IDEMPOTENCY_IN_PROGRESS"),
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
}
