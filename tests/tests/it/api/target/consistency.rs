//! Consistency tokens: a read is not older than its caller requires.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use proto::{action::GetTargetRequest, operation::GET_TARGET};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{TARGETS, send, target},
    grpc::{Grpc, value},
    platform::Platform,
    secrets::Secrets,
    tenant::Tenant,
};
use tokio::time::{Duration, Instant};
use tonic::Code;

#[tokio::test]
async fn every_write_is_read_back_at_once() {
    let tenant = Tenant::start().await;
    let (client, viewer) = (tenant.client().await, tenant.client_named("viewer").await);
    let created = send(client.request(Method::POST, TARGETS).json(&target("new"))).await;
    let (id, path) = (created.id(), format!("{TARGETS}/{}", created.id()));
    for round in 0..200 {
        let name = format!("round {round}");
        let patched = send(client.request(Method::PATCH, &path).json(&json!({ "name": name }))).await;
        assert_eq!(patched.status, StatusCode::OK, "{}", patched.body);
        // Another caller has the token only; the writer itself is remembered by its node.
        let reader = if round % 2 == 0 { &viewer } else { &client };
        let token = (round % 4 != 3).then(|| patched.consistency());
        let read = reader.get_target(&id, token.as_deref()).await;
        assert_eq!(read.body["target"]["target"]["name"], json!(name), "{}", read.body);
        assert_eq!(read.body["target"]["details"], patched.body["details"]);
        read.consistency();
    }
}

#[tokio::test]
async fn that_there_is_none_was_read_at_a_sequence_too() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let created = send(client.request(Method::POST, TARGETS).json(&target("short-lived"))).await;
    let (id, path) = (created.id(), format!("{TARGETS}/{}", created.id()));
    let deleted = send(client.request(Method::DELETE, &path)).await;
    let missing = client.get_target(&id, Some(&deleted.consistency())).await;
    missing.assert_refused("a deleted target", 404, "RESOURCE_NOT_FOUND");
    let end = platform.log_end().await.0;
    let secrets = Secrets::of(&platform).await;
    assert_eq!(missing.consistency(), secrets.consistency(&created.consistency(), end).await);
    let again = client.get_target(&id, Some(&missing.consistency())).await;
    again.assert_refused("the token of a missing target", 404, "RESOURCE_NOT_FOUND");

    let grpc = Grpc::connect(&platform.bootstrap.issuer, Some(&client.token)).await;
    let refused = grpc.call(&GET_TARGET, GetTargetRequest { id }).await.expect_err("it is deleted");
    assert_eq!(
        (refused.code(), value(refused.metadata(), "consistency-token")),
        (Code::NotFound, missing.consistency())
    );
}

#[tokio::test]
async fn a_token_that_is_not_the_platforms_is_refused() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let created = send(client.request(Method::POST, TARGETS).json(&target("new"))).await;
    let (id, token) = (created.id(), created.consistency());

    let mut forged = vec![String::new(), "abc".into(), "!!!".into(), "0".into(), format!("{token}A"), token.repeat(2)];
    forged.extend((1..token.len()).map(|length| token[..length].to_owned()));
    let bytes = URL_SAFE_NO_PAD.decode(&token).expect("a token is base64url");
    forged.extend((0..bytes.len()).map(|index| {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        URL_SAFE_NO_PAD.encode(changed)
    }));
    for token in forged {
        client.get_target(&id, Some(&token)).await.assert_refused(&token, 400, "CONSISTENCY_TOKEN_INVALID");
    }
    // One key signs for all logs of a tenant, so what a token says of its log counts too: version, shard, log, incarnation.
    let secrets = Secrets::of(&tenant).await;
    for place in [0, 1, 2, 3, 18, 19, 22] {
        let foreign = secrets.changed(&token, |body| body[place] ^= 1).await;
        client.get_target(&id, Some(&foreign)).await.assert_refused(&foreign, 400, "CONSISTENCY_TOKEN_INVALID");
    }
    // A write reads nobody's token, but says so of a false one all the same.
    let request = client.request(Method::POST, TARGETS).header("consistency-token", "abc");
    send(request.json(&target("new"))).await.assert_refused("a write", 400, "CONSISTENCY_TOKEN_INVALID");
    assert_eq!(client.get_target(&id, Some(&token)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_read_waits_as_long_as_it_is_told_and_then_says_how_far_it_came() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let created = send(client.request(Method::POST, TARGETS).json(&target("new"))).await;
    let (token, path) = (created.consistency(), format!("{TARGETS}/{}", created.id()));
    let end = platform.log_end().await.0;
    let beyond = Secrets::of(&platform).await.consistency(&token, end + 1).await;

    let read = |token: &str, wait: &str| {
        send(client.request(Method::GET, &path).header("consistency-token", token).header("consistency-wait", wait))
    };
    for wait in ["3", "11s", "10001ms", "-1s", "1m", "", "abc", "1.5s", "s", "99999999999999999999s"] {
        read(&token, wait).await.assert_refused(&format!("Consistency-Wait: {wait}"), 400, "INVALID_REQUEST");
    }
    for wait in ["0s", "0ms", "500ms", "10000ms", "10s"] {
        assert_eq!(read(&token, wait).await.status, StatusCode::OK, "{wait}");
    }
    for (wait, least) in [("0s", 0), ("300ms", 300), ("1s", 1000)] {
        let begin = Instant::now();
        let refused = read(&beyond, wait).await;
        refused.assert_refused(wait, 503, "CONSISTENCY_NOT_REACHED");
        let waited = begin.elapsed();
        assert!(waited >= Duration::from_millis(least) && waited < Duration::from_secs(5), "{wait}: {waited:?}");
        let metadata = json!({ "required": (end + 1).to_string(), "processed": end.to_string() });
        assert_eq!(refused.body["details"][0]["metadata"], metadata, "{wait}");
        assert_eq!(refused.headers["retry-after"], "1", "{wait}");
    }

    let waiting = tokio::spawn(read(&beyond, "10s"));
    let written = send(client.request(Method::PATCH, &path).json(&json!({ "name": "awaited" }))).await;
    assert_eq!(written.status, StatusCode::OK);
    let read = waiting.await.expect("the read ends");
    assert_eq!(read.body["target"]["target"]["name"], json!("awaited"), "{}", read.body);
}
