//! Executions on requests and responses: which targets are called, with what, and the effects of their answers.

use std::time::Duration;

use action::signature::signature;
use proto::{
    action::GetTargetRequest,
    operation::{CREATE_TARGET, GET_TARGET},
};
use reqwest::{Method, StatusCode};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, EXECUTIONS, TARGETS, send, target},
    endpoint::{Endpoint, Reply, execute},
    eventually,
    grpc::{Grpc, reason},
    platform::Platform,
    process::server,
    servers::Servers,
    tenant::Tenant,
};
use tokio::time::Instant;
use tonic::Code;

const SERVICE: &str = "platform.resources.action.v3alpha.PlatformActions";
const WEBHOOK: &str = "restWebhook";
const CALL: &str = "restRequestResponse";

fn on_get(kind: &str) -> Value {
    json!({ kind: { "method": GET_TARGET.facts.grpc } })
}

async fn get(client: &Client, id: &str) -> Answer {
    send(client.request(Method::GET, &format!("{TARGETS}/{id}"))).await
}

#[tokio::test]
async fn a_request_and_its_response_are_told_signed_and_complete() {
    let tenant = Tenant::start().await;
    let (client, endpoint) = (tenant.client().await, Endpoint::start().await);
    let (id, key) = endpoint.target(&client, WEBHOOK, &json!({})).await;
    execute(&client, on_get("request"), &[&id]).await;
    execute(&client, on_get("response"), &[&id]).await;
    let request = client.request(Method::GET, &format!("{TARGETS}/{id}")).header("authorization-extra", "x");
    let forged = request.header("x-forwarded-for", "192.0.2.7").header("x-forwarded-host", "other.example");
    let read = send(forged.header("origin", "https://app.example")).await;
    assert_eq!(read.status, StatusCode::OK, "{}", read.body);

    let calls = endpoint.called(2).await;
    let (before, after) = (calls[0].json(), calls[1].json());
    assert_eq!(before["request"], json!({ "id": id }));
    assert_eq!((before.get("response"), &after["request"], &after["response"]), (None, &before["request"], &read.body));
    for payload in [&before, &after] {
        assert_eq!(payload["fullMethod"], GET_TARGET.facts.grpc);
        assert_eq!(payload["instanceID"], tenant.bootstrap.instance_id);
        assert_eq!(payload["orgID"], tenant.bootstrap.organization_id);
        assert_eq!(payload["projectID"], tenant.bootstrap.project_id);
        assert_eq!(payload["userID"], tenant.bootstrap.service_user.user_id);
        let host = tenant.bootstrap.issuer.trim_start_matches("http://");
        let headers = json!({ "host": [host], "origin": ["https://app.example"], "x-forwarded-for": ["127.0.0.1"] });
        assert_eq!(payload["headers"], headers, "the token and what nobody vouches for stays inside");
    }
    assert_ne!(calls[0].header("platform-delivery-id"), calls[1].header("platform-delivery-id"));
    for call in &calls {
        let signed = call.header("platform-signature").strip_prefix("t=").expect("it says when");
        let (time, signed) = signed.split_once(",v1=").expect("it says what");
        assert_eq!(signed, signature(key.as_bytes(), time.parse().expect("it is a number"), &call.body));
        assert_eq!(call.header("content-type"), "application/json");
    }
    let grpc = Grpc::connect(&tenant.bootstrap.issuer, Some(&client.token)).await;
    endpoint.take();
    grpc.call(&GET_TARGET, GetTargetRequest { id: id.clone() }).await.expect("it is there");
    let calls = endpoint.called(2).await;
    assert_eq!((&calls[0].json()["request"], &calls[1].json()["response"]), (&json!({ "id": id }), &read.body));
}

#[tokio::test]
async fn the_best_match_fires_alone_and_at_once() {
    let tenant = Tenant::start().await;
    let (client, nobody) = (tenant.client().await, tenant.client_named("nobody").await);
    let endpoints = [Endpoint::start().await, Endpoint::start().await, Endpoint::start().await];
    let mut ids = vec![];
    for endpoint in &endpoints {
        ids.push(endpoint.target(&client, WEBHOOK, &json!({})).await.0);
    }
    let counts = || endpoints.each_ref().map(|endpoint| endpoint.take().len());
    let search = || send(client.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([])));
    let all = json!({ "request": { "all": true } });
    execute(&client, all.clone(), &[&ids[2]]).await;
    get(&client, &ids[0]).await;
    assert_eq!(counts(), [0, 0, 1]);
    execute(&client, json!({ "request": { "service": SERVICE } }), &[&ids[1]]).await;
    counts();
    get(&client, &ids[0]).await;
    assert_eq!(counts(), [0, 1, 0]);
    execute(&client, on_get("request"), &[&ids[0]]).await;
    counts();
    get(&client, &ids[0]).await;
    search().await;
    assert_eq!(counts(), [1, 1, 0], "the method for one, the service for the other");
    // Without targets it matches nothing.
    execute(&client, on_get("request"), &[]).await;
    counts();
    get(&client, &ids[0]).await;
    assert_eq!(counts(), [0, 1, 0]);
    send(client.request(Method::DELETE, &format!("{TARGETS}/{}", ids[1]))).await;
    counts();
    get(&client, &ids[0]).await;
    assert_eq!(counts(), [0, 0, 1], "a target that is gone is not called, and all is the next");
    let refused = get(&nobody, &ids[0]).await;
    refused.assert_refused("no permission", 403, "PERMISSION_DENIED");
    let invalid = send(client.request(Method::POST, TARGETS).json(&json!({}))).await;
    invalid.assert_refused("not valid", 400, "INVALID_REQUEST");
    assert_eq!(counts(), [0, 0, 0], "what is refused is told to nobody");
    let missing = get(&client, "1").await;
    missing.assert_refused("not there", 404, "RESOURCE_NOT_FOUND");
    assert_eq!(counts(), [0, 0, 1]);
}

#[tokio::test]
async fn answers_are_merged_onto_the_message_and_the_next_target_sees_it() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let first =
        Endpoint::replying(Reply::json(&json!({ "target": { "name": "from the first", "timeout": "7s" } }))).await;
    let second = Endpoint::replying(Reply::json(&json!({ "target": { "name": "from the second" } }))).await;
    let ignored = Endpoint::replying(Reply::json(&json!({ "target": { "name": "from a webhook" } }))).await;
    let (one, _) = first.target(&client, CALL, &json!({})).await;
    let (two, _) = second.target(&client, CALL, &json!({})).await;
    let (three, _) = ignored.target(&client, WEBHOOK, &json!({})).await;
    let on_create = json!({ "request": { "method": format!("/{SERVICE}/CreateTarget") } });
    execute(&client, on_create.clone(), &[&one, &two, &three]).await;
    let id = client.create_target("from the caller").await.expect("it is created");
    assert_eq!(second.calls()[0].json()["request"]["target"]["name"], "from the first");
    assert_eq!(ignored.calls()[0].json()["request"]["target"]["name"], "from the second");
    execute(&client, on_create, &[]).await;
    let created = get(&client, &id).await.body["target"]["target"].clone();
    assert_eq!((&created["name"], &created["timeout"]), (&json!("from the second"), &json!("7s")));
    assert_eq!(created["restWebhook"], json!({ "url": "https://example.com/hook" }));

    // A merged request is validated again.
    first.reply(Reply::json(&json!({ "target": { "name": "" } })));
    execute(&client, json!({ "request": { "method": format!("/{SERVICE}/CreateTarget") } }), &[&one]).await;
    let refused = send(client.request(Method::POST, TARGETS).json(&target("x"))).await;
    refused.assert_refused("a name that is none", 400, "INVALID_REQUEST");

    let hide = json!({ "target": { "target": { "name": "hidden", "restWebhook": null } } });
    second.reply(Reply::json(&hide));
    execute(&client, on_get("response"), &[&two]).await;
    let read = get(&client, &id).await;
    assert_eq!((read.status, &read.body["target"]["target"]["name"]), (StatusCode::OK, &json!("hidden")));
    assert_eq!(read.body["target"]["target"].get("restWebhook"), None);
    assert_eq!(read.body["target"]["details"]["id"], id, "what is not named stays");
}

#[tokio::test]
async fn a_failure_stops_the_request_only_where_its_target_says_so() {
    let tenant = Tenant::start().await;
    let (client, endpoint, next) = (tenant.client().await, Endpoint::start().await, Endpoint::start().await);
    let (last, _) = next.target(&client, WEBHOOK, &json!({})).await;
    let huge = Reply { body: vec![b' '; 1024 * 1024 + 1].into(), ..Reply::status(200) };
    let redirect = Reply { headers: vec![("location", next.url.clone())], ..Reply::status(307) };
    let dripping = Reply { drips: true, ..Reply::json(&json!({ "id": "1", "details": "0123456789".repeat(10) })) };
    let headers = vec![("x-large", "a".repeat(60_000)); 20];
    let no = Reply::json(&json!({ "forwardedStatusCode": 403, "forwardedErrorMessage": "not today" }));
    let odd = Reply::json(&json!({ "forwardedStatusCode": 503 }));
    let failed = ("execution failed", 400);
    let cases = [
        ("status", Reply::status(500), failed, true),
        ("redirect", redirect, failed, true),
        ("slow", Reply::status(200).after(Duration::from_secs(20)), failed, true),
        ("huge", huge, failed, false),
        ("dripping", dripping, failed, false),
        ("large headers", Reply { headers, ..Reply::status(200) }, failed, true),
        ("malformed", Reply { body: "{".into(), ..Reply::status(200) }, failed, false),
        ("another message", Reply::json(&json!({ "nothing": 1 })), failed, false),
        ("forwarded", no, ("not today", 403), false),
        ("forwarded as none", odd, failed, false),
    ];
    for (kind, is_webhook) in [(WEBHOOK, true), (CALL, false)] {
        for mode in ["interruptOnError", "none", "isAsync"] {
            let mut members = if mode == "none" { json!({}) } else { json!({ mode: true }) };
            members["timeout"] = json!("0.5s");
            let (id, _) = endpoint.target(&client, kind, &members).await;
            execute(&client, on_get("request"), &[&id, &last]).await;
            for (case, reply, (message, status), fails_webhook) in &cases {
                let case = format!("{kind}, {mode}, {case}");
                endpoint.reply(reply.clone());
                endpoint.take();
                next.take();
                let (begun, read) = (Instant::now(), get(&client, &id).await);
                let fails = *fails_webhook || !is_webhook;
                if mode == "interruptOnError" && fails {
                    read.assert_refused(&case, *status, "EXECUTION_FAILED");
                    assert_eq!(read.body["message"], *message, "{case}");
                    assert_eq!(next.calls().len(), 0, "{case}: the chain stops");
                } else {
                    assert_eq!(read.status, StatusCode::OK, "{case}: {}", read.body);
                    assert_eq!(next.calls().len(), 1, "{case}: the chain goes on, and no redirect is followed");
                }
                endpoint.called(1).await;
                assert!(begun.elapsed() < Duration::from_secs(5), "{case}: a slow target is not waited for");
            }
        }
    }
}

#[tokio::test]
async fn whoever_calls_asynchronously_does_not_wait() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let slow = Endpoint::replying(Reply::status(200).after(Duration::from_secs(3))).await;
    let (id, _) = slow.target(&client, CALL, &json!({ "isAsync": true })).await;
    execute(&client, on_get("request"), &[&id]).await;
    let begun = Instant::now();
    assert_eq!(get(&client, &id).await.status, StatusCode::OK);
    assert!(begun.elapsed() < Duration::from_secs(2));
    slow.called(1).await;
}

/// Whether a request for a target is answered within some tries: on a busy machine, a thousand requests do not all get
/// a database connection in time, and are answered that they should be repeated.
async fn is_answered(grpc: &Grpc, id: &str) -> bool {
    for _ in 0..10 {
        match grpc.call(&GET_TARGET, GetTargetRequest { id: id.to_owned() }).await {
            Err(status) if status.code() == Code::Unavailable => {}
            answer => return answer.is_ok(),
        }
    }
    false
}

#[tokio::test]
async fn a_thousand_requests_go_through_a_slow_target_and_others_do_not_wait() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let slow = Endpoint::replying(Reply::status(200).after(Duration::from_millis(600))).await;
    let (id, _) = slow.target(&client, WEBHOOK, &json!({ "interruptOnError": true, "timeout": "30s" })).await;
    execute(&client, on_get("request"), &[&id]).await;
    // The server takes a hundred of each connection at the same time.
    let mut connections = vec![];
    for _ in 0..10 {
        connections.push(Grpc::connect(&platform.bootstrap.issuer, Some(&client.token)).await);
    }
    let calls = (0..1000).map(|number: usize| {
        let (grpc, id) = (connections[number % 10].clone(), id.clone());
        tokio::spawn(async move { is_answered(&grpc, &id).await })
    });
    let calls: Vec<_> = calls.collect();
    slow.called(200).await;
    let search = client.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([]));
    assert_eq!(send(search).await.status, StatusCode::OK);
    assert!(calls.iter().any(|call| !call.is_finished()), "it did not wait for all of them");
    for call in calls {
        assert!(call.await.expect("it ends"), "every request is answered");
    }
    assert!(slow.calls().len() >= 1000, "{}", slow.calls().len());
    println!("{} calls were under way at once", slow.most_at_once());
    assert!((64..=128).contains(&slow.most_at_once()), "{}", slow.most_at_once());
}

#[tokio::test]
async fn calls_that_come_round_again_end() {
    let tenant = Tenant::start().await;
    let (client, endpoint) = (tenant.client().await, Endpoint::start().await);
    let (id, _) = endpoint.target(&client, WEBHOOK, &json!({})).await;
    execute(&client, on_get("request"), &[&id]).await;
    let nested = |depth: &str| {
        let request = client.request(Method::GET, &format!("{TARGETS}/{id}"));
        send(request.header("platform-execution-depth", depth))
    };
    for depth in ["0", "1", "2", "3"] {
        assert_eq!(nested(depth).await.status, StatusCode::OK);
        let told: u32 = endpoint.take()[0].header("platform-execution-depth").parse().expect("it is a number");
        assert_eq!(told.to_string(), (depth.parse::<u32>().expect("it is a number") + 1).to_string());
    }
    for depth in ["4", "99999999999", "x", "-1"] {
        nested(depth).await.assert_refused(depth, 400, "EXECUTION_LOOP");
    }
    assert_eq!(endpoint.calls().len(), 0);
    let grpc = Grpc::connect(&tenant.bootstrap.issuer, Some(&client.token)).await;
    let metadata = [("platform-execution-depth", "4")];
    let refused = grpc.call_with(&GET_TARGET, GetTargetRequest { id: id.clone() }, &metadata).await;
    assert_eq!(reason(&refused.expect_err("it is refused")), "EXECUTION_LOOP");
    // Nobody can write something of which no execution hears, either.
    let rename = client.request(Method::PATCH, &format!("{TARGETS}/{id}")).json(&json!({ "name": "unheard" }));
    let rename = send(rename.header("platform-execution-depth", "4")).await;
    rename.assert_refused("a write that triggers nothing", 400, "EXECUTION_LOOP");
}

#[tokio::test]
async fn a_request_is_repeated_with_its_key_whatever_targets_make_of_it() {
    let tenant = Tenant::start().await;
    let (client, endpoint) = (tenant.client().await, Endpoint::start().await);
    let (id, _) = endpoint.target(&client, CALL, &json!({ "interruptOnError": true })).await;
    execute(&client, json!({ "request": { "method": CREATE_TARGET.facts.grpc } }), &[&id]).await;
    let create = async |named: &str, asked: &str| {
        endpoint.reply(Reply::json(&json!({ "target": { "name": named } })));
        let request = client.request(Method::POST, TARGETS).header("idempotency-key", "once");
        send(request.json(&target(asked))).await
    };
    let first = create("one", "asked").await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.body);
    let again = create("two", "asked").await;
    assert_eq!((again.status, again.id()), (StatusCode::CREATED, first.id()), "{}", again.body);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(
        client.get_target(&first.id(), Some(&first.consistency())).await.body["target"]["target"]["name"],
        "one"
    );
    create("one", "another").await.assert_refused("another request", 400, "IDEMPOTENCY_KEY_REUSED");
    let keys = |name: &str| endpoint.calls().iter().any(|call| String::from_utf8_lossy(&call.body).contains(name));
    assert!(!keys(first.body["signingKey"].as_str().expect("it is shown")), "no target is told of a key");
}

#[tokio::test]
async fn a_key_that_is_rotated_signs_beside_its_successor() {
    let tenant = Tenant::start().await;
    let (client, endpoint) = (tenant.client().await, Endpoint::start().await);
    let (id, first) = endpoint.target(&client, WEBHOOK, &json!({})).await;
    execute(&client, on_get("request"), &[&id]).await;
    let rotate = async |validity: &str| {
        let request = client.request(Method::PATCH, &format!("{TARGETS}/{id}"));
        let patched = send(request.json(&json!({ "expirationSigningKey": validity }))).await;
        patched.body["signingKey"].as_str().expect("it is shown").to_owned()
    };
    let signed_by = async |keys: &[&str]| {
        endpoint.take();
        get(&client, &id).await;
        let call = endpoint.called(1).await.remove(0);
        let header = call.header("platform-signature").to_owned();
        let (time, signatures) = header.strip_prefix("t=").and_then(|it| it.split_once(',')).expect("it has parts");
        let time = time.parse().expect("it is a number");
        let expected: Vec<_> =
            keys.iter().map(|key| format!("v1={}", signature(key.as_bytes(), time, &call.body))).collect();
        assert_eq!(signatures, expected.join(","));
    };
    let second = rotate("3600s").await;
    signed_by(&[&first, &second]).await;
    let third = rotate("0s").await;
    signed_by(&[&third]).await;
}

#[tokio::test]
async fn an_execution_goes_on_after_a_restart_and_when_postgres_is_away() {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let client = platform.client().await;
    let endpoint = Endpoint::replying(Reply::json(&json!({ "forwardedStatusCode": 418 }))).await;
    let (id, _) = endpoint.target(&client, CALL, &json!({ "interruptOnError": true })).await;
    execute(&client, on_get("request"), &[&id]).await;
    get(&client, &id).await.assert_refused("before", 418, "EXECUTION_FAILED");
    platform.stop().await;
    platform.restart(&[]).await;
    get(&client, &id).await.assert_refused("after a restart", 418, "EXECUTION_FAILED");
    let found = send(client.request(Method::POST, &format!("{EXECUTIONS}/_search")).json(&json!([]))).await;
    assert_eq!(found.status, StatusCode::OK);
    let postmaster = server(&servers.folder(), "postgres").expect("Postgres runs");
    kill_process(postmaster, Signal::KILL).expect("it is there");
    eventually("Postgres is away", || async { connect(&servers.places.postgres_url).await.is_err().then_some(()) })
        .await;
    get(&client, &id).await.assert_refused("without Postgres", 418, "EXECUTION_FAILED");
}

async fn connect(url: &str) -> Result<(), tokio_postgres::Error> {
    tokio_postgres::connect(url, tokio_postgres::NoTls).await.map(drop)
}
