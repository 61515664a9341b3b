//! Rights and contexts are as new as what the caller has seen, although they come from a read model.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tests::{
    auditor::connect,
    client::{Answer, Client, created, send},
    platform::Platform,
    throughout,
};
use tokio_postgres::Transaction;
use view::projection::ACCESS;

const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
/// How long the read model is held while a request waits for it.
const HELD: Duration = Duration::from_millis(200);

async fn organization(client: &Client, name: &str) -> Answer {
    created(client, ORGANIZATIONS, json!({ "name": name })).await
}

fn create_user(client: &Client, organization: &Answer) -> RequestBuilder {
    let path = format!("/resources/v3alpha/users?ctx.orgId={}", organization.id());
    let username = format!("of-{}", organization.id());
    client.request(Method::POST, &path).json(&json!({ "username": username, "service": { "name": "One" } }))
}

fn search(client: &Client, organization: &Answer, wait: &str) -> RequestBuilder {
    let path = format!("/resources/v3alpha/users/_search?ctx.orgId={}", organization.id());
    let request = client.request(Method::POST, &path).json(&json!([]));
    request.header("consistency-token", organization.consistency()).header("consistency-wait", wait)
}

/// Keeps the read model of rights from being updated. It can be read.
async fn lock_rights(postgres: &mut tokio_postgres::Client) -> Transaction<'_> {
    let held = postgres.transaction().await.expect("Postgres is there");
    held.batch_execute(&ACCESS.sql("lock table {schema}.organizations in share mode")).await.expect("it can be had");
    held
}

/// Sends a request that has to wait for the held read model, which is then released, and returns the answer.
async fn answer_after(held: Transaction<'_>, request: RequestBuilder) -> Answer {
    let answer = tokio::spawn(send(request));
    throughout(HELD, "it waits", async || !answer.is_finished()).await;
    held.rollback().await.expect("Postgres is there");
    answer.await.expect("it is answered")
}

#[tokio::test]
async fn who_has_seen_an_organization_is_not_told_that_there_is_none() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let mut postgres = connect(&platform.postgres_url()).await;

    let held = lock_rights(&mut postgres).await;
    let first = organization(&client, "First").await;
    let refused = send(search(&client, &first, "200ms")).await;
    refused.assert_refused("a read whose token is not reached", 503, "CONSISTENCY_NOT_REACHED");
    let found = answer_after(held, search(&client, &first, "10s")).await;
    assert_eq!((found.status.as_u16(), &found.body["details"]["totalResult"]), (200, &json!("0")), "{}", found.body);

    let held = lock_rights(&mut postgres).await;
    let second = organization(&client, "Second").await;
    let created = answer_after(held, create_user(&client, &second)).await;
    assert_eq!(created.status, 201, "a write waits for what its caller wrote: {}", created.body);
    let found = send(search(&client, &created, "10s")).await;
    found.assert_refused("no organization has that id", 404, "RESOURCE_NOT_FOUND");
}
