//! Wrong bodies and parameters: each is refused with what is wrong, and nothing is done.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, send, target},
    platform::Platform,
};

async fn post(client: &Client, body: impl Into<String>) -> Answer {
    let request = client.request(Method::POST, TARGETS).header("content-type", "application/json");
    send(request.body(body.into())).await
}

fn with(changes: impl Into<Value>) -> String {
    let mut target = target("first");
    for (name, value) in changes.into().as_object().expect("changes are an object") {
        target[name] = value.clone();
    }
    target.to_string()
}

fn fields(answer: &Answer) -> Vec<&str> {
    let violations = answer.body["details"][1]["fieldViolations"].as_array();
    violations.into_iter().flatten().filter_map(|violation| violation["field"].as_str()).collect()
}

#[tokio::test]
async fn a_malformed_body_is_refused_and_named() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let webhook = r#""restWebhook": {"url": "https://example.com"}"#;
    for (case, body, reason, named) in [
        ("no JSON", "{".to_owned(), "MALFORMED_JSON", ""),
        ("two values", format!("{} {}", target("a"), target("b")), "MALFORMED_JSON", ""),
        ("a sibling smuggled in", format!("{},\"ctx\":{{\"orgId\":\"evil\"}}", target("a")), "MALFORMED_JSON", ""),
        ("a member twice", format!(r#"{{"name": "a", "name": "b", {webhook}}}"#), "MALFORMED_JSON", "name"),
        ("an unknown member", with(json!({ "colour": "red" })), "UNKNOWN_FIELD", "colour"),
        (
            "an unknown inner member",
            with(json!({ "restWebhook": { "url": "https://a.b", "x": 1 } })),
            "UNKNOWN_FIELD",
            "x",
        ),
        ("an array", "[]".to_owned(), "INVALID_REQUEST", ""),
        ("a number as name", with(json!({ "name": 7 })), "INVALID_REQUEST", "name"),
        ("text as bool", with(json!({ "isAsync": "yes" })), "INVALID_REQUEST", "is_async"),
        ("a number as duration", with(json!({ "timeout": 3 })), "INVALID_REQUEST", "timeout"),
    ] {
        let answer = post(&client, body).await;
        answer.assert_refused(case, 400, reason);
        assert!(answer.body.to_string().contains(named), "{case}: {}", answer.body);
    }
}

#[tokio::test]
async fn every_broken_rule_is_told_at_once_with_its_path() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let both = json!({ "restRequestResponse": { "url": "https://a.example" } });
    post(&client, with(both)).await.assert_refused("both types", 400, "INVALID_REQUEST");
    let long = format!("https://a.example/{}", "x".repeat(1000));
    for (case, changes, field) in [
        ("no name", json!({ "name": "" }), "target.name"),
        ("201 characters", json!({ "name": "é".repeat(201) }), "target.name"),
        ("a control character", json!({ "name": "a\u{1}" }), "target.name"),
        ("a long address", json!({ "restWebhook": { "url": long } }), "target.rest_webhook.url"),
        ("no address", json!({ "restWebhook": { "url": "nope" } }), "target.rest_webhook.url"),
        ("no time", json!({ "timeout": "0s" }), "target.timeout"),
        ("too much time", json!({ "timeout": "270.5s" }), "target.timeout"),
        ("no type", json!({ "restWebhook": null }), "target.target_type"),
    ] {
        let answer = post(&client, with(changes)).await;
        answer.assert_refused(case, 400, "INVALID_REQUEST");
        assert_eq!(fields(&answer), [field], "{case}: {}", answer.body);
    }
    let all = post(&client, with(json!({ "name": "", "timeout": "0s", "restWebhook": { "url": "" } }))).await;
    assert_eq!(fields(&all).len(), 3, "{}", all.body);
    let longest = post(&client, with(json!({ "name": "\u{1F600}".repeat(200) }))).await;
    assert_eq!(longest.status, StatusCode::CREATED, "200 characters of four bytes are 200 characters");
}

#[tokio::test]
async fn ids_parameters_and_sizes_have_bounds() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let get = async |id: &str| send(client.request(Method::GET, &format!("{TARGETS}/{id}"))).await;
    get(&"1".repeat(201)).await.assert_refused("a long id", 400, "INVALID_REQUEST");
    get(&"x".repeat(200)).await.assert_refused("an unknown id", 404, "RESOURCE_NOT_FOUND");
    for nul in ["%00", "a%00b"] {
        get(nul).await.assert_refused("an id that Postgres cannot have", 404, "RESOURCE_NOT_FOUND");
        let patch = client.request(Method::PATCH, &format!("{TARGETS}/{nul}")).json(&json!({ "name": "x" }));
        send(patch).await.assert_refused("a patch of one", 404, "RESOURCE_NOT_FOUND");
    }
    for (header, value) in [("idempotency-key", &b"cl\xe9"[..]), ("if-match", b"\xff"), ("if-match", b"+1")] {
        let request = client.request(Method::POST, TARGETS).header(header, value).json(&target("a"));
        send(request).await.assert_refused("a header that is no text", 400, "INVALID_REQUEST");
    }
    get("1?colour=red").await.assert_refused("an unknown parameter", 400, "UNKNOWN_PARAMETER");
    let search = async |query: &str| send(client.request(Method::POST, &format!("{TARGETS}/_search?{query}"))).await;
    search("query.limit=1001").await.assert_refused("a large limit", 400, "INVALID_REQUEST");
    search("query.limit=x").await.assert_refused("a limit in letters", 400, "INVALID_REQUEST");
    search("query.limit=1&query.limit=2").await.assert_refused("a limit twice", 400, "INVALID_PARAMETER");

    let large = post(&client, with(json!({ "name": "x".repeat(5 << 20) }))).await;
    large.assert_refused("5 MB", 413, "BODY_TOO_LARGE");
    let form = client.request(Method::POST, TARGETS).header("content-type", "text/plain").body("name=a");
    send(form).await.assert_refused("a form", 415, "UNSUPPORTED_MEDIA_TYPE");
    let put = send(client.request(Method::PUT, TARGETS)).await;
    put.assert_refused("a wrong method", 405, "METHOD_NOT_ALLOWED");
    assert_eq!(put.headers["allow"], "POST");
    send(client.request(Method::GET, "/nowhere")).await.assert_refused("an unknown path", 404, "ROUTE_NOT_FOUND");
    for wait in ["3", "11s", "-1s", "soon"] {
        let request = client.request(Method::GET, &format!("{TARGETS}/1")).header("consistency-wait", wait);
        send(request).await.assert_refused(wait, 400, "INVALID_REQUEST");
    }
}
