//! A log of more and larger records than NATS buffers for a slow reader (64 MiB): everything is built from it again.

use std::{fs, time::Duration};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    auditor::{Audit, connect},
    client::{Client, TARGETS, send},
    cluster::Cluster,
    eventually, forge,
    platform::Platform,
    servers::{Servers, drop_read_models},
};
use tokio::time::{Instant, sleep};

const LARGE: usize = 68 * 1024 * 1024;
/// How long a node may take to read the large log.
const READ: Duration = Duration::from_secs(5);
const SLACK: u32 = 5;

async fn total(client: &Client) -> Option<Value> {
    let answer = send(client.request(Method::POST, &format!("{TARGETS}/_search?query.limit=1"))).await;
    Some(answer.body["details"]["totalResult"].clone())
}

async fn patch(client: &Client, id: &str) -> StatusCode {
    let request = client.request(Method::PATCH, &format!("{TARGETS}/{id}"));
    send(request.json(&json!({ "timeout": "3s" }))).await.status
}

/// Checks that NATS has dropped nothing for a reader that it considered too slow.
fn assert_nothing_lost(servers: &Servers) {
    let said = fs::read_to_string(servers.folder().join("logs/nats.log")).expect("NATS has a log");
    let lost: Vec<_> = said.lines().filter(|line| line.contains("Slow Consumer")).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[tokio::test]
async fn a_large_log_is_replayed_into_empty_read_models_and_an_empty_index() {
    let servers = Servers::start().await;
    let url = &servers.places.postgres_url;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let client = platform.client().await;
    platform.stop().await;
    let ids = forge::append(servers.nats().await, &platform.bootstrap.instance_id, LARGE).await;
    drop_read_models(url).await;
    fs::remove_dir_all(platform.data().join("index")).expect("it is there");

    // All projections, the index and the writer read it at the same time.
    let begin = Instant::now();
    platform.restart(&[]).await;
    println!("answers {:?} after the start", begin.elapsed());
    let wanted = Some(json!(ids.len().to_string()));
    eventually("all targets are found", || async { (total(&client).await == wanted).then_some(()) }).await;
    for id in [&ids[0], &ids[ids.len() - 1]] {
        assert_eq!(patch(&client, id).await, StatusCode::OK);
    }
    let audit = Audit::of(servers.nats().await).await;
    audit.wait_projected(url).await;
    println!("everything is made again {:?} after the start", begin.elapsed());
    assert!(begin.elapsed() < READ * 2 * SLACK);
    audit.assert_projected(url).await;
    assert_nothing_lost(&servers);
}

#[tokio::test]
async fn a_writer_takes_over_and_goes_on_with_a_large_tail() {
    let cluster = Cluster::start().await;
    let url = &cluster.servers.places.postgres_url;
    let early = cluster.audit().await;
    let ids = forge::append(cluster.servers.nats().await, &cluster.bootstrap.instance_id, LARGE).await;

    // History has none of it, so the tail is all of it.
    let limit = (4 * LARGE).to_string();
    let flags = [("--tail-limit", limit.as_str())];
    let mut command = cluster.node("command", "command", &flags, &[]);
    let gap = cluster.writes(&command).await;
    println!("it writes {gap:?} after its start, with all records in the tail");
    assert!(gap < READ * SLACK);
    let client = cluster.client(&command);
    assert_eq!(patch(&client, &ids[ids.len() / 2]).await, StatusCode::OK);

    // A writer that may keep less waits until history has enough.
    command.process.kill().await;
    let waiting = cluster.node("command", "command", &[("--tail-limit", "8000000")], &[]);
    eventually("it waits", || async { waiting.log().contains("waiting for history").then_some(()) }).await;
    // What the deliveries must know of the log is read once more, then nothing.
    let quiet = || async {
        let read = cluster.servers.sent_to("command").await;
        // Nothing is to happen meanwhile.
        sleep(Duration::from_secs(2)).await;
        let more = cluster.servers.sent_to("command").await - read;
        println!("it has read {read} bytes, and {more} more while it waited");
        (more < 1_000_000).then_some(())
    };
    eventually("what was read is kept", quiet).await;

    let mut projector = cluster.node("projector", "projector", &[], &[]);
    let begin = Instant::now();
    cluster.writes(&waiting).await;
    println!("it writes {:?} after there is a projector", begin.elapsed());
    assert!(begin.elapsed() < READ * SLACK);
    assert_eq!(patch(&cluster.client(&waiting), &ids[0]).await, StatusCode::OK);
    drop(waiting);

    // Postgres loses all of it under a writer whose tail begins behind it: the tail is read again.
    let command = cluster.node("command", "command", &flags, &[]);
    cluster.writes(&command).await;
    let audit = cluster.audit().await;
    audit.wait_projected(url).await;
    cluster.tail_is_forgotten().await;
    projector.process.end().await;
    audit.set_back(&connect(url).await, early.end().stream_sequence).await;
    let begin = Instant::now();
    assert_eq!(patch(&cluster.client(&command), &ids[2]).await, StatusCode::OK);
    println!("a command that needs history is answered after {:?}, with the tail read again", begin.elapsed());
    assert!(begin.elapsed() < READ * SLACK);

    let _projector = cluster.node("projector", "projector", &[], &[]);
    cluster.audit().await.assert_projected(url).await;
    assert_nothing_lost(&cluster.servers);
}
