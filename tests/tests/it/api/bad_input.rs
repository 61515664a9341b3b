//! Refused bodies: malformed ones, ones of another shape, and ones with fields that break their rules.

mod http;

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, TARGETS, post_text, send},
    tenant::Tenant,
};

const VALID: &str = r#"{"name":"x","restWebhook":{"url":"https://example.com"}}"#;

/// Returns the paths of the fields that break their rules.
fn fields(answer: &Answer) -> Vec<&str> {
    let violations = answer.body["details"][1]["fieldViolations"].as_array();
    violations.into_iter().flatten().filter_map(|violation| violation["field"].as_str()).collect()
}

#[tokio::test]
async fn a_body_is_exactly_one_json_value_of_the_fields_type() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let end = tenant.log_end().await;
    let inject = |tail: &str| format!("{}{tail}", VALID.trim_end_matches('}').to_owned() + "}}");
    for body in [
        "{".to_owned(),
        "{'name':'x'}".to_owned(),
        format!("{VALID}{VALID}"),
        format!("{VALID} null"),
        format!("\u{feff}{VALID}"),
        " ".to_owned(),
        r#"{"name":"x","name":"y","restWebhook":{"url":"https://example.com"}}"#.to_owned(),
        r#"{"name":"x","restWebhook":{"url":"https://a.example","url":"https://b.example"}}"#.to_owned(),
        r#"{"name":null,"name":"x","restWebhook":{"url":"https://example.com"}}"#.to_owned(),
        r#"{"name":"\ud800","restWebhook":{"url":"https://example.com"}}"#.to_owned(),
        r#"{"name":NaN}"#.to_owned(),
        // What would be let in by putting texts together.
        inject(r#","ctx":{"orgId":"evil"}"#),
        inject(r#","id":"evil""#),
        inject("}"),
        "[".repeat(10_000),
        r#"{"a":"#.repeat(10_000),
    ] {
        let shown: String = body.chars().take(60).collect();
        post_text(&client, TARGETS, body).await.assert_refused(&shown, 400, "MALFORMED_JSON");
    }
    post_text(&client, TARGETS, b"\"\xff\"".to_vec()).await.assert_refused("no UTF-8", 400, "MALFORMED_JSON");
    for body in ["[]", "5", "true", "\"text\"", "[{}]"] {
        post_text(&client, TARGETS, body).await.assert_refused(body, 400, "INVALID_REQUEST");
    }
    for body in ["", "null"] {
        let refused = post_text(&client, TARGETS, body).await;
        refused.assert_refused(&format!("a body {body:?}"), 400, "INVALID_REQUEST");
        assert_eq!(fields(&refused), ["target"], "{body:?}");
    }
    assert_eq!(tenant.log_end().await, end, "what was refused has changed nothing");
}

#[tokio::test]
async fn what_is_not_known_is_named() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    for (member, value, path) in [
        ("nmae", json!("x"), "target.nmae"),
        ("id", json!("evil"), "target.id"),
        ("ctx", json!({ "orgId": "evil" }), "target.ctx"),
        ("details", json!({}), "target.details"),
        ("signingKey", json!("mine"), "target.signingKey"),
        ("__proto__", json!({}), "target.__proto__"),
        ("restWebhook", json!({ "url": "https://example.com", "method": "GET" }), "target.restWebhook.method"),
    ] {
        let mut body: Value = serde_json::from_str(VALID).expect("it is valid");
        body[member] = value;
        let refused = post_text(&client, TARGETS, body.to_string()).await;
        refused.assert_refused(member, 400, "UNKNOWN_FIELD");
        assert_eq!(refused.body["details"][0]["metadata"]["field"], json!(path), "{}", refused.body);
        assert_eq!(fields(&refused), [path], "{member}");
    }
    for (query, name) in [
        ("dryRun=true", "dryRun"),
        ("id=evil", "id"),
        ("target.name=y", "target.name"),
        ("=", ""),
        ("no_such=1", "no_such"),
    ] {
        let request = client.request(Method::POST, &format!("{TARGETS}?{query}"));
        let refused = send(request.header("content-type", "application/json").body(VALID)).await;
        refused.assert_refused(query, 400, "UNKNOWN_PARAMETER");
        assert_eq!(refused.body["details"][0]["metadata"]["parameter"], json!(name), "{query}");
        assert_eq!(fields(&refused), [name], "{query}");
    }
    let refused = send(client.request(Method::GET, &format!("{TARGETS}/1?%ff=1"))).await;
    refused.assert_refused("a query that is no UTF-8", 400, "INVALID_PARAMETER");
}

/// Returns members that make a target invalid, each with the path of the field that is wrong.
fn broken() -> Vec<(&'static str, Value, &'static str)> {
    let url = |url: String| json!({ "url": url });
    vec![
        ("name", json!(5), "target.name"),
        ("name", json!(["x"]), "target.name"),
        ("name", json!(""), "target.name"),
        ("name", json!(null), "target.name"),
        ("name", json!("x".repeat(201)), "target.name"),
        ("name", json!("𝄞".repeat(201)), "target.name"),
        ("name", json!("a\u{0}b"), "target.name"),
        ("name", json!("a\nb"), "target.name"),
        ("name", json!("\u{1f}"), "target.name"),
        ("timeout", json!(10), "target.timeout"),
        ("timeout", json!("10"), "target.timeout"),
        ("timeout", json!("10m"), "target.timeout"),
        ("timeout", json!("0s"), "target.timeout"),
        ("timeout", json!("-1s"), "target.timeout"),
        ("timeout", json!("270.5s"), "target.timeout"),
        ("timeout", json!("270.000000001s"), "target.timeout"),
        ("timeout", json!("99999999999999999999s"), "target.timeout"),
        ("timeout", json!({ "seconds": 1 }), "target.timeout"),
        ("isAsync", json!("true"), "target.isAsync"),
        ("isAsync", json!(1), "target.isAsync"),
        ("restWebhook", json!(null), "target.targetType"),
        ("restWebhook", json!("https://example.com"), "target.restWebhook"),
        ("restWebhook", json!({}), "target.restWebhook.url"),
        ("restWebhook", json!({ "url": 5 }), "target.restWebhook.url"),
        ("restWebhook", url("https://example.com?".to_owned() + &"x".repeat(981)), "target.restWebhook.url"),
        ("restWebhook", url(String::new()), "target.restWebhook.url"),
        ("restWebhook", url("example.com".into()), "target.restWebhook.url"),
        ("restWebhook", url("/hook".into()), "target.restWebhook.url"),
        ("restWebhook", url("https://exa mple.com".into()), "target.restWebhook.url"),
        ("restWebhook", url("https://example.com/\n".into()), "target.restWebhook.url"),
    ]
}

#[tokio::test]
async fn a_field_that_breaks_its_rule_is_named() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let end = tenant.log_end().await;
    for (member, value, path) in broken() {
        let mut body: Value = serde_json::from_str(VALID).expect("it is valid");
        body[member] = value;
        let shown: String = body.to_string().chars().take(90).collect();
        let refused = post_text(&client, TARGETS, body.to_string()).await;
        refused.assert_refused(&shown, 400, "INVALID_REQUEST");
        assert_eq!(fields(&refused), [path], "{shown}: {}", refused.body);
        assert!(refused.body["message"].as_str().is_some_and(|message| message.contains(path)), "{}", refused.body);
    }
    let two_types = r#"{"name":"x","restWebhook":{"url":"https://a.b"},"restRequestResponse":{"url":"https://a.b"}}"#;
    let two_modes = r#"{"name":"x","restWebhook":{"url":"https://a.b"},"isAsync":true,"interruptOnError":true}"#;
    let two_spellings = r#"{"name":"x","restWebhook":{"url":"https://a.b"},"rest_webhook":{"url":"https://a.b"}}"#;
    for body in [two_types, two_modes, two_spellings] {
        post_text(&client, TARGETS, body).await.assert_refused(body, 400, "INVALID_REQUEST");
    }
    let bad = json!({ "name": "\n", "timeout": "271s", "restWebhook": { "url": "nonsense" } });
    let refused = post_text(&client, TARGETS, bad.to_string()).await;
    assert_eq!(fields(&refused), ["target.name", "target.timeout", "target.restWebhook.url"], "all at once");
    assert_eq!(tenant.log_end().await, end, "what was refused has changed nothing");
}

#[tokio::test]
async fn an_error_is_told_like_this() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let invalid = post_text(&client, TARGETS, r#"{"timeout":"0s"}"#).await;
    assert_invalid(&invalid.body);
    let missing = send(client.request(Method::GET, &format!("{TARGETS}/1"))).await;
    assert_missing(&missing.body);
    let malformed = post_text(&client, TARGETS, r#"{"name":"x"},"id":"evil"}"#).await;
    assert_malformed(&malformed.body);
}

fn assert_invalid(body: &Value) {
    insta::assert_json_snapshot!(body, { ".details[2].requestId" => "[id]" }, @r#"
    {
      "code": 3,
      "details": [
        {
          "@type": "type.googleapis.com/google.rpc.ErrorInfo",
          "domain": "platform",
          "metadata": {},
          "reason": "INVALID_REQUEST"
        },
        {
          "@type": "type.googleapis.com/google.rpc.BadRequest",
          "fieldViolations": [
            {
              "description": "must have 1 to 200 characters",
              "field": "target.name"
            },
            {
              "description": "must be longer than 0s and at most 270s",
              "field": "target.timeout"
            },
            {
              "description": "is required: one of restWebhook, restRequestResponse",
              "field": "target.targetType"
            }
          ]
        },
        {
          "@type": "type.googleapis.com/google.rpc.RequestInfo",
          "requestId": "[id]"
        }
      ],
      "message": "target.name must have 1 to 200 characters; target.timeout must be longer than 0s and at most 270s; target.targetType is required: one of restWebhook, restRequestResponse"
    }
    "#);
}

fn assert_missing(body: &Value) {
    insta::assert_json_snapshot!(body, { ".details[1].requestId" => "[id]" }, @r#"
    {
      "code": 5,
      "details": [
        {
          "@type": "type.googleapis.com/google.rpc.ErrorInfo",
          "domain": "platform",
          "metadata": {
            "resource": "target"
          },
          "reason": "RESOURCE_NOT_FOUND"
        },
        {
          "@type": "type.googleapis.com/google.rpc.RequestInfo",
          "requestId": "[id]"
        }
      ],
      "message": "target not found"
    }
    "#);
}

fn assert_malformed(body: &Value) {
    insta::assert_json_snapshot!(body, { ".details[1].requestId" => "[id]" }, @r#"
    {
      "code": 3,
      "details": [
        {
          "@type": "type.googleapis.com/google.rpc.ErrorInfo",
          "domain": "platform",
          "metadata": {},
          "reason": "MALFORMED_JSON"
        },
        {
          "@type": "type.googleapis.com/google.rpc.RequestInfo",
          "requestId": "[id]"
        }
      ],
      "message": "the body must be exactly one JSON value: trailing characters at line 1 column 13"
    }
    "#);
}
