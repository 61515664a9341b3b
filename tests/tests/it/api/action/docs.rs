//! docs/actions.md: the signature checks run unchanged, where their language is installed, and the payloads have the
//! form that targets get.

use std::{fs, path::Path, process::Command};

use action::signature::signature;
use proto::operation::GET_TARGET;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, TARGETS, done, put, send},
    endpoint::{Endpoint, execute},
    eventually,
    tenant::Tenant,
};

const ACTIONS: &str = include_str!("../../../../../docs/actions.md");
const KEY: &str = "Ncb5tR8wYd0KsUqJ2fHvXz7LmGa4PoEi1TkB";
const BODY: &str = "{\"a\": 1}";

/// Returns the block of a language that contains a text.
fn block<'a>(language: &str, with: &str) -> &'a str {
    let opening = format!("\n```{language}\n");
    let blocks = ACTIONS.split(&opening).skip(1);
    let mut blocks = blocks.filter_map(|rest| rest.split_once("\n```")).map(|(block, _)| block);
    blocks.find(|block| block.contains(with)).unwrap_or_else(|| panic!("no {language} with {with}"))
}

/// Runs a program on headers, and checks that it accepts exactly the valid ones.
fn check(program: &str, file: &Path, text: &str) {
    let now = base::clock::now().as_second();
    let signed = |at: i64| signature(KEY.as_bytes(), at, BODY.as_bytes());
    fs::write(file, text).expect("the folder can be written");
    let body = file.with_extension("body");
    fs::write(&body, BODY).expect("the folder can be written");
    for (header, is_good) in [
        (format!("t={now},v1={}", signed(now)), true),
        (format!("t={now},v1={},v1={}", "0".repeat(64), signed(now)), true),
        (format!("t={now},v1={}", "0".repeat(64)), false),
        (format!("t={now},v0={}", signed(now)), false),
        (format!("t={},v1={}", now - 10, signed(now)), false),
        (format!("t={},v1={}", now - 400, signed(now - 400)), false),
    ] {
        let ran = Command::new(program).arg(file).args([KEY, &header]).arg(&body).output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.is_empty(), "{program}: {said}");
        assert_eq!(ran.status.success(), is_good, "{program}: {header}");
    }
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success())
}

/// Returns the shape of a value, without its contents.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!(0),
        Value::Bool(_) => json!(true),
        Value::Null => Value::Null,
    }
}

#[tokio::test]
async fn the_payloads_of_the_document_are_those_of_a_run() {
    let tenant = Tenant::start().await;
    let (client, endpoint) = (tenant.client().await, Endpoint::start().await);
    let (id, _) = endpoint.target(&client, "restWebhook", &json!({})).await;
    let get = json!({ "request": { "method": GET_TARGET.facts.grpc } });
    for condition in [get, json!({ "event": { "event": "target.added" } }), json!({ "function": "preaccesstoken" })] {
        execute(&client, condition, &[&id]).await;
    }
    let told = async |with: &str| {
        let call = endpoint.called(1).await.remove(0).json();
        endpoint.take();
        let example: Value = serde_json::from_str(block("json", with)).expect("it is JSON");
        assert_eq!(shape(&call), shape(&example), "{call:#}");
    };
    let read = client.request(Method::GET, &format!("{TARGETS}/{id}"));
    assert_eq!(send(read).await.status, 200);
    told("fullMethod").await;
    client.create_target("told").await.expect("it is created");
    told("event_payload").await;
    let user_id = &tenant.bootstrap.service_user.user_id;
    grant_a_role(&client, user_id).await;
    put(&client, &format!("/resources/v3alpha/users/{user_id}/metadata/plan"), json!({ "value": "gold" })).await;
    let example: Value = serde_json::from_str(block("json", "user_metadata")).expect("it is JSON");
    // What was granted is known a second later.
    let told = async || {
        endpoint.take();
        tenant.client().await;
        let call = endpoint.called(1).await.remove(0).json();
        (shape(&call) == shape(&example)).then_some(())
    };
    eventually("the payload of a function is that of the document", told).await;
}

/// Grants a user a role of a new project.
async fn grant_a_role(client: &Client, user_id: &str) {
    let made = async |kind: &str, body| done(client, &format!("/resources/v3alpha/{kind}"), body).await.id();
    let project = made("projects", json!({ "name": "Shop" })).await;
    made("roles", json!({ "projectId": project, "key": "admin", "displayName": "Admin" })).await;
    made("user_grants", json!({ "userId": user_id, "projectId": project, "roleKeys": ["admin"] })).await;
}

#[test]
fn the_signature_checks_of_the_document_are_right() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = |name: &str| folder.path().join(name);
    let shell = format!("{}\nis_signed \"$1\" \"$2\" \"$3\"\n", block("sh", "is_signed"));
    check("sh", &file("check.sh"), &shell);
    if is_there("node") {
        let script = "\nconst [, , key, header, body] = process.argv;\n\
            process.exit(isSigned(key, header, require(\"node:fs\").readFileSync(body)) ? 0 : 1);\n";
        check("node", &file("check.js"), &(block("javascript", "isSigned").to_owned() + script));
    }
    if is_there("python3") {
        let (functions, _) = block("python", "is_signed").split_once("\nclass ").expect("the class comes behind");
        let script = "\nKEY = sys.argv[1].encode()\n\
            sys.exit(0 if is_signed(sys.argv[2], open(sys.argv[3], \"rb\").read(), time.time()) else 1)\n";
        check("python3", &file("check.py"), &(functions.to_owned() + script));
    }
}
