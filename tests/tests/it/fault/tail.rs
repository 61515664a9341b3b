//! The tail of the log, which history does not have yet, is bounded; up to the bound, writes do not need history.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::json;
use tests::{
    client::{Answer, Client, TARGETS, send, target},
    cluster::{Cluster, is_writer},
    eventually,
    proxy::Proxy,
};
use tokio::time::Instant;

const RECOVERY: Duration = Duration::from_secs(3);
const SLACK: u32 = 5;

async fn create(client: &Client, name: &str) -> Answer {
    send(client.request(Method::POST, TARGETS).json(&target(name))).await
}

#[tokio::test]
async fn writes_are_refused_while_history_lags_too_far() {
    let cluster = Cluster::start().await;
    let mut command = cluster.node("command", "command", &[("--tail-limit", "20000")], &[]);
    let projector = cluster.node("projector", "projector", &[], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    assert_eq!(create(&client, "first").await.status, StatusCode::CREATED);

    projector.process.signal(Signal::STOP);
    let mut created = 0;
    let refused = loop {
        let answer = create(&client, &format!("target {created}")).await;
        if answer.status != StatusCode::CREATED {
            break answer;
        }
        created += 1;
        assert!(created < 100, "the tail has a bound");
    };
    println!("refused after {created} creates: {}", refused.body);
    assert_eq!((refused.status, refused.reason()), (StatusCode::SERVICE_UNAVAILABLE, "WRITER_UNAVAILABLE"));
    assert!(refused.body["message"].as_str().is_some_and(|message| message.contains("lags too far")));
    assert!(refused.headers.contains_key("retry-after"));

    // A new writer does not begin while it would be beyond the bound.
    command.process.kill().await;
    let command = cluster.node("command", "command", &[("--tail-limit", "5000")], &[]);
    let client = cluster.client(&command);
    eventually("the new writer waits", || async { command.log().contains("waiting for history").then_some(()) }).await;
    assert!(!is_writer(&client).await);

    projector.process.signal(Signal::CONT);
    let begin = Instant::now();
    eventually("creates again", || async { client.create_target("last").await }).await;
    println!("writes flow {:?} after the projector is back", begin.elapsed());
    assert!(begin.elapsed() < RECOVERY * SLACK);
    let audit = cluster.audit().await;
    assert_eq!(audit.created().len(), created + 2);
    audit.assert_projected(&cluster.servers.places.postgres_url).await;
}

#[tokio::test]
async fn hot_aggregates_are_written_while_postgres_is_away() {
    let cluster = Cluster::start().await;
    let places = &cluster.servers.places;
    let (proxy, through) = Proxy::before(&places.postgres_url).await;
    let through = [("--postgres-url", through.as_str())];
    let command = cluster.node("command", "command", &through, &[]);
    let _projector = cluster.node("projector", "projector", &through, &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    let id = client.create_target("hot").await.expect("it writes");

    proxy.cut();
    let begin = Instant::now();
    let mut patched = 0;
    // Longer than anything is cached without being asked for again.
    while begin.elapsed() < Duration::from_secs(5) {
        patched += 1;
        let request = client.request(Method::PATCH, &format!("{TARGETS}/{id}"));
        let answer = send(request.json(&json!({ "name": format!("hot {patched}") }))).await;
        assert_eq!(answer.status, StatusCode::OK, "after {:?}: {answer:?}", begin.elapsed());
    }
    assert_eq!(create(&client, "created").await.status, StatusCode::CREATED);
    let cold = send(client.request(Method::PATCH, &format!("{TARGETS}/1")).json(&json!({ "name": "cold" }))).await;
    assert_eq!((cold.status, cold.reason()), (StatusCode::SERVICE_UNAVAILABLE, "WRITER_UNAVAILABLE"));

    proxy.open();
    let begin = Instant::now();
    let audit = cluster.audit().await;
    assert_eq!(audit.events_of(&id).len(), patched + 1);
    audit.assert_projected(&places.postgres_url).await;
    println!("{patched} patches while Postgres was away; it has them {:?} after it is back", begin.elapsed());
    // A projection that could not go on pauses for at most 10 s.
    assert!(begin.elapsed() < Duration::from_secs(10) * SLACK);
}
