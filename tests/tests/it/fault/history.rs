//! Postgres loses commits, is unavailable, or is empty: the log has the truth.

use std::{fs, path::Path, time::Duration};

use reqwest::{Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tests::{
    auditor::{Audit, connect, dump},
    client::{Client, TARGETS, send},
    cluster::{Cluster, Node},
    eventually,
    load::Load,
    platform::Platform,
    process::server,
    proxy::Proxy,
};
use tokio::time::Instant;
use view::projection::ACCESS;

const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
/// How long read models may lag after a loss.
const HEALED: Duration = Duration::from_secs(3);
const SLACK: u32 = 5;

async fn start() -> (Cluster, Node, Client) {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    (cluster, command, client)
}

async fn patch(client: &Client, id: &str, body: Value) -> (StatusCode, Value) {
    let answer = send(client.request(Method::PATCH, &format!("{TARGETS}/{id}")).json(&body)).await;
    (answer.status, answer.body)
}

#[tokio::test]
async fn commands_decide_on_the_log_when_history_lost_its_last_commits() {
    let (cluster, mut command, client) = start().await;
    let mut projector = cluster.node("projector", "projector", &[], &[]);
    let url = &cluster.servers.places.postgres_url;
    let cold = client.create_target("cold").await.expect("it writes");
    let removed = client.create_target("removed").await.expect("it writes");
    let early = cluster.audit().await.end().stream_sequence;
    let keyed = client.request(Method::POST, TARGETS).header("idempotency-key", "key");
    let keyed = send(keyed.json(&tests::client::target("keyed"))).await;
    for number in 1..=5 {
        assert_eq!(patch(&client, &cold, json!({ "name": format!("cold {number}") })).await.0, StatusCode::OK);
    }
    assert_eq!(send(client.request(Method::DELETE, &format!("{TARGETS}/{removed}"))).await.status, StatusCode::OK);
    let organization = || client.request(Method::POST, ORGANIZATIONS).json(&json!({ "name": "Taken" }));
    assert_eq!(send(organization()).await.status, StatusCode::CREATED);
    cluster.audit().await.assert_projected(url).await;

    // A writer that knows none of them, and has forgotten the tail, because history has it.
    command.process.end().await;
    let command = cluster.node("command", "command", &[], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    let hot = client.create_target("hot").await.expect("it writes");
    let audit = cluster.audit().await;
    audit.assert_projected(url).await;
    cluster.tail_is_forgotten().await;
    projector.process.end().await;
    audit.set_back(&connect(url).await, early).await;

    assert_eq!(patch(&client, &hot, json!({ "name": "hot 1" })).await.0, StatusCode::OK);
    let unchanged = patch(&client, &cold, json!({ "name": "cold 5" })).await;
    assert_eq!(unchanged.0, StatusCode::OK);
    let last = audit.events_of(&cold).last().expect("it has events").sequence;
    assert_eq!(unchanged.1["details"]["sequence"], json!(last.to_string()), "nothing changed, at its true sequence");
    assert_eq!(patch(&client, &cold, json!({ "name": "cold 6" })).await.0, StatusCode::OK);
    assert_eq!(patch(&client, &removed, json!({ "name": "back" })).await.0, StatusCode::NOT_FOUND);
    let organization = client.request(Method::POST, ORGANIZATIONS).json(&json!({ "name": "Taken" }));
    send(organization).await.assert_refused("a name that is taken", 409, "RESOURCE_EXISTS");
    let again = client.request(Method::POST, TARGETS).header("idempotency-key", "key");
    let again = send(again.json(&tests::client::target("keyed"))).await;
    assert_eq!((again.status, &again.body), (StatusCode::CREATED, &keyed.body), "the same command, the same answer");

    let audit = cluster.audit().await;
    assert_eq!(audit.events_of(&cold).len(), 7, "created, five patches, one more");
    assert_eq!(audit.events_of(&removed).len(), 2);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    audit.assert_projected(url).await;
}

#[tokio::test]
async fn read_models_heal_without_a_further_event() {
    let (cluster, _command, client) = start().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let url = &cluster.servers.places.postgres_url;
    for number in 0..10 {
        client.create_target(&format!("target {number}")).await.expect("it writes");
    }
    let audit = cluster.audit().await;
    audit.assert_projected(url).await;
    audit.set_back(&connect(url).await, audit.end().stream_sequence - 5).await;
    let begin = Instant::now();
    audit.assert_projected(url).await;
    println!("healed after {:?}", begin.elapsed());
    assert!(begin.elapsed() < HEALED * SLACK);
}

#[tokio::test]
async fn what_cannot_be_read_for_one_command_is_read_for_the_others() {
    let (cluster, mut command, client) = start().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let mut ids = vec![];
    for number in 0..20 {
        ids.push(client.create_target(&format!("target {number}")).await.expect("it writes"));
    }
    let url = &cluster.servers.places.postgres_url;
    cluster.audit().await.wait_projected(url).await;
    // A writer that knows none of them, and waits for NATS when they are asked for: all at once, in one load.
    command.process.end().await;
    let proxy = Proxy::start(cluster.servers.places.nats_url.trim_start_matches("nats://")).await;
    let command = cluster.node("command", "command", &[("--nats-url", &format!("nats://{}", proxy.address))], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    client.create_target("makes everything about the caller known").await.expect("it writes");
    cluster.tail_is_forgotten().await;
    let text = "alter table history_2.events alter payload drop not null; \
                update history_2.events set payload = null where aggregate_id = any(string_to_array($$ID$$, ','))";
    let text = text.replace("ID", &format!("{},{}", ids[3], ids[11]));
    connect(url).await.batch_execute(&text).await.expect("Postgres is there");

    proxy.silence();
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.create_target("first").await }
    });
    eventually("its publish is on its way", || async { (proxy.waiting() > 0).then_some(()) }).await;
    let patches: Vec<_> = ids
        .iter()
        .map(|id| {
            let (client, id) = (client.clone(), id.clone());
            tokio::spawn(async move { patch(&client, &id, json!({ "timeout": "3s" })).await.0 })
        })
        .collect();
    let all = f64::from(1 + u32::try_from(ids.len()).expect("they are few"));
    eventually("all wait for their turn", async || {
        (command.management.sum("platform_commands_waiting", &[]).await >= all).then_some(())
    })
    .await;
    proxy.open();
    assert!(first.await.expect("it is not cancelled").is_some());
    for (number, patched) in patches.into_iter().enumerate() {
        let is_guilty = [3, 11].contains(&number);
        let wanted = if is_guilty { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        assert_eq!(patched.await.expect("it is not cancelled"), wanted, "{number}");
    }
    let said = command.log();
    let alone = said.lines().filter(|line| line.contains("history cannot be read") && line.contains("\"commands\":1,"));
    assert_eq!(alone.count(), 2, "{said}");
}

#[tokio::test]
async fn a_history_of_another_log_ends_the_writer() {
    let (cluster, mut command, client) = start().await;
    let mut projector = cluster.node("projector", "projector", &[], &[]);
    client.create_target("target").await.expect("it writes");
    let (audit, url) = (cluster.audit().await, &cluster.servers.places.postgres_url);
    audit.wait_projected(url).await;
    for process in [&mut command.process, &mut projector.process] {
        process.end().await;
    }
    let (postgres, end) = (connect(url).await, audit.end().stream_sequence);
    let other = "digest = decode(repeat('ab', 32), 'hex')".to_owned();
    for (change, complaint) in [
        (other, format!("history is at message {end}, which is a different record in EVENTS_0")),
        // A take-over adds a record, twice by now.
        (format!("stream_sequence = {}", end + 9), format!("history is at message {}, but EVENTS_0 ends at", end + 9)),
    ] {
        let text = format!("update platform.checkpoints set {change} where projection = 'history'");
        postgres.batch_execute(&text).await.expect("Postgres is there");
        let mut command = cluster.node("command", "command", &[], &[]);
        assert!(!command.process.ended().await.success(), "{complaint}");
        let said = command.log();
        assert!(said.lines().any(|line| line.starts_with(&format!("platform: {complaint}"))), "{complaint}: {said}");
    }
}

#[tokio::test]
async fn a_postgres_that_crashes_and_loses_commits_is_brought_up_to_date() {
    let (cluster, _command, client) = start().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let url = &cluster.servers.places.postgres_url;
    let id = client.create_target("patched").await.expect("it writes");
    let load = Load::start(std::slice::from_ref(&client), 4, "load");
    load.creates(20).await;
    cluster.audit().await.wait_projected(url).await;

    // Without its WAL writer Postgres keeps asynchronous commits in memory only; then it crashes.
    let postmaster = server(&cluster.servers.folder(), "postgres").expect("Postgres runs");
    let walwriter = child(postmaster, "walwriter").expect("Postgres has one");
    kill_process(walwriter, Signal::STOP).expect("it is there");
    load.creates(200).await;
    cluster.audit().await.wait_projected(url).await;
    let before = history_stands_at(url).await.expect("Postgres is there");
    kill_process(walwriter, Signal::KILL).expect("it is there");
    let begin = Instant::now();
    let after = eventually("Postgres has recovered", || history_stands_at(url)).await;
    println!("history stood at message {before} before the crash and at {after} after {:?}", begin.elapsed());
    load.creates(20).await;
    println!("creates go on after {:?}", begin.elapsed());
    for number in 0..3 {
        let patched = eventually("a patch", || async {
            let answer = patch(&client, &id, json!({ "name": format!("patched {number}") })).await;
            (answer.0 == StatusCode::OK).then_some(())
        });
        patched.await;
    }
    let told = load.finish().await;
    println!("{} acknowledged, not served: {:?}", told.acknowledged.len(), told.refused);
    let audit = cluster.audit().await;
    assert_eq!(audit.events_of(&id).len(), 4);
    audit.assert_projected(url).await;
    println!("healed after {:?}", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(12) * SLACK);
}

async fn history_stands_at(url: &str) -> Option<i64> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.ok()?;
    tokio::spawn(connection);
    let text = "select stream_sequence from platform.checkpoints where projection = 'history'";
    Some(client.query_one(text, &[]).await.ok()?.get(0))
}

/// Finds the child of a process with this word in its command line.
fn child(parent: Pid, word: &str) -> Option<Pid> {
    let parent = parent.as_raw_nonzero().to_string();
    let is_child = |process: &Path| {
        let read = |file: &str| fs::read_to_string(process.join(file)).unwrap_or_default();
        let stat = read("stat");
        let of = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        of == Some(parent.as_str()) && read("cmdline").contains(word)
    };
    let mut processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let found = processes.find(|process| is_child(process))?;
    Pid::from_raw(found.file_name()?.to_str()?.parse().ok()?)
}

#[tokio::test]
async fn an_empty_postgres_is_filled_from_the_log() {
    let mut platform = Platform::start().await;
    platform.ready().await;
    let client = platform.client().await;
    let mut ids = vec![];
    for number in 0..20 {
        ids.push(client.create_target(&format!("target {number}")).await.expect("it writes"));
    }
    for id in &ids[..10] {
        assert_eq!(patch(&client, id, json!({ "timeout": "2s", "isAsync": true })).await.0, StatusCode::OK);
    }
    let mut last = String::new();
    for id in &ids[..5] {
        let deleted = send(client.request(Method::DELETE, &format!("{TARGETS}/{id}"))).await;
        last = deleted.consistency();
    }
    let (bodies, rows) = (bodies_of(&client, &ids, &last).await, rows_of(&platform).await);

    platform.stop().await;
    fs::remove_dir_all(platform.data().join("postgres")).expect("it is there");
    let begin = Instant::now();
    platform.restart(&[]).await;
    println!("started without Postgres's data within {:?}", begin.elapsed());
    let client = platform.client().await;
    assert_eq!(bodies_of(&client, &ids, &last).await, bodies, "the same answers");
    assert_eq!(rows_of(&platform).await, rows, "the same rows");
    let again = patch(&client, &ids[10], json!({ "name": "afterwards" })).await;
    assert_eq!(again.0, StatusCode::OK, "it is complete for commands too");
}

#[tokio::test]
async fn read_models_that_are_dropped_come_back_without_a_restart() {
    let platform = Platform::start().await;
    platform.ready().await;
    let client = platform.client().await;
    let mut ids = vec![];
    for number in 0..10 {
        let keyed = client.request(Method::POST, TARGETS).header("idempotency-key", number.to_string());
        ids.push(send(keyed.json(&tests::client::target(&format!("target {number}")))).await.id());
    }
    assert_eq!(patch(&client, &ids[0], json!({ "timeout": "2s", "isAsync": true })).await.0, StatusCode::OK);
    let last = send(client.request(Method::DELETE, &format!("{TARGETS}/{}", ids[1]))).await.consistency();
    let (bodies, rows) = (bodies_of(&client, &ids, &last).await, rows_of(&platform).await);
    let (url, audit) = (platform.postgres_url(), audit_of(&platform).await);
    let table = "drop table history_2.events";
    let platform_only = "drop schema platform cascade";
    let access = ACCESS.sql("drop schema {schema} cascade");
    let all = ACCESS.sql("drop schema targets_1, history_2, {schema}, platform cascade");
    for dropping in ["drop schema targets_1 cascade", &access, table, platform_only, &all] {
        let begin = Instant::now();
        connect(&url).await.batch_execute(dropping).await.expect("Postgres is there");
        // Rows without a checkpoint are not what they were: they are made again.
        audit.wait_projected(&url).await;
        eventually("the same rows", || async { (dump(&url).await == rows).then_some(()) }).await;
        eventually("the same answers", || async { (bodies_of(&client, &ids, &last).await == bodies).then_some(()) })
            .await;
        println!("{dropping}: the same rows and answers after {:?}", begin.elapsed());
        assert!(begin.elapsed() < HEALED * SLACK);
        assert_eq!(dump(&url).await, rows, "{dropping}");
        let unchanged = patch(&client, &ids[2], json!({ "name": "target 2" })).await;
        assert_eq!(unchanged.0, StatusCode::OK, "{dropping}: commands go on");
    }
    assert_eq!(patch(&client, &ids[3], json!({ "name": "afterwards" })).await.0, StatusCode::OK);
    rows_of(&platform).await;
}

async fn bodies_of(client: &Client, ids: &[String], consistency: &str) -> Vec<(StatusCode, Value)> {
    let mut bodies = vec![];
    for id in ids {
        let mut answer = client.get_target(id, Some(consistency)).await;
        // Errors name their request.
        if let Some(details) = answer.body["details"].as_array_mut() {
            details.retain(|detail| detail["requestId"].is_null());
        }
        bodies.push((answer.status, answer.body));
    }
    bodies
}

async fn audit_of(platform: &Platform) -> Audit {
    let (url, token) = platform.nats();
    Audit::of(async_nats::ConnectOptions::with_token(token).connect(url).await.expect("NATS is there")).await
}

/// Returns all rows, once all projections have the complete log.
async fn rows_of(platform: &Platform) -> std::collections::BTreeMap<String, Vec<String>> {
    let url = platform.postgres_url();
    audit_of(platform).await.assert_projected(&url).await;
    dump(&url).await
}
