//! Writers that are stopped, resumed or doubled: only one at a time writes and answers.

use std::time::Duration;

use async_nats::jetstream;
use domain::log_class::LogClass;
use eventlog::log::Log;
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, send, target},
    cluster::{Cluster, Node},
    eventually,
    load::Load,
};
use tokio::{task::JoinHandle, time::Instant};

/// How long a takeover may take: a lease ends 3.5 s after its last renewal, less in most tests; then the next writer
/// raises its barrier.
const TAKE_OVER: Duration = Duration::from_secs(5);
const SLACK: u32 = 5;
/// How long a lease lasts at least after its holder is stopped: it was renewed a second before at most.
const LEFT: Duration = Duration::from_millis(2400);
/// How often two nodes take over the writing from each other.
const TAKE_OVERS: u64 = 20;

/// A cluster with a projector and two command nodes, of which the first writes.
async fn two_writers(cluster: Cluster, environment: &[(&str, &str)]) -> (Cluster, Node, [Node; 2]) {
    let projector = cluster.node("projector", "projector", &[], &[]);
    let first = cluster.node("command", "first", &[], environment);
    cluster.writes(&first).await;
    let second = cluster.node("command", "second", &[("--node-number", "1")], &[]);
    (cluster, projector, [first, second])
}

/// Sends a request to a node that cannot answer now.
fn send_to_stopped(client: &Client, method: Method, path: &str, body: Option<Value>) -> JoinHandle<Answer> {
    let request = client.request(method, path);
    tokio::spawn(send(match body {
        Some(body) => request.json(&body),
        None => request,
    }))
}

fn assert_not_served(answer: &Answer, what: &str) {
    assert_eq!(
        (answer.status, answer.reason()),
        (StatusCode::SERVICE_UNAVAILABLE, "WRITER_UNAVAILABLE"),
        "{what}: {answer:?}"
    );
}

#[tokio::test]
async fn a_writer_that_was_stopped_neither_writes_nor_answers() {
    let (cluster, _projector, [first, second]) = two_writers(Cluster::start().await, &[]).await;
    let (at_first, at_second) = (cluster.client(&first), cluster.client(&second));
    let renamed = at_first.create_target("before").await.expect("the first writes");
    let removed = at_first.create_target("removed").await.expect("the first writes");
    let path = |id: &str| format!("{TARGETS}/{id}");

    let load = Load::start(std::slice::from_ref(&at_first), 4, "first");
    load.creates(10).await;
    first.process.signal(Signal::STOP);
    let gap = cluster.writes(&second).await;
    println!("another node writes after {gap:?}");
    assert!(gap > LEFT, "as long as the lease of a user lasts");
    let renaming = send(at_second.request(Method::PATCH, &path(&renamed)).json(&json!({ "name": "after" }))).await;
    assert_eq!(renaming.status, StatusCode::OK);
    assert_eq!(send(at_second.request(Method::DELETE, &path(&removed))).await.status, StatusCode::OK);
    let added = at_second.create_target("added").await.expect("the second writes");

    // What the first node remembers would make these a success without an event, a success, two refusals and an event.
    // It answers none of them; those that reach it when it knows that it no longer writes are decided by the second.
    let change = |id: &str, body| send_to_stopped(&at_first, Method::PATCH, &path(id), Some(body));
    let asked = [
        ("no change", change(&renamed, json!({ "name": "before" })), 200),
        ("a change of what is gone", change(&removed, json!({ "name": "removed" })), 404),
        ("a change of what it never saw", change(&added, json!({ "timeout": "1s" })), 200),
        ("what never was", send_to_stopped(&at_first, Method::DELETE, &path("0"), None), 404),
        ("an event", send_to_stopped(&at_first, Method::POST, TARGETS, Some(target("by the stopped"))), 201),
    ];
    first.process.signal(Signal::CONT);
    let mut passed_on = vec![];
    for (what, answer, right) in asked {
        let answer = answer.await.expect("the client is not cancelled");
        if answer.status.as_u16() == right {
            assert!(!answer.status.is_success() || answer.sequence() > renaming.sequence(), "{what}: {answer:?}");
            passed_on.push(what);
        } else {
            assert_not_served(&answer, what);
        }
    }
    println!("passed on to the second: {passed_on:?}");
    assert!(at_second.create_target("at the end").await.is_some(), "the second still writes");
    let told = load.finish().await;

    let audit = cluster.audit().await;
    let mut created = audit.created();
    assert_eq!(created.remove("by the stopped").is_some(), passed_on.contains(&"an event"));
    for name in ["before", "removed", "added", "at the end"] {
        assert_eq!(created.remove(name).map(|ids| ids.len()), Some(1), "{name}");
    }
    for (name, id) in &told.acknowledged {
        assert_eq!(created.get(name), Some(&vec![id.clone()]));
    }
    audit.assert_projected(&cluster.servers.places.postgres_url).await;
}

#[tokio::test]
async fn a_writer_that_was_stopped_in_the_middle_of_a_commit_changes_nothing() {
    // What comes by before the second create: a first create, and a barrier that is published.
    for (point, hit, is_in_the_log) in [
        ("commit.decided", 2, false),
        ("commit.publishing", 3, false),
        ("commit.published", 3, true),
        ("commit.answering", 2, true),
        ("commit.answered", 2, true),
    ] {
        let (cluster, _projector, [first, second]) = two_writers(
            Cluster::start_with_short_leases().await,
            &[("PLATFORM_FAULT", &format!("{point}:{hit}:stop"))],
        )
        .await;
        let (at_first, at_second) = (cluster.client(&first), cluster.client(&second));
        assert!(at_first.create_target("one").await.is_some());
        let stopped = send_to_stopped(&at_first, Method::POST, TARGETS, Some(target("two")));
        let gap = cluster.writes(&second).await;
        println!("stopped at {point}: another node writes after {gap:?}");
        assert!(gap < TAKE_OVER * SLACK);
        assert!(at_second.create_target("three").await.is_some());
        first.process.signal(Signal::CONT);
        let answer = stopped.await.expect("the client is not cancelled");
        if is_in_the_log {
            assert_eq!(answer.status, StatusCode::CREATED, "it was committed: {answer:?}");
        } else {
            assert_not_served(&answer, point);
        }
        eventually("the first node has stepped down", || async {
            first.log().contains("no longer writes").then_some(())
        })
        .await;
        assert!(at_second.create_target("four").await.is_some());
        let created = cluster.audit().await.created();
        assert_eq!(created.contains_key("two"), is_in_the_log, "{point}");
        assert!(["one", "three", "four"].iter().all(|name| created.contains_key(*name)));
    }
}

#[tokio::test]
async fn a_writer_that_was_stopped_after_its_decision_does_not_say_that_nothing_changed() {
    // The first answers without a record were that all references are noted, and that it writes.
    let fault = [("PLATFORM_FAULT", "commit.confirming:3:stop")];
    let (cluster, _projector, [first, second]) = two_writers(Cluster::start_with_short_leases().await, &fault).await;
    let (at_first, at_second) = (cluster.client(&first), cluster.client(&second));
    let path = format!("{TARGETS}/{}", at_first.create_target("before").await.expect("the first writes"));
    let stopped = send_to_stopped(&at_first, Method::PATCH, &path, Some(json!({ "name": "before" })));
    eventually("the first stands still", || async { first.process.is_stopped().then_some(()) }).await;
    cluster.writes(&second).await;
    let renaming = send(at_second.request(Method::PATCH, &path).json(&json!({ "name": "after" }))).await;
    assert_eq!(renaming.status, StatusCode::OK);
    first.process.signal(Signal::CONT);
    assert_not_served(&stopped.await.expect("the client is not cancelled"), "no change");
    cluster.audit().await;
}

#[tokio::test]
async fn two_nodes_that_both_believe_to_be_the_writer_are_fenced_by_the_log() {
    let cluster = Cluster::start_with_short_leases().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let first = cluster.node("command", "first", &[], &[]);
    cluster.writes(&first).await;
    let nodes = [first, cluster.node("command", "second", &[("--node-number", "1")], &[])];
    // Each is told again and again that the other has given the lease up.
    let bucket = jetstream::new(cluster.servers.nats().await).get_key_value("HOLDERS").await.expect("it is there");
    let giving_up = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            bucket.delete("writer.0").await.expect("NATS is there");
        }
    });
    let clients = nodes.each_ref().map(|node| cluster.client(node));
    let loads = [("left", 0), ("right", 1)].map(|(name, node)| Load::start(&[clients[node].clone()], 4, name));
    for load in &loads {
        load.creates(1).await;
    }
    let log = Log::open(cluster.servers.nats().await, LogClass::Events, 0, 1).await.expect("the log is there");
    let epoch = async || log.last().await.ok()?.map(|record| record.commit.epoch);
    let begin = epoch().await.expect("the log was set up");
    eventually("each takes over from the other", async || (epoch().await? >= begin + TAKE_OVERS).then_some(())).await;
    giving_up.abort();
    let [left, right] = loads;
    let (mut told, right) = tokio::join!(left.finish(), right.finish());
    println!(
        "acknowledged: {} and {}; not served: {:?} and {:?}",
        told.acknowledged.len(),
        right.acknowledged.len(),
        told.refused,
        right.refused
    );
    assert!(!told.acknowledged.is_empty() && !right.acknowledged.is_empty(), "both have written");
    told.add(right);

    let audit = cluster.audit().await;
    let epochs = audit.records.iter().map(|record| record.commit.epoch).max();
    println!("{} records, {} events, {epochs:?} epochs", audit.records.len(), audit.events.len());
    audit.assert_told(&told);
    audit.assert_projected(&cluster.servers.places.postgres_url).await;
}

#[tokio::test]
async fn a_writer_that_one_of_its_name_has_replaced_says_nothing_of_before() {
    let cluster = Cluster::start_with_short_leases().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let first = cluster.node("command", "same", &[], &[]);
    cluster.writes(&first).await;
    let at_first = cluster.client(&first);
    let path = format!("{TARGETS}/{}", at_first.create_target("before").await.expect("the first writes"));
    first.process.signal(Signal::STOP);
    let second = cluster.node("command", "same", &[("--node-number", "1")], &[]);
    cluster.writes(&second).await;
    let renaming = send(cluster.client(&second).request(Method::PATCH, &path).json(&json!({ "name": "after" }))).await;
    assert_eq!(renaming.status, StatusCode::OK);
    first.process.signal(Signal::CONT);
    // To the first this is no change, of which it needs no record.
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        let answer = send(at_first.request(Method::PATCH, &path).json(&json!({ "name": "before" }))).await;
        assert!(!answer.status.is_success() || answer.sequence() > renaming.sequence(), "{answer:?}");
        if answer.status.is_success() {
            break;
        }
    }
    cluster.audit().await;
}

#[tokio::test]
async fn a_writer_that_was_overtaken_before_it_read_history_steps_down() {
    let cluster = Cluster::start_with_short_leases().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    // One name for both, so that the first hears of the second by the log alone, and not by the lease.
    let first = cluster.node("command", "twin", &[], &[("PLATFORM_FAULT", "activate.barrier:1:stop")]);
    eventually("the first stands still", || async { first.process.is_stopped().then_some(()) }).await;
    let second = cluster.node("command", "twin", &[("--node-number", "1")], &[]);
    cluster.writes(&second).await;
    assert!(cluster.client(&second).create_target("one").await.is_some());
    cluster.tail_is_forgotten().await;
    first.process.signal(Signal::CONT);
    eventually("the first has stepped down", || async { first.log().contains("no longer writes").then_some(()) }).await;
    drop(second);
    println!("the first writes after {:?}", cluster.writes(&first).await);
    assert!(cluster.client(&first).create_target("two").await.is_some());
    cluster.audit().await;
}
