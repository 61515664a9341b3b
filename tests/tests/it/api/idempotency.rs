//! Idempotency keys: one key, one command, one answer.

use std::fs;

use jiff::SignedDuration;
use proto::{action::CreateTargetRequest, operation::CREATE_TARGET};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    auditor::{Audit, connect},
    client::{Answer, Client, TARGETS, send, target},
    cluster::Cluster,
    eventually, forge,
    grpc::{Grpc, value},
    platform::Platform,
    proxy::Proxy,
    servers::Servers,
    tenant::Tenant,
};
use tokio::task::JoinHandle;

async fn create(client: &Client, name: &str, key: &str) -> Answer {
    send(client.request(Method::POST, TARGETS).header("idempotency-key", key).json(&target(name))).await
}

fn is_replayed(answer: &Answer) -> bool {
    answer.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
}

#[tokio::test]
async fn the_first_answer_comes_again_also_after_a_restart_and_a_kill() {
    let mut platform = Platform::start().await;
    let client = platform.client().await;
    let first = create(&client, "first", "key").await;
    assert_eq!((first.status, is_replayed(&first)), (StatusCode::CREATED, false));
    let again = create(&client, "first", "key").await;
    assert_eq!((again.status, is_replayed(&again)), (StatusCode::CREATED, true));
    assert_eq!(again.body, first.body, "what is shown once comes again too");

    create(&client, "second", "key").await.assert_refused("another request", 400, "IDEMPOTENCY_KEY_REUSED");
    create(&client, "x", "").await.assert_refused("an empty key", 400, "INVALID_REQUEST");

    platform.stop().await;
    platform.restart(&[]).await;
    assert_eq!(create(&client, "first", "key").await.body, first.body);
    platform.process().kill().await;
    platform.restart(&[]).await;
    assert_eq!(create(&client, "first", "key").await.body, first.body);
    create(&client, "second", "key").await.assert_refused("another request", 400, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn many_requests_with_one_key_create_one_target() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    // The keys of the instance are read once before they are needed by many.
    client.create_target("first").await.expect("it is created");
    let before = tenant.log_end().await.0;
    let all = (0..20).map(|_| create(&client, "one", "key"));
    let mut ids = vec![];
    for answer in futures::future::join_all(all).await {
        match answer.status {
            StatusCode::CREATED => ids.push(answer.id()),
            _ => answer.assert_refused("in progress", 409, "IDEMPOTENCY_IN_PROGRESS"),
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(tenant.log_end().await.0, before + 1, "there is one event");
}

#[tokio::test]
async fn an_answer_is_forgotten_after_a_day() {
    let servers = Servers::start().await;
    let url = &servers.places.postgres_url;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let client = platform.client().await;
    let (first, other) = (create(&client, "first", "key").await, create(&client, "other", "other key").await);
    assert_eq!((first.status, other.status), (StatusCode::CREATED, StatusCode::CREATED));
    platform.stop().await;

    // Time is what the log says, and never goes back: a day and an hour later.
    forge::append_later(servers.nats().await, SignedDuration::from_hours(25)).await;
    platform.restart(&[]).await;
    let later = create(&client, "second", "key").await;
    assert_eq!((later.status, is_replayed(&later)), (StatusCode::CREATED, false), "the key is free again");
    assert_ne!(later.id(), first.id());
    let again = create(&client, "second", "key").await;
    assert_eq!((&again.body, is_replayed(&again)), (&later.body, true));
    Audit::of(servers.nats().await).await.wait_projected(url).await;
    assert_eq!(answers(url).await, 1, "what is too old is not kept");
    platform.stop().await;

    // A replay finds both answers under one key in one batch.
    let text = "drop schema history_2 cascade; delete from platform.checkpoints where projection = 'history'";
    connect(url).await.batch_execute(text).await.expect("Postgres is there");
    platform.restart(&[]).await;
    let again = create(&client, "second", "key").await;
    assert_eq!((&again.body, is_replayed(&again)), (&later.body, true));
    assert_eq!(answers(url).await, 1);
}

async fn answers(url: &str) -> i64 {
    let count = connect(url).await.query_one("select count(*) from history_2.answers", &[]).await;
    count.expect("Postgres is there").get(0)
}

#[tokio::test]
async fn a_second_request_while_the_first_is_in_progress_is_refused() {
    let cluster = Cluster::start().await;
    let proxy = Proxy::start(cluster.servers.places.nats_url.trim_start_matches("nats://")).await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let command = cluster.node("command", "command", &[("--nats-url", &format!("nats://{}", proxy.address))], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);

    // While NATS does not answer, both wait for their turn behind another command.
    proxy.silence();
    let in_the_way = tokio::spawn({
        let client = client.clone();
        async move { client.create_target("in the way").await }
    });
    eventually("a publish is on its way", || async { (proxy.waiting() > 0).then_some(()) }).await;
    let both = [(); 2].map(|()| {
        let client = client.clone();
        tokio::spawn(async move { create(&client, "one", "key").await })
    });
    eventually("one of them is refused", async || both.iter().any(JoinHandle::is_finished).then_some(())).await;
    proxy.open();
    assert!(in_the_way.await.expect("it is not cancelled").is_some());
    let [one, two] = both;
    let (one, two) = (one.await.expect("it is not cancelled"), two.await.expect("it is not cancelled"));
    let (created, refused) = if one.status == StatusCode::CREATED { (one, two) } else { (two, one) };
    assert_eq!((created.status, is_replayed(&created)), (StatusCode::CREATED, false));
    refused.assert_refused("the other", 409, "IDEMPOTENCY_IN_PROGRESS");
    let again = create(&client, "one", "key").await;
    assert_eq!((&again.body, is_replayed(&again)), (&created.body, true));
}

/// Starts a platform with two further users with all rights.
async fn of_several_owners() -> Platform {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let setup = folder.path().join("setup.toml");
    let user = |name: &str| format!("[[service_user]]\nname = \"{name}\"\nroles = [\"IAM_OWNER\"]\n");
    fs::write(&setup, user("one") + &user("two")).expect("the folder can be written");
    let platform = Platform::start_with(&["--setup".into(), setup.display().to_string()], &[]).await;
    platform.ready().await;
    platform
}

#[tokio::test]
async fn a_key_is_its_users_and_its_operations() {
    let platform = of_several_owners().await;
    let (one, two) = (platform.client_named("one").await, platform.client_named("two").await);
    let (first, second) = (create(&one, "same", "key").await, create(&two, "same", "key").await);
    assert!(!is_replayed(&first) && !is_replayed(&second));
    assert_ne!(first.id(), second.id(), "the same key of another user is another command");
    create(&two, "other", "key").await.assert_refused("of the other user", 400, "IDEMPOTENCY_KEY_REUSED");

    let request = CreateTargetRequest { target: serde_json::from_value(target("same")).ok() };
    let grpc = Grpc::connect(&platform.bootstrap.issuer, Some(&one.token)).await;
    let over_grpc =
        grpc.call_with(&CREATE_TARGET, request, &[("idempotency-key", "key")]).await.expect("it is answered");
    assert_eq!(value(over_grpc.metadata(), "idempotency-replayed"), "true", "the transport makes no difference");
    assert_eq!(over_grpc.into_inner().signing_key, first.body["signingKey"].as_str().unwrap_or_default());

    let path = format!("{TARGETS}/{}", first.id());
    let write = |method: Method, body: Option<Value>, if_match: Option<&str>| {
        let request = one.request(method, &path).header("idempotency-key", "later");
        let request = if_match.into_iter().fold(request, |request, sequence| request.header("if-match", sequence));
        send(body.into_iter().fold(request, |request, body| request.json(&body)))
    };
    let rename = || Some(json!({ "name": "renamed" }));
    let patched = write(Method::PATCH, rename(), None).await;
    assert_eq!((patched.status, is_replayed(&patched)), (StatusCode::OK, false));
    let again = write(Method::PATCH, rename(), None).await;
    assert_eq!((&again.body, is_replayed(&again)), (&patched.body, true));
    for (case, other) in [
        ("another operation", write(Method::DELETE, None, None).await),
        ("another body", write(Method::PATCH, Some(json!({ "name": "x" })), None).await),
        ("another condition", write(Method::PATCH, rename(), Some("1")).await),
    ] {
        other.assert_refused(case, 400, "IDEMPOTENCY_KEY_REUSED");
    }
    let delete = || one.request(Method::DELETE, &path).header("idempotency-key", "last");
    let (deleted, again) = (send(delete()).await, send(delete()).await);
    assert_eq!((again.status, &again.body, is_replayed(&again)), (StatusCode::OK, &deleted.body, true));
    send(one.request(Method::DELETE, &path)).await.assert_refused("without a key", 404, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn what_was_refused_may_be_tried_again_with_its_key() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let invalid = client.request(Method::POST, TARGETS).header("idempotency-key", "key").json(&json!({ "name": "x" }));
    send(invalid).await.assert_refused("no type", 400, "INVALID_REQUEST");
    let created = create(&client, "first", "key").await;
    assert_eq!((created.status, is_replayed(&created)), (StatusCode::CREATED, false));
    create(&client, "x", &"k".repeat(201)).await.assert_refused("a long key", 400, "INVALID_REQUEST");
    let longest = create(&client, "x", &"k".repeat(200)).await;
    assert_eq!(longest.status, StatusCode::CREATED);
}
