//! Targets over HTTP: every variant is read as it was created.

mod address;
mod consistency;
mod patch;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, send, target},
    tenant::Tenant,
};

const URL: &str = "https://example.com/hook";

#[tokio::test]
async fn a_target_is_created_read_changed_and_deleted() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;

    let created = send(client.request(Method::POST, TARGETS).json(&target("first"))).await;
    assert_eq!(created.status, StatusCode::CREATED);
    assert_eq!(created.body["signingKey"].as_str().map(str::len), Some(36));
    let id = created.id();
    let owner = json!({ "type": "OWNER_TYPE_INSTANCE", "id": tenant.bootstrap.instance_id });
    assert_eq!(created.body["details"]["resourceOwner"], owner);

    let read = client.get_target(&id, Some(&created.consistency())).await;
    assert_eq!(read.status, StatusCode::OK);
    assert_eq!(
        read.body["target"],
        json!({
            "details": created.body["details"],
            "target": { "name": "first", "restWebhook": { "url": URL }, "timeout": "10s" },
        })
    );

    let path = format!("{TARGETS}/{id}");
    let patched = send(client.request(Method::PATCH, &path).json(&json!({ "isAsync": true, "timeout": "0.5s" }))).await;
    let read = client.get_target(&id, Some(&patched.consistency())).await;
    assert_eq!(read.body["target"]["details"], patched.body["details"]);
    assert_eq!(read.body["target"]["target"]["isAsync"], json!(true));
    assert_eq!(read.body["target"]["target"]["timeout"], json!("0.500s"));

    let deleted = send(client.request(Method::DELETE, &path)).await;
    assert_eq!(deleted.status, StatusCode::OK);
    let read = client.get_target(&id, Some(&deleted.consistency())).await;
    read.assert_refused("a deleted target", 404, "RESOURCE_NOT_FOUND");
    for again in [client.request(Method::DELETE, &path), client.request(Method::PATCH, &path).json(&json!({}))] {
        send(again).await.assert_refused("a write to a deleted target", 404, "RESOURCE_NOT_FOUND");
    }
}

/// Returns the variants: what is sent, and what is read back.
fn variants() -> Vec<(&'static str, Value, Value)> {
    let webhook = |more: Value| with(json!({ "name": "n", "restWebhook": { "url": URL } }), &more);
    let read = |more: Value| with(webhook(json!({ "timeout": "10s" })), &more);
    vec![
        ("the least", webhook(json!({})), read(json!({}))),
        (
            "a request-response target",
            json!({ "name": "n", "restRequestResponse": { "url": URL } }),
            json!({ "name": "n", "restRequestResponse": { "url": URL }, "timeout": "10s" }),
        ),
        ("an async one", webhook(json!({ "isAsync": true })), read(json!({ "isAsync": true }))),
        (
            "an interrupting one",
            webhook(json!({ "interruptOnError": true })),
            read(json!({ "interruptOnError": true })),
        ),
        ("isAsync false is neither", webhook(json!({ "isAsync": false })), read(json!({}))),
        ("interruptOnError false is neither", webhook(json!({ "interruptOnError": false })), read(json!({}))),
        (
            "names of the proto file",
            json!({ "name": "n", "rest_webhook": { "url": URL }, "interrupt_on_error": true }),
            read(json!({ "interruptOnError": true })),
        ),
        (
            "null is absent",
            webhook(json!({ "timeout": null, "isAsync": null, "interruptOnError": null, "restRequestResponse": null })),
            read(json!({})),
        ),
        ("null beside its alternative", webhook(json!({ "isAsync": null, "interruptOnError": true })), {
            read(json!({ "interruptOnError": true }))
        }),
        ("the longest timeout", webhook(json!({ "timeout": "270s" })), read(json!({ "timeout": "270s" }))),
        ("a timeout with a fraction", webhook(json!({ "timeout": "1.5s" })), read(json!({ "timeout": "1.500s" }))),
        ("a millisecond", webhook(json!({ "timeout": "0.001s" })), read(json!({ "timeout": "0.001s" }))),
        ("part of a millisecond", webhook(json!({ "timeout": "0.000000001s" })), read(json!({ "timeout": "0.001s" }))),
        (
            "a name is kept as sent",
            webhook(json!({ "name": " \u{7f}e\u{301}\u{200f}<b>'\"\\ " })),
            read(json!({ "name": " \u{7f}e\u{301}\u{200f}<b>'\"\\ " })),
        ),
        (
            "200 characters of four bytes",
            webhook(json!({ "name": "𝄞".repeat(200) })),
            read(json!({ "name": "𝄞".repeat(200) })),
        ),
        ("a URL of 1000 characters", webhook(json!({ "restWebhook": { "url": long_url() } })), {
            read(json!({ "restWebhook": { "url": long_url() } }))
        }),
    ]
}

fn long_url() -> String {
    let url = format!("{URL}?");
    let rest = "x".repeat(1000 - url.len());
    url + &rest
}

fn with(mut value: Value, more: &Value) -> Value {
    for (name, member) in more.as_object().into_iter().flatten() {
        value[name] = member.clone();
    }
    value
}

async fn create(client: &Client, body: &Value) -> Answer {
    let created = send(client.request(Method::POST, TARGETS).json(body)).await;
    assert_eq!(created.status, StatusCode::CREATED, "{body}: {}", created.body);
    created
}

#[tokio::test]
async fn every_variant_of_a_target_is_read_as_it_was_given() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let mut keys = std::collections::HashSet::new();
    for (case, given, expected) in variants() {
        let created = create(&client, &given).await;
        let read = client.get_target(&created.id(), Some(&created.consistency())).await;
        assert_eq!(read.body["target"]["target"], expected, "{case}");
        let key = created.body["signingKey"].as_str().unwrap_or_default().to_owned();
        assert!(key.len() == 36 && key.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{case}: {key}");
        assert!(!read.body.to_string().contains(&key), "{case}: the key is shown once");
        assert!(keys.insert(key), "{case}: every target has a key of its own");
    }
}

#[tokio::test]
async fn details_have_the_forms_of_canonical_json() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let (first, second) = (create(&client, &target("n")).await, create(&client, &target("n")).await);
    for created in [&first, &second] {
        let details = &created.body["details"];
        let id: u64 = details["id"].as_str().and_then(|id| id.parse().ok()).expect("an id is a decimal string");
        assert!(id < 1 << 63, "{details}");
        assert!(details["sequence"].as_str().is_some_and(|sequence| sequence.parse::<u64>().is_ok()), "{details}");
        let date = details["changeDate"].as_str().unwrap_or_default();
        assert!(date.ends_with('Z') && date.parse::<jiff::Timestamp>().is_ok(), "{details}");
    }
    let number = |answer: &Answer, member: &str| -> u64 {
        answer.body["details"][member].as_str().and_then(|text| text.parse().ok()).expect("a number as text")
    };
    assert!(number(&second, "id") > number(&first, "id"), "ids are ordered by time");
    assert!(number(&second, "sequence") > number(&first, "sequence"), "the sequence grows");
    for created in [&first, &second] {
        assert_eq!(tenant.sequences_of(&created.id()).await, [number(created, "sequence")], "it is the event's place");
    }
}
