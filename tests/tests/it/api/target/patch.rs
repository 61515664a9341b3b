//! Patches of targets: what they change, what they leave, and their conditions.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, send},
    tenant::Tenant,
};

/// One target.
struct Target {
    client: Client,
    path: String,
    id: String,
}

impl Target {
    async fn create(client: &Client, body: &Value) -> (Self, Answer) {
        let created = send(client.request(Method::POST, TARGETS).json(body)).await;
        assert_eq!(created.status, StatusCode::CREATED, "{}", created.body);
        let id = created.id();
        (Self { client: client.clone(), path: format!("{TARGETS}/{id}"), id }, created)
    }

    async fn patch(&self, body: &Value) -> Answer {
        let patched = send(self.client.request(Method::PATCH, &self.path).json(body)).await;
        assert_eq!(patched.status, StatusCode::OK, "{body}: {}", patched.body);
        patched
    }

    /// Writes on the condition that the object has this sequence.
    async fn write_if(&self, method: Method, condition: &str) -> Answer {
        let request = self.client.request(method.clone(), &self.path).header("if-match", condition);
        send(if method == Method::PATCH { request.json(&json!({ "name": "conditional" })) } else { request }).await
    }

    async fn read(&self, after: &Answer) -> Value {
        let read = self.client.get_target(&self.id, Some(&after.consistency())).await;
        assert_eq!(read.body["target"]["details"], after.body["details"]);
        read.body["target"]["target"].clone()
    }
}

#[tokio::test]
async fn a_patch_changes_what_it_names_and_leaves_the_rest() {
    let tenant = Tenant::start().await;
    let body = json!({ "name": "a", "restWebhook": { "url": "https://a.example" }, "timeout": "5s", "isAsync": true });
    let (target, created) = Target::create(&tenant.client().await, &body).await;
    let mut expected = body;
    let steps = [
        (json!({ "name": "b" }), json!({ "name": "b" })),
        (json!({ "timeout": "20s" }), json!({ "timeout": "20s" })),
        (
            json!({ "restWebhook": { "url": "https://b.example" } }),
            json!({ "restWebhook": { "url": "https://b.example" } }),
        ),
        (
            json!({ "rest_request_response": { "url": "https://c.example" } }),
            json!({ "restWebhook": null, "restRequestResponse": { "url": "https://c.example" } }),
        ),
        (json!({ "isAsync": false }), json!({ "isAsync": null })),
        (json!({ "interruptOnError": true }), json!({ "interruptOnError": true })),
        (json!({ "isAsync": true }), json!({ "interruptOnError": null, "isAsync": true })),
        (json!({ "interrupt_on_error": false }), json!({ "isAsync": null })),
        (json!({ "name": "c", "timeout": "1s", "isAsync": null }), json!({ "name": "c", "timeout": "1s" })),
    ];
    let (mut last, mut told) = (created.sequence(), vec![created.sequence()]);
    for (patch, change) in steps {
        let patched = target.patch(&patch).await;
        for (name, value) in change.as_object().into_iter().flatten() {
            expected[name] = value.clone();
        }
        expected.as_object_mut().expect("it is an object").retain(|_, value| !value.is_null());
        assert_eq!(target.read(&patched).await, expected, "{patch}");
        assert!(patched.sequence() > last, "{patch}");
        assert_eq!(patched.body.get("signingKey"), None, "{patch}");
        told.push(patched.sequence());
        last = patched.sequence();
    }
    assert_eq!(tenant.sequences_of(&target.id).await, told, "each patch is one event");
}

#[tokio::test]
async fn a_patch_without_change_is_no_event() {
    let tenant = Tenant::start().await;
    let body = json!({ "name": "a", "restWebhook": { "url": "https://a.example" } });
    let (target, created) = Target::create(&tenant.client().await, &body).await;
    let end = tenant.log_end().await;
    for nothing in [
        json!({}),
        json!({ "name": "a" }),
        json!({ "name": null }),
        json!({ "timeout": "10s", "isAsync": false }),
        json!({ "interruptOnError": false, "restWebhook": { "url": "https://a.example" } }),
    ] {
        let patched = target.patch(&nothing).await;
        assert_eq!(patched.body, json!({ "details": created.body["details"] }), "{nothing}");
        assert_eq!(target.read(&patched).await["name"], json!("a"), "{nothing}");
    }
    assert_eq!(tenant.log_end().await, end);
}

#[tokio::test]
async fn a_rotated_signing_key_is_shown_once() {
    let tenant = Tenant::start().await;
    let body = json!({ "name": "a", "restWebhook": { "url": "https://a.example" } });
    let (target, created) = Target::create(&tenant.client().await, &body).await;
    let mut keys = vec![created.body["signingKey"].clone()];
    let mut told = vec![created.sequence()];
    for patch in [
        json!({ "expirationSigningKey": "3600s" }),
        json!({ "expiration_signing_key": "0s" }),
        json!({ "expirationSigningKey": "0s", "name": "b" }),
    ] {
        let patched = target.patch(&patch).await;
        let key = patched.body["signingKey"].clone();
        assert!(key.as_str().is_some_and(|key| key.len() == 36) && !keys.contains(&key), "{patch}: {key}");
        keys.push(key);
        assert!(!target.read(&patched).await.to_string().to_lowercase().contains("key"), "{patch}");
        told.push(patched.sequence());
    }
    assert_eq!(tenant.sequences_of(&target.id).await, told, "each patch is one event");
    let refused =
        send(target.client.request(Method::PATCH, &target.path).json(&json!({ "expirationSigningKey": "-1s" })));
    refused.await.assert_refused("a negative expiration", 400, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_write_with_if_match_needs_that_sequence() {
    let tenant = Tenant::start().await;
    let body = json!({ "name": "a", "restWebhook": { "url": "https://a.example" } });
    let client = tenant.client().await;
    let (target, created) = Target::create(&client, &body).await;
    let (_, other) = Target::create(&client, &body).await;
    let end = tenant.log_end().await;

    for wrong in [0, created.sequence() - 1, other.sequence(), u64::MAX] {
        for method in [Method::PATCH, Method::DELETE] {
            let refused = target.write_if(method.clone(), &format!("\"{wrong}\"")).await;
            refused.assert_refused(&format!("{method} at {wrong}"), 412, "SEQUENCE_MISMATCH");
            let now = json!({ "sequence": created.sequence().to_string() });
            assert_eq!(refused.body["details"][0]["metadata"], now, "{method}");
        }
    }
    for nonsense in ["", "abc", "-1", "1.5", "18446744073709551616"] {
        let refused = target.write_if(Method::PATCH, nonsense).await;
        refused.assert_refused(&format!("If-Match: {nonsense}"), 412, "SEQUENCE_MISMATCH");
    }
    assert_eq!(tenant.log_end().await, end, "what was refused has changed nothing");

    let patched = target.write_if(Method::PATCH, &format!("\"{}\"", created.sequence())).await;
    assert_eq!(patched.status, StatusCode::OK, "{}", patched.body);
    let stale = target.write_if(Method::PATCH, &created.sequence().to_string()).await;
    stale.assert_refused("the sequence from before", 412, "SEQUENCE_MISMATCH");
    let any = target.write_if(Method::PATCH, "*").await;
    assert_eq!(any.status, StatusCode::OK, "{}", any.body);
    let deleted = target.write_if(Method::DELETE, &format!("\"x\", W/\"{}\"", any.sequence())).await;
    assert_eq!(deleted.status, StatusCode::OK, "{}", deleted.body);
    let gone = target.write_if(Method::DELETE, &deleted.sequence().to_string()).await;
    gone.assert_refused("a deleted target", 404, "RESOURCE_NOT_FOUND");
}
