//! Documents that cannot be made or written: failures of a search index only.

use serde_json::json;
use tests::{
    client::{Client, post},
    eventually,
};

use super::{
    mending::{FAILED, Failing, id_in, is_found, is_named, one},
    parking::{failed, rename},
};

async fn retry(operator: &Client, id: &str) {
    assert_eq!(post(operator, &format!("{FAILED}/{id}/_retry"), json!({})).await.status, 200);
}

async fn has_failed(operator: &Client, id: &str, times: u32) {
    let times = times.to_string();
    let again = async || (one(operator, id).await["failedEvent"]["failureCount"] == json!(times)).then_some(());
    eventually("it failed again", again).await;
}

async fn nothing_waits(operator: &Client) {
    eventually("nothing waits", async || failed(operator, json!([])).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn what_fails_in_the_index_but_not_in_the_rows_waits_there_alone() {
    let mut failing = Failing::start().await;
    let [a, b] = failing.targets(["a", "b"]).await;
    failing.stop().await;
    failing.start_at(&format!("index.document/{a}")).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.fails(true);
    rename(&client, &a, "a renamed").await;
    is_named(&client, &a, "a renamed").await;
    let id = id_in(&operator, "targets_index", &a).await;
    let found = failed(&operator, json!([])).await;
    assert_eq!(found.len(), 1, "rows have it: {found:?}");
    assert_eq!((&found[0]["database"], &found[0]["viewName"]), (&json!("tantivy"), &json!("targets_index")));
    let error = found[0]["errorMessage"].as_str().unwrap_or_default();
    assert!(error.contains("document") && error.contains("panicked"), "{error}");
    is_found(&client, "a", 1).await;
    is_found(&client, "a renamed", 0).await;
    rename(&client, &b, "b renamed").await;
    is_found(&client, "b renamed", 1).await;

    rename(&client, &a, "a renamed twice").await;
    retry(&operator, &id).await;
    has_failed(&operator, &id, 2).await;
    failing.stop().await;
    failing.start_at(&format!("index.document/{a}")).await;
    has_failed(&operator, &id, 3).await;
    is_found(&client, "a", 1).await;
    failing.fails(false);
    retry(&operator, &id).await;
    is_found(&client, "a renamed twice", 1).await;
    is_found(&client, "a", 0).await;
    nothing_waits(&operator).await;
}

#[tokio::test]
async fn what_is_left_out_of_an_index_stays_so_when_the_index_is_built_again() {
    let mut failing = Failing::start().await;
    let [a, b] = failing.targets(["a", "b"]).await;
    failing.stop().await;
    failing.start_at("index.document/*").await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.fails(true);
    rename(&client, &a, "a left out").await;
    let of_a = id_in(&operator, "targets_index", &a).await;
    let reason = json!({ "reason": "nobody looks for it" });
    assert_eq!(post(&operator, &format!("{FAILED}/{of_a}/_discard"), reason).await.status, 200);
    nothing_waits(&operator).await;
    failing.fails(false);
    rename(&client, &b, "b renamed").await;
    is_found(&client, "b renamed", 1).await;

    failing.index_anew().await;
    is_found(&client, "b renamed", 1).await;
    is_found(&client, "a", 1).await;
    is_found(&client, "a left out", 0).await;
    is_named(&client, &a, "a left out").await;
    nothing_waits(&operator).await;
    rename(&client, &a, "a goes on").await;
    is_found(&client, "a goes on", 1).await;
    is_found(&client, "a", 0).await;
    failing.assert_projected().await;
}

#[tokio::test]
async fn a_document_that_ends_the_thread_that_writes_it_is_found_and_the_others_are_written() {
    let mut failing = Failing::start().await;
    let [a, b] = failing.targets(["a", "b"]).await;
    failing.stop().await;
    failing.start_at("index.tokenizing/deadly").await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.fails(true);
    rename(&client, &a, "deadly").await;
    rename(&client, &b, "b renamed").await;
    let id = id_in(&operator, "targets_index", &a).await;
    is_found(&client, "b renamed", 1).await;
    is_found(&client, "a", 1).await;
    assert_eq!(failed(&operator, json!([])).await.len(), 1);
    retry(&operator, &id).await;
    has_failed(&operator, &id, 2).await;
    rename(&client, &b, "b goes on").await;
    is_found(&client, "b goes on", 1).await;
    failing.fails(false);
    retry(&operator, &id).await;
    is_found(&client, "deadly", 1).await;
    nothing_waits(&operator).await;
}
