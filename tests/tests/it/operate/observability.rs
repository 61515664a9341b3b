//! The management port: health, version and metrics of real nodes.

use std::{io::Write, net::TcpStream};

use reqwest::Method;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tests::{
    client::{TARGETS, send, target},
    cluster::{Cluster, Node},
    eventually,
    management::Management,
    platform::Platform,
    process::server,
};

/// Waits until a part of the node is in this state, and returns its report.
async fn in_state(management: &Management, part: &str, state: &str) -> Value {
    let probe = || async { management.check(part).await.filter(|check| check["state"] == state) };
    eventually(&format!("{part} is {state}"), probe).await
}

/// Waits until the node reports that it is ready.
async fn ready(node: &Node) -> Value {
    let probe = || async { node.management.readiness().await.filter(|(status, _)| *status == 200) };
    eventually("a node that is ready", probe).await.1
}

#[tokio::test]
async fn a_node_tells_how_it_is_and_what_it_is() {
    let mut platform = Platform::start().await;
    platform.ready().await;
    let management = platform.management();
    assert_eq!(management.get("/livez").await, Some((200, "ok\n".to_owned())));
    // It answers requests before the last of its parts says that it has begun.
    let readiness = eventually("a platform that is ready", async || {
        management.readiness().await.filter(|(status, _)| *status == 200).map(|(_, readiness)| readiness)
    });
    let readiness = readiness.await;
    assert_eq!((&readiness["role"], &readiness["state"]), (&json!("standalone"), &json!("ready")));
    for part in ["node", "nats", "postgres", "writer", "projection.history", "projection.targets_index"] {
        in_state(&management, part, "ok").await;
    }
    let (end, _) = platform.log_end().await;
    // The lag is that of the last report, which may be of before the end.
    let has_all = |check: &Value| check["place"]["sequence"] == end && check["place"]["lagEvents"] == 0;
    eventually("targets have it all", async || management.check("projection.targets").await.filter(has_all)).await;

    let (_, version) = management.get("/version").await.expect("it answers");
    let version: Value = serde_json::from_str(&version).expect("it is JSON");
    assert_eq!(version["name"], "platform");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(version["rust"].as_str().is_some_and(|rust| rust.starts_with("rustc 1.")), "{version}");
    assert_eq!(version["events"]["target"], 1, "{version}");

    platform.stop().await;
    assert!(!platform.data().join("management.address").exists(), "nobody listens there any more");
}

#[tokio::test]
async fn a_node_that_was_told_to_end_is_not_ready_at_once() {
    let mut platform = Platform::start().await;
    platform.ready().await;
    let management = platform.management();
    // A request that never ends is waited for.
    let address = platform.bootstrap.issuer.trim_start_matches("http://").to_owned();
    let mut slow = TcpStream::connect(&address).expect("it listens");
    let head = format!("POST {TARGETS} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 100\r\n\r\nx");
    slow.write_all(head.as_bytes()).expect("it takes it");
    let probe = || async { (management.sum("platform_requests_in_flight", &["http"]).await > 0.5).then_some(()) };
    eventually("the request is under way", probe).await;
    platform.process().signal(Signal::TERM);
    let told = eventually("it says so", || async {
        let (status, readiness) = management.readiness().await?;
        (status == 503).then_some(readiness)
    });
    assert_eq!(told.await["state"], "draining");
    assert_eq!(management.get("/livez").await.map(|(status, _)| status), Some(200), "it lives on until the end");
    assert!(platform.process().ended().await.success());
    drop(slow);
}

#[tokio::test]
async fn what_happens_is_counted() {
    let platform = Platform::start().await;
    platform.ready().await;
    let (client, management) = (platform.client().await, platform.management());
    let create = || client.request(Method::POST, TARGETS).json(&target("counted")).header("idempotency-key", "one");
    let created = send(create()).await;
    assert_eq!(send(create()).await.headers["idempotency-replayed"], "true");
    assert_eq!(client.get_target(&created.id(), Some(&created.consistency())).await.status, 200);
    assert_eq!(client.get_target("0", None).await.status, 404);
    let unpaid = send(client.anonymous(Method::GET, &format!("{TARGETS}/0"))).await;
    assert_eq!(unpaid.status, 401);

    let (end, _) = platform.log_end().await;
    let short = |count: u64| u32::try_from(count).map(f64::from).expect("it is short");
    let end = short(end);
    let units = short(view::projection::PROJECTIONS.len() as u64);
    let expected: &[(&str, &[&str], f64)] = &[
        // The replayed command is a success as well.
        ("platform_requests_total", &["\"CreateTarget\"", "\"OK\"", "\"http\""], 2.),
        ("platform_requests_total", &["\"GetTarget\"", "\"OK\"", ".PlatformActions\""], 1.),
        ("platform_requests_total", &["\"GetTarget\"", "\"NOT_FOUND\""], 1.),
        ("platform_requests_total", &["\"GetTarget\"", "\"UNAUTHENTICATED\""], 1.),
        ("platform_requests_total", &["\"oauth\"", "\"token\"", "\"OK\""], 1.),
        ("platform_request_duration_seconds_count", &["\"GetTarget\""], 3.),
        ("platform_requests_in_flight", &[], 0.),
        ("platform_commands_waiting", &[], 0.),
        ("platform_commands_replayed_total", &[], 1.),
        ("platform_token_issued_total", &["\"client_credentials\""], 1.),
        ("platform_token_duration_seconds_count", &[], 1.),
        ("platform_commit_duration_seconds_count", &[], 2.),
        ("platform_commit_batch_size_sum", &[], end),
        ("platform_log_last_sequence", &[], end),
        ("platform_writer_active", &[], 1.),
        ("platform_writer_epoch", &[], 1.),
        ("platform_lease_held", &["\"writer\""], 1.),
        // Two more are of who compares their generations, and of who checks them against the log.
        ("platform_lease_held", &["\"projection\""], units + 2.),
        ("platform_nats_connected", &[], 2.),
        ("platform_db_pool_size", &["\"reads\""], 8.),
        ("platform_db_pool_size", &["\"audit\""], 6.),
    ];
    for (name, labels, count) in expected {
        let found = management.sum(name, labels).await;
        assert!((found - count).abs() < 0.1, "{name} of {labels:?} is {found}, not {count}");
    }
    assert!(management.sum("platform_consistency_wait_seconds_count", &["reached"]).await > 0.5);
    for positive in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
        assert!(management.sum(positive, &[]).await > 0., "{positive}");
    }
}

#[tokio::test]
async fn a_read_node_stays_ready_without_writer_and_bus() {
    let cluster = Cluster::start().await;
    let mut command = cluster.node("command", "command", &[], &[]);
    let projector = cluster.node("projector", "projector", &[], &[]);
    let (query, oidc) = (cluster.node("query", "query", &[], &[]), cluster.node("oidc", "oidc", &[], &[]));
    cluster.writes(&command).await;
    let id = cluster.client(&command).create_target("kept").await.expect("it writes");
    for (node, role) in [(&command, "command"), (&projector, "projector"), (&query, "query"), (&oidc, "oidc")] {
        let readiness = ready(node).await;
        assert_eq!((&readiness["role"], &readiness["node"]), (&json!(role), &json!(role)));
    }
    let reader = cluster.client(&query);
    let probe = || async { (reader.get_target(&id, None).await.status == 200).then_some(()) };
    eventually("the target can be read", probe).await;
    in_state(&query.management, "index.targets_index", "ok").await;

    command.process.kill().await;
    for node in [&query, &oidc] {
        assert_eq!(node.management.readiness().await.map(|(status, _)| status), Some(200));
    }
    let nats = server(&cluster.servers.folder(), "nats").expect("it runs");
    kill_process(nats, Signal::KILL).expect("it is there");
    for node in [&query, &oidc, &projector] {
        // Each connection notices it by itself.
        let both = async || {
            let check = node.management.check("nats").await?;
            (check["state"] == "degraded" && check["reason"].as_str()?.contains("main, reading")).then_some(())
        };
        eventually("both connections are lost", both).await;
        let (status, readiness) = node.management.readiness().await.expect("it answers");
        assert_eq!((status, &readiness["state"]), (200, &json!("degraded")), "{readiness}");
        assert!(node.management.sum("platform_nats_connected", &[]).await < 0.5);
    }
    assert_eq!(reader.get_target(&id, None).await.status, 200, "it serves from what it has");
}

#[tokio::test]
async fn a_standby_is_ready_and_says_so() {
    let cluster = Cluster::start().await;
    let mut first = cluster.node("command", "first", &[], &[]);
    let mut working = cluster.node("projector", "working", &[], &[]);
    cluster.writes(&first).await;
    in_state(&working.management, "projection.targets", "ok").await;
    let second = cluster.node("command", "second", &[("--node-number", "1")], &[]);
    let waiting = cluster.node("projector", "waiting", &[], &[]);
    for (node, part) in [(&second, "writer"), (&waiting, "projection.targets"), (&waiting, "projection.targets_index")]
    {
        assert_eq!(ready(node).await["state"], "ready");
        assert!(in_state(&node.management, part, "standby").await["place"].is_null());
    }
    assert!(second.management.sum("platform_writer_active", &[]).await < 0.5);
    assert!(cluster.client(&second).create_target("passed on").await.is_some());
    assert!(second.management.sum("platform_commands_forwarded_total", &["\"answered\""]).await > 0.5);
    let before = first.management.sum("platform_writer_epoch", &[]).await;

    first.process.kill().await;
    working.process.kill().await;
    cluster.writes(&second).await;
    in_state(&second.management, "writer", "ok").await;
    in_state(&waiting.management, "projection.targets", "ok").await;
    assert!(second.management.sum("platform_writer_active", &[]).await > 0.5);
    assert!(second.management.sum("platform_writer_epoch", &[]).await > before);
}

#[tokio::test]
async fn a_projection_that_stands_still_says_why() {
    let cluster = Cluster::start().await;
    let projector = cluster.node("projector", "projector", &[], &[]);
    in_state(&projector.management, "projection.targets", "ok").await;
    let nats = async_nats::jetstream::new(cluster.servers.nats().await);
    nats.publish("events.0", "hello".into()).await.expect("NATS is there").await.expect("the stream takes it");
    for part in ["projection.targets", "projection.history", "projection.targets_index"] {
        in_state(&projector.management, part, "stalled").await;
        let says_why = async || {
            let check = projector.management.check(part).await?;
            check["reason"].as_str().is_some_and(|reason| reason.contains("is not a commit record")).then_some(())
        };
        eventually(&format!("{part} says why"), says_why).await;
    }
    let stalled = projector.management.sum("platform_projection_stalled", &["\"targets\"", "reason=\"log\""]).await;
    assert!(stalled > 0.5);
    let lags = || async {
        let behind = projector.management.sum("platform_projection_lag_seconds", &["\"targets\""]).await > 0.5;
        let check = projector.management.check("projection.targets").await?;
        (behind && check["place"]["lagEvents"] == 1 && check["state"] == "stalled").then_some(())
    };
    eventually("the lag grows", lags).await;
    assert_eq!(projector.management.readiness().await.map(|(status, _)| status), Some(200), "it goes on trying");
}
