//! The document at /openapi.json compared with the platform that it describes, and the page at /docs.

mod described;

use base::secret::sha256;
use base64::{Engine, engine::general_purpose::STANDARD};
use described::Described;
use proto::operation::OPERATIONS;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, send, target},
    platform::Platform,
    tenant::{Shared, Tenant},
};

/// The schema of OpenAPI 3.1 documents, as published by the OpenAPI Initiative under Apache-2.0.
const OPENAPI: &str = include_str!("../../openapi-3.1.json");

fn method(verb: &str) -> Method {
    verb.to_uppercase().parse().expect("it is a method")
}

#[tokio::test]
async fn the_document_is_openapi_3_1() {
    let shared = Shared::find().await;
    let described = Described::of(&shared).await;
    let schema: Value = serde_json::from_str(OPENAPI).expect("the file is JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("it is a schema");
    let faults: Vec<String> = validator.iter_errors(&described.document).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let schemas = described.document["components"]["schemas"].as_object().expect("there are schemas");
    for (name, schema) in schemas {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{name}: {schema}");
    }
}

#[tokio::test]
async fn every_operation_that_is_built_is_described_once_and_no_other() {
    let shared = Shared::find().await;
    let (client, described) = (shared.client().await, Described::of(&shared).await);
    let mut all = described.operations();
    for facts in OPERATIONS {
        let probed = method(&format!("{:?}", facts.verb));
        let is_built = send(client.anonymous(probed.clone(), &facts.path.replace("{id}", "1"))).await.status != 501;
        let count = all.len();
        all.retain(|operation| operation.path != facts.path || method(operation.verb) != probed);
        assert_eq!(count - all.len(), usize::from(is_built), "{}", facts.method);
    }
    // What is left belongs to no service.
    for operation in all {
        assert_eq!(operation.item["tags"], json!(["OAuth"]), "{}", operation.path);
        let answer = send(client.anonymous(method(operation.verb), operation.path)).await;
        assert!(![404, 405, 501].contains(&answer.status.as_u16()), "{}: {}", operation.path, answer.status);
    }
}

/// A client whose requests and answers are checked against the document.
struct CheckedClient<'a> {
    described: &'a Described,
    client: &'a Client,
}

impl CheckedClient<'_> {
    /// Sends the request of an operation.
    async fn send(&self, id: &str, path: &str, body: Option<&Value>, headers: &[(&str, &str)]) -> Answer {
        let mut request = self.client.request(method(self.described.operation(id).verb), path);
        if let Some(body) = body {
            self.described.assert_sendable(id, body);
            request = request.json(body);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = send(request).await;
        self.described.assert_answered(id, &answer);
        answer
    }
}

#[tokio::test]
async fn requests_and_answers_are_as_described() {
    let tenant = Tenant::start().await;
    let (client, described) = (tenant.client().await, Described::of(&tenant).await);
    let checked = CheckedClient { described: &described, client: &client };
    let body = json!({ "name": "first", "restWebhook": { "url": "https://example.com/hook" }, "timeout": "3s",
        "isAsync": null, "interruptOnError": true, "restRequestResponse": null });
    let key = [("idempotency-key", "one"), ("prefer", "wait=5")];
    for replayed in [false, true] {
        let created = checked.send("CreateTarget", TARGETS, Some(&body), &key).await;
        assert_eq!(
            (created.status, created.headers.contains_key("idempotency-replayed")),
            (StatusCode::CREATED, replayed)
        );
    }
    let created = checked.send("CreateTarget", TARGETS, Some(&target("second")), &[]).await;
    let path = format!("{TARGETS}/{}", created.id());
    let change = json!({ "name": null, "isAsync": true, "timeout": "0.5s", "expirationSigningKey": "0s" });
    let patched = checked.send("PatchTarget", &path, Some(&change), &[]).await;
    let fresh = [("consistency-token", patched.consistency()), ("consistency-wait", "10s".to_owned())];
    let fresh = fresh.each_ref().map(|(name, value)| (*name, value.as_str()));
    checked.send("GetTarget", &path, None, &fresh).await;
    let search = format!("{TARGETS}/_search");
    for body in [
        json!([]),
        json!([{ "name": { "name": "FIRST", "method": "TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE" } }]),
        json!({ "filters": [{ "inIds": { "ids": [created.id()] } }], "query": { "limit": 1, "offset": "0" } }),
    ] {
        let found = checked.send("SearchTargets", &search, Some(&body), &fresh).await;
        assert_eq!(found.status, StatusCode::OK);
        assert!(found.body["result"].as_array().is_some_and(|result| !result.is_empty()), "{}", found.body);
    }
    checked.send("DeleteTarget", &path, None, &[]).await;
    for id in ["discovery", "keys"] {
        described.assert_answered(id, &send(client.anonymous(Method::GET, described.operation(id).path)).await);
    }
}

#[tokio::test]
async fn refusals_are_as_described() {
    let tenant = Tenant::start().await;
    let (client, described) = (tenant.client().await, Described::of(&tenant).await);
    let nobody = tenant.client_named("nobody").await;
    let one = format!("{TARGETS}/1");
    let post = |body: &Value| client.request(Method::POST, TARGETS).json(body);
    let change = || client.request(Method::PATCH, &one).json(&json!({ "name": "x" }));
    let cases = [
        ("CreateTarget", post(&json!({})), 400),
        ("CreateTarget", post(&json!({ "nmae": "x" })), 400),
        (
            "CreateTarget",
            client.request(Method::POST, TARGETS).header("content-type", "application/json").body("{"),
            400,
        ),
        ("CreateTarget", client.request(Method::POST, TARGETS).body("{}"), 415),
        ("CreateTarget", post(&json!({ "name": "x".repeat(1 << 20) })), 413),
        ("CreateTarget", client.anonymous(Method::POST, TARGETS).json(&target("x")), 401),
        ("CreateTarget", nobody.request(Method::POST, TARGETS).json(&target("x")), 403),
        ("GetTarget", client.request(Method::GET, &one), 404),
        ("GetTarget", client.request(Method::GET, &one).header("host", "evil.example"), 404),
        ("GetTarget", client.request(Method::GET, &one).header("consistency-token", "x"), 400),
        ("GetTarget", client.request(Method::GET, &format!("{one}?colour=red")), 400),
        ("SearchTargets", client.request(Method::POST, &format!("{TARGETS}/_search?query.limit=1001")), 400),
        ("PatchTarget", change(), 404),
        ("PatchTarget", change().header("idempotency-key", "x".repeat(201)), 400),
        ("DeleteTarget", client.request(Method::DELETE, &one).bearer_auth("x"), 401),
        ("token", client.anonymous(Method::POST, "/oauth/v2/token").form(&[("grant_type", "password")]), 400),
        (
            "token",
            client.anonymous(Method::POST, "/oauth/v2/token").header("host", "evil.example").form(&[("a", "b")]),
            404,
        ),
        ("keys", client.anonymous(Method::GET, "/oauth/v2/keys").header("host", "evil.example"), 404),
    ];
    for (id, request, status) in cases {
        let answer = send(request).await;
        assert_eq!(answer.status, status, "{id}: {}", answer.body);
        described.assert_answered(id, &answer);
    }
    let created = send(post(&target("x"))).await;
    let path = format!("{TARGETS}/{}", created.id());
    let mismatched = send(client.request(Method::DELETE, &path).header("if-match", "\"1\"")).await;
    assert_eq!(mismatched.status, 412);
    described.assert_answered("DeleteTarget", &mismatched);
}

#[tokio::test]
async fn what_is_described_as_wrong_is_refused_and_what_as_right_is_not() {
    let tenant = Tenant::start().await;
    let (client, described) = (tenant.client().await, Described::of(&tenant).await);
    let webhook = json!({ "url": "https://example.com" });
    let of = |more: Value| {
        let mut body = target("n");
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        body
    };
    let bodies = [
        of(json!({})),
        of(json!({ "name": "" })),
        of(json!({ "name": null })),
        of(json!({ "name": "\u{1f}" })),
        of(json!({ "name": "𝄞".repeat(200) })),
        of(json!({ "name": "𝄞".repeat(201) })),
        of(json!({ "restRequestResponse": webhook })),
        of(json!({ "restRequestResponse": webhook, "restWebhook": null })),
        of(json!({ "restWebhook": null })),
        of(json!({ "restWebhook": {} })),
        of(json!({ "restWebhook": { "url": "example.com" } })),
        of(json!({ "restWebhook": { "url": "https://example.com", "more": 1 } })),
        of(json!({ "isAsync": true, "interruptOnError": true })),
        of(json!({ "isAsync": true, "interruptOnError": null })),
        of(json!({ "isAsync": "true" })),
        of(json!({ "timeout": "0s" })),
        of(json!({ "timeout": "0.000s" })),
        of(json!({ "timeout": "0.001s" })),
        of(json!({ "timeout": "-1s" })),
        of(json!({ "timeout": "269.9s" })),
        of(json!({ "timeout": "270s" })),
        of(json!({ "timeout": "270.1s" })),
        of(json!({ "timeout": "271s" })),
        of(json!({ "timeout": 3 })),
        of(json!({ "timeout": null })),
        json!([]),
        json!(null),
    ];
    for body in bodies {
        let answer = send(client.request(Method::POST, TARGETS).json(&body)).await;
        assert_eq!(answer.status == 201, described.is_sendable("CreateTarget", &body), "{body}: {}", answer.body);
    }
}

/// Returns the examples of a body.
fn examples<'a>(described: &'a Described, content: &'a Value) -> Vec<&'a Value> {
    let several = content["examples"].as_object().into_iter().flatten();
    let several = several.map(|(_, example)| &described.resolved(example)["value"]);
    content.get("example").into_iter().chain(several).collect()
}

#[tokio::test]
async fn examples_are_valid_and_can_be_sent() {
    let platform = Platform::start().await;
    let (owner, operator, described) =
        (platform.client().await, platform.operator().await, Described::of(&platform).await);
    let mut refused = vec![];
    for operation in described.operations() {
        let id = operation.item["operationId"].as_str().expect("it has an id");
        let is_of_system = operation.item["x-permission"].as_str().is_some_and(|needed| needed.starts_with("system."));
        let mut query = vec![];
        for parameter in operation.item["parameters"].as_array().into_iter().flatten() {
            let parameter = described.resolved(parameter);
            if parameter["required"] == true && parameter["in"] == "query" {
                query.push((parameter["name"].clone(), parameter["example"].clone()));
            }
            if let Some(example) = parameter.get("example") {
                described.assert_valid(&format!("{id} {parameter}"), &parameter["schema"], example);
            }
        }
        let responses = operation.item["responses"].as_object().expect("it answers").values();
        let contents = responses.map(|response| &described.resolved(response)["content"]);
        let contents = contents.chain([&operation.item["requestBody"]["content"]]);
        for content in contents.filter_map(Value::as_object).flat_map(|content| content.values()) {
            for example in examples(&described, content) {
                described.assert_valid(id, &content["schema"], example);
            }
        }
        for body in examples(&described, &operation.item["requestBody"]["content"]["application/json"]) {
            let path = ["{id}", "{app_id}", "{user_id}"]
                .iter()
                .fold(operation.path.to_owned(), |path, id| path.replace(id, "1"));
            let is_operators = is_of_system || body.to_string().contains("\"system\":true");
            let client = if is_operators { &operator } else { &owner };
            let answer = send(client.request(method(operation.verb), &path).query(&query).json(body)).await;
            // Ids of examples are nobody's here.
            let names_nobody = operation.path.contains('{') || body.to_string().contains("117486514211913728");
            let unknown = ["PRECONDITION_FAILED", "CREDENTIALS_INVALID"];
            let is_unknown = answer.status == 404 || unknown.contains(&answer.reason());
            // A key or certificate is only shown where it begins.
            let is_shortened = body.to_string().contains("-----BEGIN") && answer.reason() == "INVALID_REQUEST";
            let is_fine = answer.status.is_success() || (names_nobody && is_unknown) || is_shortened;
            if !is_fine {
                refused.push(format!("{id} {body}: {}", answer.body));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[tokio::test]
async fn the_document_is_for_everybody_and_not_sent_twice() {
    let shared = Shared::find().await;
    let client = shared.client().await;
    for path in ["/openapi.json", "/docs"] {
        let get = || client.anonymous(Method::GET, path);
        let first = send(get().header("host", "elsewhere.example")).await;
        assert_eq!(first.status, StatusCode::OK, "{path}");
        assert!(first.headers.contains_key("x-request-id"), "{path}");
        let tag = first.headers["etag"].to_str().expect("a tag is text").to_owned();
        for known in [tag.clone(), format!("\"x\", {tag}"), "*".into()] {
            assert_eq!(send(get().header("if-none-match", known)).await.status, StatusCode::NOT_MODIFIED, "{path}");
        }
        assert_eq!(send(get().header("if-none-match", "\"x\"")).await.status, StatusCode::OK, "{path}");
        send(client.anonymous(Method::POST, path)).await.assert_refused(path, 405, "METHOD_NOT_ALLOWED");
    }
}

/// Returns the text between the first two of these marks.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("there is {begin}"));
    rest.split_once(end).unwrap_or_else(|| panic!("there is {end}")).0
}

#[tokio::test]
async fn the_page_shows_everything_and_needs_nothing_from_elsewhere() {
    let shared = Shared::find().await;
    let (client, described) = (shared.client().await, Described::of(&shared).await);
    let answer = client.anonymous(Method::GET, "/docs").send().await.expect("it answers");
    let headers = answer.headers().clone();
    let page = answer.text().await.expect("it is text");
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");
    let policy = headers["content-security-policy"].to_str().expect("it is text");
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{policy}");
    for (kind, begin, end) in [("style-src", "<style>", "</style>"), ("script-src", "<script>", "</script>")] {
        let hash = STANDARD.encode(sha256(between(&page, begin, end).as_bytes()));
        assert!(policy.contains(&format!("{kind} 'sha256-{hash}';")), "{kind}: {policy}");
        assert_eq!(page.matches(begin).count(), 1);
    }
    for operation in described.operations() {
        let id = operation.item["operationId"].as_str().expect("it has an id");
        assert!(page.contains(&format!("<article id=\"{id}\"")), "{id}");
        assert!(page.contains(&format!("<code>{}</code>", operation.path)), "{id}");
    }
    for name in described.document["components"]["schemas"].as_object().expect("there are schemas").keys() {
        assert!(page.contains(&format!("id=\"schema-{name}\"")), "{name}");
    }
    for link in page.split("href=\"").skip(1) {
        assert!(link.starts_with('#') || link.starts_with("/openapi.json\""), "{}", &link[..40]);
    }
    for loading in [" src=", "<link", "<iframe", "@import", "url(", " style=", " onclick="] {
        assert!(!page.contains(loading), "{loading}");
    }
}
