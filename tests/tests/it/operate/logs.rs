//! Log lines: their fields, and what they never contain, whatever goes wrong.

use std::{
    fs::{self, File},
    path::Path,
    process::Stdio,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Method;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tests::{
    client::{Client, SCOPE, TARGETS, send, service_user, target},
    eventually,
    platform::Platform,
    process::{Process, server},
    servers::Servers,
};

/// The crates of the platform, which alone may log details.
const OWN: [&str; 13] = [
    "platform",
    "base",
    "eventlog",
    "view",
    "index",
    "api",
    "action",
    "edge",
    "server",
    "command",
    "query",
    "projector",
    "oidc",
];

const IDEMPOTENCY_KEY: &str = "canary-idempotency-key";
const WRONG_SECRET: &str = "canary-wrong-secret";
const BAD_TOKEN: &str = "canary.bad.token";

/// The flags with which a token is read before its request is admitted.
const LIMITS: [&str; 5] =
    ["--rate-limit-loopback", "--rate-limit-instance", "10000", "--rate-limit-strangers", "10000"];

/// Returns an opaque token of a new service user, after it was used completely and truncated.
async fn opaque_token(client: &Client) -> String {
    let service = json!({ "accessTokenType": "ACCESS_TOKEN_TYPE_BEARER" });
    let user = service_user(client, ("opaque", service), "").await;
    let form = [("grant_type", "client_credentials"), ("scope", SCOPE)];
    let asking = client.anonymous(Method::POST, "/oauth/v2/token");
    let granted = send(asking.basic_auth(&user.client_id, Some(&user.client_secret)).form(&form)).await;
    let token = granted.body["access_token"].as_str().expect("it is a token").to_owned();
    assert!(token.starts_with("at-"), "{token}");
    for (sent, status) in [(&*token, 403), (&token[..token.len() - 3], 401)] {
        let get = client.anonymous(Method::GET, &format!("{TARGETS}/1"));
        assert_eq!(send(get.bearer_auth(sent)).await.status, status, "it has no role, or is none");
    }
    token[token.len() - 40..].to_owned()
}

/// Returns the lines of a log without those of the start, which are no JSON.
fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).expect("it was written");
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns texts that must not be in a log.
fn canaries(servers: &Servers, platform: &Platform, token: &str) -> Vec<(&'static str, String)> {
    let user = &platform.bootstrap.service_user;
    let basic = STANDARD.encode(format!("{}:{}", user.client_id, user.client_secret));
    let postgres = servers.places.postgres_url.split([':', '@']).nth(2).expect("it has a password").to_owned();
    let master = fs::read_to_string(servers.folder().join("master.key")).expect("it is there").trim().to_owned();
    let signature = token.rsplit('.').next().expect("a token has a signature").to_owned();
    vec![
        ("client secret", user.client_secret.clone()),
        ("Authorization header", basic),
        ("access token", signature),
        ("idempotency key", IDEMPOTENCY_KEY.to_owned()),
        ("wrong secret", WRONG_SECRET.to_owned()),
        ("wrong Authorization header", STANDARD.encode(format!("{}:{WRONG_SECRET}", user.client_id))),
        ("bad token", BAD_TOKEN.to_owned()),
        ("master key", master),
        ("Postgres password", postgres),
        ("NATS token", servers.places.nats_token.clone()),
    ]
}

/// Sends requests of all kinds, valid and invalid.
async fn requests(platform: &Platform, client: &Client) -> String {
    let request = client.request(Method::POST, TARGETS).json(&target("told")).header("x-request-id", "told-1");
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request = request.header("traceparent", trace).header("idempotency-key", IDEMPOTENCY_KEY);
    let created = send(request).await;
    assert_eq!(created.status, 201);
    let signing_key = created.body["signingKey"].as_str().expect("it is answered once").to_owned();
    let again = client.request(Method::POST, TARGETS).json(&target("other"));
    send(again.header("idempotency-key", IDEMPOTENCY_KEY)).await.assert_refused(
        "reused",
        400,
        "IDEMPOTENCY_KEY_REUSED",
    );
    let get = client.anonymous(Method::GET, &format!("{TARGETS}/1"));
    send(get.bearer_auth(BAD_TOKEN)).await.assert_refused("bad token", 401, "TOKEN_INVALID");
    let form = [("grant_type", "client_credentials"), ("scope", "openid")];
    let wrong = client.anonymous(Method::POST, "/oauth/v2/token").form(&form);
    let user = &platform.bootstrap.service_user.client_id;
    assert_eq!(send(wrong.basic_auth(user, Some(WRONG_SECRET))).await.status, 401);
    let form = [("grant_type", "client_credentials"), ("scope", "openid")];
    let secret = &platform.bootstrap.service_user.client_secret;
    let granted =
        send(client.anonymous(Method::POST, "/oauth/v2/token").basic_auth(user, Some(secret)).form(&form)).await;
    let narrow = granted.body["access_token"].as_str().expect("it is a token").to_owned();
    let get = client.anonymous(Method::GET, &format!("{TARGETS}/1")).header("x-request-id", "told-3");
    send(get.bearer_auth(narrow)).await.assert_refused("without the audience", 401, "TOKEN_INVALID");
    let in_form = [("client_id", user.as_str()), ("client_secret", WRONG_SECRET), form[0], form[1]];
    assert_eq!(send(client.anonymous(Method::POST, "/oauth/v2/token").form(&in_form)).await.status, 401);
    signing_key
}

fn assert_own_below_info(line: &Value) {
    let level = line["level"].as_str().unwrap_or_default();
    let root = line["target"].as_str().and_then(|target| target.split("::").next()).unwrap_or_default();
    assert!(!matches!(level, "DEBUG" | "TRACE") || OWN.contains(&root), "{line}");
}

#[tokio::test]
async fn lines_tell_what_happened_and_no_secret() {
    let servers = Servers::start().await;
    let log = servers.folder().join("told");
    let stderr = Stdio::from(File::create(&log).expect("the folder can be written"));
    let mut flags = servers.flags();
    flags.extend(LIMITS.map(str::to_owned));
    let mut platform = Platform::start_telling(&flags, &[("RUST_LOG", "trace")], stderr).await;
    platform.ready().await;
    let client = platform.client().await;
    let request = client.request(Method::GET, "/").build().expect("a request");
    let token = request.headers()["authorization"].to_str().expect("it is text").to_owned();
    let mut canaries = canaries(&servers, &platform, &token);
    canaries.push(("signing key", requests(&platform, &client).await));
    canaries.push(("opaque token", opaque_token(&client).await));

    // What fails inside.
    kill_process(server(&servers.folder(), "postgres").expect("it runs"), Signal::QUIT).expect("it is there");
    let get = || client.request(Method::GET, &format!("{TARGETS}/1")).header("x-request-id", "told-2");
    let failed = || async { (get().send().await.ok()?.status() == 503).then_some(()) };
    eventually("reads fail", failed).await;
    kill_process(server(&servers.folder(), "nats").expect("it runs"), Signal::KILL).expect("it is there");
    let lost = || async { platform.management().check("nats").await.filter(|check| check["state"] == "degraded") };
    eventually("NATS is away", lost).await;
    platform.process().end().await;

    let told = lines(&log);
    let about = |id: &str, message: &str| {
        let line = told.iter().find(|line| line["request_id"] == id && line["message"] == message);
        line.unwrap_or_else(|| panic!("no line of {id}: {told:#?}")).clone()
    };
    let answered = about("told-1", "a request was answered");
    let node = fs::read_to_string(platform.data().join("node-id")).expect("it has a name").trim().to_owned();
    for (field, value) in [
        ("level", json!("DEBUG")),
        ("operation", json!("CreateTarget")),
        ("instance", json!(platform.bootstrap.instance_id)),
        ("trace_id", json!("4bf92f3577b34da6a3ce929d0e0e4736")),
        ("status", json!(201)),
        ("role", json!("standalone")),
        ("node", json!(node)),
    ] {
        assert_eq!(answered[field], value, "{field}: {answered}");
    }
    assert!(answered["sequence"].is_u64() && answered["duration_ms"].is_f64(), "{answered}");
    let committed = |line: &&Value| line["message"] == "a record was committed" && line["level"] == "DEBUG";
    assert!(told.iter().filter(committed).any(|line| line["sequence"] == answered["sequence"]));
    let failed = about("told-2", "a request was not served");
    assert_eq!((&failed["level"], &failed["reason"]), (&json!("WARN"), &json!("READ_MODEL_UNAVAILABLE")), "{failed}");

    let refused = about("told-3", "an access token was refused");
    assert_eq!((&refused["level"], refused["jti"].as_str().map(str::len)), (&json!("INFO"), Some(22)), "{refused}");
    assert!(refused["why"].as_str().is_some_and(|why| why.contains("not for the platform's API")), "{refused}");
    assert_eq!(told.iter().filter(|line| line["jti"] == refused["jti"]).count(), 1, "it is told once: {told:#?}");

    told.iter().for_each(assert_own_below_info);
    let text = fs::read_to_string(&log).expect("it was written");
    for (what, canary) in &canaries {
        assert!(canary.len() > 10 && !text.contains(canary.as_str()), "{what} is in the log");
    }
}

#[tokio::test]
async fn a_start_that_fails_tells_no_secret() {
    let servers = Servers::start().await;
    let log = servers.folder().join("told");
    for (flag, value) in [
        ("--nats-token", "canary-nats-token"),
        ("--nats-url", "nats://user:canary-nats-password@127.0.0.1:1"),
        ("--postgres-url", "postgres://platform:canary-postgres@127.0.0.1:1/postgres"),
        ("--postgres-url", "postgres://platform:canary-postgres@host:port:no/pos tgres"),
        ("--otlp-endpoint", "https://user:canary-collector@127.0.0.1:1"),
    ] {
        let mut flags = servers.flags();
        match flags.iter().position(|known| known == flag) {
            Some(place) => value.clone_into(&mut flags[place + 1]),
            None => flags.extend([flag.to_owned(), value.to_owned()]),
        }
        flags.splice(0..0, ["query".to_owned(), "--listen".to_owned(), "127.0.0.1:0".to_owned()]);
        let stderr = File::create(&log).expect("the folder can be written");
        let mut node = Process::spawn_to(&flags, &[("RUST_LOG", "trace")], Stdio::null(), stderr.into());
        assert!(!node.ended().await.success(), "{flag} {value}");
        let text = fs::read_to_string(&log).expect("it was written");
        assert!(text.contains("platform: ") && !text.contains("canary"), "{flag}: {text}");
    }
}
