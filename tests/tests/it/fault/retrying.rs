//! Retries while history, from which they read the waiting events, lags, and while others write without pause.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    auditor::connect,
    client::{Client, TARGETS, post, send},
    eventually,
};
use tokio_postgres::{Client as Postgres, Transaction};

use super::{
    mending::{FAILED, Failing, id_in, is_found, is_named, one},
    parking::{failed, name, rename},
};

/// How many batches arrive while a retry waits: a pause that doubled before each would never end.
const BATCHES: u32 = 100;

/// Locks history until the transaction is dropped.
async fn lock_history(postgres: &mut Postgres) -> Transaction<'_> {
    let held = postgres.transaction().await.expect("Postgres answers");
    let lock = "select from platform.checkpoints where projection = 'history' for update";
    held.query(lock, &[]).await.expect("the table is there");
    held
}

async fn retry_all(operator: &Client) {
    let retried = post(operator, &format!("{FAILED}/_retry"), json!({})).await;
    assert_eq!(retried.status, StatusCode::OK, "{}", retried.body);
}

async fn nothing_waits(operator: &Client) {
    eventually("nothing waits", async || failed(operator, json!([])).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_retry_waits_for_history_however_much_is_written_meanwhile() {
    let failing = Failing::start().await;
    let Failing { client, operator, .. } = &failing;
    let [a, b] = &failing.targets(["a", "b"]).await;
    let mut postgres = connect(&failing.postgres_url()).await;
    let held = lock_history(&mut postgres).await;
    failing.fails(true);
    rename(client, a, "a renamed").await;
    for view in ["targets", "targets_index"] {
        id_in(operator, view, a).await;
    }
    failing.fails(false);
    retry_all(operator).await;
    for batch in 0..BATCHES {
        let name = format!("b {batch}");
        rename(client, b, &name).await;
        is_named(client, b, &name).await;
    }
    assert_eq!(name(client, a).await, "a", "history has nothing of it yet");
    drop(held);
    is_named(client, a, "a renamed").await;
    is_found(client, "a renamed", 1).await;
    nothing_waits(operator).await;
}

#[tokio::test]
async fn a_retry_goes_on_as_far_as_history_is_while_others_write_without_pause() {
    let failing = Failing::start().await;
    let Failing { client, operator, .. } = &failing;
    let [a, b, c] = &failing.targets(["a", "b", "c"]).await;
    failing.fails(true);
    for (id, name) in [(a, "a renamed"), (b, "b renamed")] {
        rename(client, id, name).await;
        for view in ["targets", "targets_index"] {
            let id = id_in(operator, view, id).await;
            let is_there = async || one(operator, &id).await["event"].is_object().then_some(());
            eventually("history has the event", is_there).await;
        }
    }
    let mut postgres = connect(&failing.postgres_url()).await;
    let held = lock_history(&mut postgres).await;
    failing.fails(false);
    let patch = client.request(Method::PATCH, &format!("{TARGETS}/{b}")).json(&json!({ "name": "b last" }));
    let last = send(patch).await;
    let writer = client.clone();
    let writing = {
        let c = c.clone();
        tokio::spawn(async move {
            for round in 0_u32.. {
                rename(&writer, &c, &format!("c {round}")).await;
            }
        })
    };
    retry_all(operator).await;

    // Of this one history has all, and how far it is besides does not matter.
    is_named(client, a, "a renamed").await;
    is_found(client, "a renamed", 1).await;
    eventually("it goes on", async || failed(operator, json!([{ "aggregateId": a }])).await.is_empty().then_some(()))
        .await;
    // Of that one history lacks the last event: it is brought up as far as history is, and waits still.
    is_named(client, b, "b renamed").await;
    is_found(client, "b renamed", 1).await;
    assert_eq!(failed(operator, json!([{ "aggregateId": b }])).await.len(), 2);
    let stale = client.get_target(b, Some(&last.consistency())).await;
    stale.assert_refused("what came last does not show", 503, "AGGREGATE_PARKED");
    assert!(!writing.is_finished(), "others write without pause");
    drop(held);
    is_named(client, b, "b last").await;
    is_found(client, "b last", 1).await;
    nothing_waits(operator).await;
    assert!(!writing.is_finished(), "others write without pause");
    writing.abort();
}
