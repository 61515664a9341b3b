//! Targets over HTTP.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{TARGETS, send, target},
    platform::Platform,
};

#[tokio::test]
async fn a_target_is_created_read_changed_and_deleted() {
    let platform = Platform::start().await;
    let client = platform.client().await;

    let created = send(client.request(Method::POST, TARGETS).json(&target("first"))).await;
    assert_eq!(created.status, StatusCode::CREATED);
    assert_eq!(created.body["signingKey"].as_str().map(str::len), Some(36));
    let id = created.id();

    let read = client.get_target(&id, Some(&created.consistency())).await;
    assert_eq!(read.status, StatusCode::OK);
    assert_eq!(
        read.body["target"],
        json!({
            "details": created.body["details"],
            "target": { "name": "first", "restWebhook": { "url": "https://example.com/hook" }, "timeout": "10s" },
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
    assert_eq!((read.status, read.reason()), (StatusCode::NOT_FOUND, "RESOURCE_NOT_FOUND"));
}
