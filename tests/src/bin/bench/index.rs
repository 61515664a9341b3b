//! The propagation of a write to the search index of another node, and its network traffic.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tests::{
    client::{Client, TARGETS, send, target},
    cluster::Cluster,
};
use tokio::time::{MissedTickBehavior, interval};

/// How many writes are measured in each row.
const TIMES: usize = 40;
/// The least pause between two writes, so that the index is idle before each.
const REST: Duration = Duration::from_millis(500);
/// The difference between the pauses, so that the writes do not keep step with the commits.
const STEP: Duration = Duration::from_millis(7);
/// How many other writes there are meanwhile, per second.
const OTHERS: u64 = 500;

/// Measures on a command node, a projector and a query node.
pub(crate) async fn measure() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    cluster.writes(&command).await;
    let (writer, reader) = (cluster.client(&command), cluster.client(&query));
    cluster.searches(&reader).await;
    println!("\nsearch on another node: from the answer of a write to the answer of a search that has its token");
    println!("{:<24} {:>8} {:>8} {:>12} {:>16}", "load", "p50 ms", "p99 ms", "commits", "bytes a commit");
    row("idle", &cluster, &writer, &reader).await;
    let others = tokio::spawn(others(writer.clone()));
    row(&format!("{OTHERS} writes a second"), &cluster, &writer, &reader).await;
    others.abort();
    println!("(to reach when idle: p50 below 60 ms)");
}

async fn row(load: &str, cluster: &Cluster, writer: &Client, reader: &Client) {
    let before = shipped(cluster).await;
    let mut times = vec![];
    for number in 0..TIMES {
        let name = format!("{load} {number}");
        let written = send(writer.request(Method::POST, TARGETS).json(&target(&name))).await;
        let begin = Instant::now();
        let search = reader.request(Method::POST, &format!("{TARGETS}/_search"));
        let search = search.json(&json!([{ "inIds": { "ids": [written.id()] } }]));
        let search = search.header("consistency-token", written.consistency()).header("consistency-wait", "10s");
        let found = send(search).await;
        times.push(begin.elapsed());
        assert_eq!(found.body["details"]["totalResult"], json!("1"), "{}", found.body);
        tokio::time::sleep(REST + STEP * u32::try_from(number).unwrap_or_default()).await;
    }
    let after = shipped(cluster).await;
    times.sort();
    let ms = |at: usize| times[at].as_secs_f64() * 1000.0;
    let commits = after.0 - before.0;
    let bytes = (after.1 - before.1) / commits.max(1);
    println!("{load:<24} {:>8.1} {:>8.1} {commits:>12} {bytes:>16}", ms(TIMES / 2), ms(TIMES - 1));
}

/// Returns how many manifests were published, and how many bytes of files are stored.
async fn shipped(cluster: &Cluster) -> (u64, u64) {
    let context = async_nats::jetstream::new(cluster.servers.nats().await);
    let manifests = context.get_stream("KV_INDEX_MANIFESTS").await.expect("it is there");
    let files = context.get_stream("OBJ_INDEX_FILES").await.expect("it is there");
    (manifests.cached_info().state.last_sequence, files.cached_info().state.bytes)
}

async fn others(writer: Client) {
    let mut beat = interval(Duration::from_secs(1) / u32::try_from(OTHERS).unwrap_or(u32::MAX));
    beat.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        beat.tick().await;
        let request = writer.request(Method::POST, TARGETS).json(&target("another"));
        tokio::spawn(async move { request.send().await.map(|answer| answer.status()) });
    }
}
