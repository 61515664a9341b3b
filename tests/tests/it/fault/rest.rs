//! Writes to NATS other than the log while little happens.

use std::time::Duration;

use async_nats::jetstream::{self, Context};
use reqwest::Method;
use serde_json::json;
use tests::{
    client::{Client, send},
    cluster::Cluster,
    eventually,
};
use tokio::time::sleep;

/// The duration of the observation.
const WHILE: Duration = Duration::from_secs(6);

/// Returns how many messages were ever written to all streams except for the logs.
async fn written(context: &Context) -> u64 {
    let mut sum = 0;
    for stream in eventlog::streams::BESIDE {
        sum += context.get_stream(stream.stream).await.map_or(0, |stream| stream.cached_info().state.last_sequence);
    }
    sum
}

/// Returns the revision of the manifest of an index.
async fn published(context: &Context, index: &str) -> u64 {
    let bucket = context.get_key_value("INDEX_MANIFESTS").await.expect("it is there");
    let names: Vec<String> =
        futures::TryStreamExt::try_collect(bucket.keys().await.expect("NATS is there")).await.expect("NATS is there");
    let name = names.iter().find(|name| name.starts_with(index)).expect("it is published");
    bucket.entry(name.as_str()).await.expect("NATS is there").expect("it is published").revision
}

/// Waits until a search of users has a sequence.
async fn is_fresh(client: &Client, sequence: u64) {
    let fresh = || async {
        let answer = send(client.request(Method::POST, "/resources/v3alpha/users/_search").json(&json!([]))).await;
        assert!(answer.status == 200 || answer.status == 503, "{answer:?}");
        let processed = answer.body["details"]["processedSequence"].as_str()?.parse::<u64>().ok()?;
        (processed >= sequence && answer.body["details"]["totalResult"] != json!("0")).then_some(())
    };
    eventually("a search that knows what was written", fresh).await;
}

#[tokio::test]
async fn nodes_at_rest_write_only_the_leases_of_those_that_work() {
    let cluster = Cluster::start().await;
    let working = ["command", "projector"].map(|role| cluster.node(role, role, &[], &[]));
    cluster.writes(&working[0]).await;
    let _others = [
        cluster.node("query", "query", &[], &[]),
        cluster.node("projector", "standby", &[], &[]),
        cluster.node("command", "another", &[("--node-number", "1")], &[]),
    ];
    let context = jetstream::new(cluster.servers.nats().await);
    // Indexes are published, and the references of the log are noted.
    eventually("rest", || async {
        let before = written(&context).await;
        sleep(Duration::from_secs(2)).await;
        (written(&context).await - before <= 6).then_some(())
    })
    .await;
    let before = written(&context).await;
    sleep(WHILE).await;
    let count = written(&context).await - before;
    println!("{count} messages in {WHILE:?}");
    assert!(count >= 4, "the leases are renewed: {count}");
    // Two processes, a message a second each.
    assert!(count <= 2 * (WHILE.as_secs() + 2), "{count} messages");
}

#[tokio::test]
async fn an_index_that_does_not_change_is_fresh_and_not_published_again() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let mut projector = cluster.node("projector", "projector", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    cluster.writes(&command).await;
    let (writer, reader) = (cluster.client(&command), cluster.client(&query));
    is_fresh(&reader, cluster.audit().await.end().sequence).await;
    let context = jetstream::new(cluster.servers.nats().await);
    let before = published(&context, "users_index").await;
    for number in 0..10 {
        writer.create_target(&format!("target {number}")).await.expect("it is created");
        is_fresh(&reader, cluster.audit().await.end().sequence).await;
    }
    let end = cluster.audit().await.end().sequence;
    assert_eq!(published(&context, "users_index").await, before, "none of its files has changed");
    assert!(published(&context, "targets_index").await > before, "those of the other have");

    let late = cluster.node("query", "late", &[], &[]);
    let late = cluster.client(&late);
    cluster.searches(&late).await;
    is_fresh(&late, end).await;

    // Who keeps it next begins where the manifest is, and reads the rest from the log.
    projector.process.end().await;
    let _projector = cluster.node("projector", "next", &[], &[]);
    is_fresh(&reader, end).await;
    writer.create_target("after").await.expect("it is created");
    let end = cluster.audit().await.end().sequence;
    is_fresh(&reader, end).await;
    is_fresh(&late, end).await;
}
