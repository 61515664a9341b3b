//! Every command node answers: a standby forwards requests to the writer, and returns its answers.

use std::{collections::HashMap, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use prost::Message;
use proto::{
    action::{
        CreateTargetRequest, DeleteTargetRequest, PatchTarget, PatchTargetRequest, SetRestWebhook, Target,
        target::TargetType,
    },
    bus,
    operation::{CREATE_TARGET, DELETE_TARGET, PATCH_TARGET},
};
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::json;
use tests::{
    client::{Client, TARGETS, send, target as body},
    cluster::{Cluster, Node},
    grpc::{Grpc, reason},
    load::Load,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use tonic::Code;

/// How long a lease lasts at least after its holder is killed: it was renewed a second before at most.
const LEFT: Duration = Duration::from_millis(2400);
/// How soon NATS notices that a process has ended.
const HEARD: Duration = Duration::from_millis(500);

/// A projector, and two command nodes of which the first writes.
async fn two_nodes() -> (Cluster, Node, [Node; 2]) {
    let cluster = Cluster::start().await;
    let projector = cluster.node("projector", "projector", &[], &[]);
    let first = cluster.node("command", "the first.node *", &[], &[]);
    cluster.writes(&first).await;
    let second = cluster.node("command", "second", &[("--node-number", "1")], &[]);
    cluster.is_ready(&second).await;
    (cluster, projector, [first, second])
}

#[tokio::test]
async fn a_standby_answers_as_the_node_that_writes_does() {
    let (cluster, _projector, [first, second]) = two_nodes().await;
    let (at_first, at_second) = (cluster.client(&first), cluster.client(&second));
    let create = |key: &str| {
        let request = at_second.request(Method::POST, TARGETS).json(&body("one"));
        send(request.header("idempotency-key", key).header("x-request-id", "mine"))
    };
    let created = create("a").await;
    assert_eq!((created.status, &created.headers["x-request-id"]), (StatusCode::CREATED, &"mine".parse().unwrap()));
    for header in ["consistency-token", "etag", "content-type"] {
        assert!(created.headers.contains_key(header), "{header}: {created:?}");
    }
    let again = create("a").await;
    assert_eq!((again.id(), again.headers.contains_key("idempotency-replayed")), (created.id(), true));

    let path = format!("{TARGETS}/{}", created.id());
    let changed = send(at_second.request(Method::PATCH, &path).header("if-match", "\"1\"").json(&json!({})));
    assert_eq!(changed.await.status, StatusCode::PRECONDITION_FAILED);
    assert_eq!(send(at_second.request(Method::DELETE, &path)).await.status, StatusCode::OK);
    // What is wrong is told as precisely as where it is decided.
    let wrong = |client: &Client| {
        [
            client.request(Method::PATCH, &path).json(&json!({ "nome": 1 })),
            client.anonymous(Method::DELETE, &path),
            client.request(Method::DELETE, &path),
        ]
        .map(|request| send(request.header("x-request-id", "wrong")))
    };
    for (at_standby, at_writer) in wrong(&at_second).into_iter().zip(wrong(&at_first)) {
        let (one, other) = (at_standby.await, at_writer.await);
        assert_eq!((one.status, one.body), (other.status, other.body));
    }
    let large = at_second.request(Method::POST, TARGETS).json(&json!({ "name": "x".repeat(2 << 20) }));
    send(large).await.assert_refused("a large body", 413, "BODY_TOO_LARGE");
}

#[tokio::test]
async fn grpc_passes_through_a_standby() {
    let (cluster, _projector, [_first, second]) = two_nodes().await;
    let grpc = Grpc::connect(&second.url, Some(&cluster.client.token)).await;
    let target_type = Some(TargetType::RestWebhook(SetRestWebhook { url: "https://example.com/hook".into() }));
    let target = Target { name: "over grpc".into(), target_type, ..Target::default() };
    let created = grpc.call(&CREATE_TARGET, CreateTargetRequest { target: Some(target) }).await.expect("it is created");
    let id = created.into_inner().details.expect("it has details").id;
    grpc.call(&DELETE_TARGET, DeleteTargetRequest { id: id.clone() }).await.expect("it is removed");
    let missing = grpc.call(&PATCH_TARGET, PatchTargetRequest { id, target: Some(PatchTarget::default()) }).await;
    let missing = missing.expect_err("it is gone");
    assert_eq!((missing.code(), reason(&missing).as_str()), (Code::NotFound, "RESOURCE_NOT_FOUND"));
}

#[tokio::test]
async fn a_request_waits_for_the_next_node_that_writes() {
    let (cluster, _projector, [mut first, second]) = two_nodes().await;
    let at_second = cluster.client(&second);
    assert!(at_second.create_target("before").await.is_some());
    first.process.kill().await;
    let begin = tokio::time::Instant::now();
    // What NATS still passes to a node that has ended has an unknown outcome.
    sleep(HEARD).await;
    // Its lease is not over yet: nobody takes the request, and it is not lost.
    let answer = send(at_second.request(Method::POST, TARGETS).json(&body("between"))).await;
    println!("answered after {:?}: {}", begin.elapsed(), answer.status);
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    assert!(begin.elapsed() > LEFT, "as long as the lease of a user lasts");
    let created = cluster.audit().await.created();
    assert_eq!(created["between"].len(), 1);
}

#[tokio::test]
async fn clients_of_a_standby_miss_nothing_when_the_writing_goes_to_and_fro() {
    let (cluster, _projector, [first, second]) = two_nodes().await;
    let third = cluster.node("command", "third", &[("--node-number", "2")], &[]);
    let load = Load::start(&[cluster.client(&third)], 8, "through");
    load.creates(20).await;
    first.process.signal(Signal::STOP);
    // The second takes over, or the third itself.
    println!("went on after {:?}", load.creates(20).await);
    first.process.signal(Signal::CONT);
    second.process.signal(Signal::STOP);
    println!("went on after {:?}", load.creates(20).await);
    second.process.signal(Signal::CONT);
    println!("went on after {:?}", load.creates(20).await);
    let told = load.finish().await;
    println!("acknowledged: {}; not served: {:?}", told.acknowledged.len(), told.refused);
    let audit = cluster.audit().await;
    audit.assert_told(&told);
    audit.assert_projected(&cluster.servers.places.postgres_url).await;
}

#[tokio::test]
async fn who_has_no_token_takes_no_room_at_a_standby() {
    let (_cluster, _projector, [_first, second]) = two_nodes().await;
    let address = second.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let head = format!(
        "POST {TARGETS} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("it reads");
    // The body never comes. Of a caller it would be waited for 30 s.
    let mut answer = vec![0; 12];
    let read = timeout(Duration::from_secs(20), stream.read_exact(&mut answer)).await;
    read.expect("it does not wait for the body").expect("it answers");
    assert_eq!(answer, b"HTTP/1.1 401");
}

#[tokio::test]
async fn requests_wait_while_the_node_that_writes_ends_in_order() {
    let (cluster, _projector, [mut first, second]) = two_nodes().await;
    let load = Load::start(&[cluster.client(&second)], 8, "through");
    load.creates(50).await;
    first.process.signal(Signal::TERM);
    let (ended, went_on) = tokio::join!(first.process.ended(), load.creates(50));
    println!("went on after {went_on:?}");
    assert!(ended.success());
    let told = load.finish().await;
    assert_eq!(told.refused, HashMap::new(), "a slow answer, not an error");
    cluster.audit().await.assert_told(&told);
}

#[tokio::test]
async fn a_request_is_passed_on_once_at_most() {
    let (cluster, _projector, [_first, _second]) = two_nodes().await;
    let uri = format!("http://127.0.0.1{TARGETS}");
    let header = |name: &str, value: String| bus::Header { name: name.to_owned(), value: value.into() };
    let request = bus::PassedRequest {
        method: "POST".to_owned(),
        uri,
        headers: vec![
            header("authorization", format!("Bearer {}", cluster.client.token)),
            header("content-type", "application/json".to_owned()),
        ],
        body: body("passed on").to_string().into(),
    };
    let subject = format!("commands.0.{}", URL_SAFE_NO_PAD.encode("second"));
    let nats = cluster.servers.nats().await;
    let answer = nats.request(subject, request.encode_to_vec().into()).await.expect("the standby listens");
    let answer = bus::PassedAnswer::decode(answer.payload).expect("it is an answer");
    assert_eq!(answer, bus::PassedAnswer { untaken: true, ..bus::PassedAnswer::default() });
    assert_eq!(cluster.audit().await.created().get("passed on"), None);
}

#[tokio::test]
async fn a_standby_waits_no_longer_than_its_client() {
    let (cluster, _projector, [first, second]) = two_nodes().await;
    first.process.signal(Signal::STOP);
    let begin = tokio::time::Instant::now();
    // Clients of gRPC would give up by themselves.
    let request = cluster.client(&second).request(Method::POST, DELETE_TARGET.facts.grpc).body(vec![0; 5]);
    let request = request.header("content-type", "application/grpc-web+proto").header("grpc-timeout", "300m");
    let late = request.send().await.expect("it answers");
    println!("told after {:?}", begin.elapsed());
    assert_eq!(late.headers()["grpc-status"], "4", "{late:?}");
    assert!(begin.elapsed() < Duration::from_secs(3), "the next node would not have written yet");
}
