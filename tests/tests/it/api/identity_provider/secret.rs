//! The secrets of providers are in no answer, log, event, metric or dump, and in no file of the platform.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use rcgen::KeyPair;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    auditor::dump,
    client::{Answer, Client, done, post, send},
    endpoint::{Called, Endpoint, Reply, execute},
    eventually, hex,
    idp::{IDPS, TYPES, config},
    platform::Platform,
    tenant::new_name,
};

use super::{EVENTS, patched};

const FAILED: &str = "/resources/v3alpha/failed_events";

/// Returns the types with a secret, and the member that it is in.
fn with_secret() -> Vec<(&'static str, &'static str)> {
    let of = |of| {
        let config = config(of);
        let members = ["clientSecret", "bindPassword", "privateKey"];
        members.into_iter().find(|member| config.get(member).is_some()).map(|member| (of, member))
    };
    TYPES.into_iter().filter_map(of).collect()
}

/// The secrets that were sent, each by a text in it that is unique.
#[derive(Default)]
struct Canaries {
    sent: Vec<String>,
}

impl Canaries {
    /// Returns a new secret for this member.
    fn plant(&mut self, member: &str) -> String {
        let key = (member == "privateKey").then(|| KeyPair::generate().expect("it needs randomness only"));
        // The middle of a key is its own: others begin the same.
        let secret = key.map_or_else(|| format!("canary secret {}", new_name()), |key| key.serialize_pem());
        self.sent.push(secret.lines().nth(2).unwrap_or(&secret).to_owned());
        secret
    }

    /// Fails where a text contains a secret, as it is or in hexadecimal digits, as in dumps of bytes.
    fn assert_not_in(&self, what: &str, text: &str) {
        for canary in &self.sent {
            assert!(!text.contains(canary) && !text.contains(&hex(canary.as_bytes())), "{canary} is in {what}: {text}");
        }
    }
}

/// Returns the files in a folder that contain one of these texts.
fn files_with(folder: &Path, texts: &[String]) -> Vec<String> {
    let patterns = texts.iter().flat_map(|text| ["-e", text]);
    let output = Command::new("grep").args(["-rlasF"]).args(patterns).arg("--").arg(folder).output();
    let found = output.expect("grep is installed").stdout;
    String::from_utf8(found).expect("paths are text").lines().map(str::to_owned).collect()
}

/// Creates, changes and reads a provider, and tries refused requests; returns all answers.
async fn told_of(admin: &Client, (of, member): (&str, &str), name: &str, canaries: &mut Canaries) -> Vec<Answer> {
    let path = format!("{IDPS}/{of}");
    let mut with = |member: &str| {
        let mut config = config(of);
        config[member] = json!(canaries.plant(member));
        config
    };
    let made = done(admin, &path, json!({ "idp": { "name": name }, "config": with(member) })).await;
    assert_eq!(made.status, 201);
    let one = format!("{path}/{}", made.id());
    let change = json!({ "config": { member: with(member)[member] } });
    let changed = patched(admin, &one, change).await;
    let (mut long, mut list) = (with(member), with(member));
    long[member] = json!(format!("{}{}", long[member].as_str().expect("it is text"), "x".repeat(5000)));
    list[member] = json!([list[member]]);
    let mut answers = vec![made, changed];
    for (case, policy, config) in
        [("a policy", "ACTIVATE", with(member)), ("too long", "INHERIT", long), ("no text", "INHERIT", list)]
    {
        let bad = json!({ "idp": { "name": name, "statePolicy": format!("STATE_POLICY_{policy}") }, "config": config });
        let refused = post(admin, &path, bad.clone()).await;
        refused.assert_refused(case, 400, "INVALID_REQUEST");
        answers.push(refused);
        let unchanged = send(admin.request(Method::PATCH, &one).json(&bad)).await;
        assert_eq!(unchanged.status, 400, "{of}, {case}: {}", unchanged.body);
        answers.push(unchanged);
    }
    answers.push(send(admin.request(Method::GET, &one)).await);
    answers
}

/// Fails unless a list has results, and no secret.
async fn assert_listed(admin: &Client, canaries: &Canaries, path: &str, filters: Value) -> String {
    let found = post(admin, &format!("{path}?query.limit=1000"), filters).await.body;
    assert_ne!(found["result"], json!(null), "{path}: {found}");
    canaries.assert_not_in(path, &found.to_string());
    found["details"]["totalResult"].as_str().unwrap_or("0").to_owned()
}

/// Fails where the attempts at deliveries contain a secret.
async fn assert_not_delivered(admin: &Client, canaries: &Canaries, target: &str, times: usize) {
    let times = times.to_string();
    eventually("no delivery is tried again", async || {
        let found = post(admin, &format!("{FAILED}/_search?query.limit=1000"), json!([])).await;
        (found.body["details"]["totalResult"] == times.as_str()).then_some(())
    })
    .await;
    assert_listed(admin, canaries, &format!("{FAILED}/_search"), json!([])).await;
    let deliveries = send(admin.request(Method::GET, &format!("/resources/v3alpha/targets/{target}/deliveries"))).await;
    assert_ne!(deliveries.body["result"], json!(null), "{}", deliveries.body);
    canaries.assert_not_in("deliveries", &deliveries.body.to_string());
}

/// Fails unless the files of each server contain the name of a provider, and none contains its secrets.
async fn assert_not_stored(platform: &Platform, canaries: &Canaries, name: &str) {
    for part in ["nats", "postgres", "index"] {
        let name = [name.to_owned()];
        let is_there =
            async || files_with(&platform.data(), &name).iter().any(|path| path.contains(part)).then_some(());
        eventually(&format!("the files of {part} have what is no secret"), is_there).await;
    }
    let texts: Vec<_> = canaries.sent.iter().flat_map(|canary| [canary.clone(), hex(canary.as_bytes())]).collect();
    assert_eq!(files_with(&platform.data(), &texts), [""; 0]);
    let rows: Vec<_> = dump(&platform.postgres_url()).await.into_values().flatten().collect();
    assert!(rows.iter().any(|row| row.contains(name)), "the dump has what is no secret");
    canaries.assert_not_in("the dump", &rows.join("\n"));
}

#[tokio::test]
async fn what_is_secret_is_in_no_answer_and_in_no_file() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let log = folder.path().join("log");
    let stderr = File::create(&log).expect("the folder can be written").into();
    let flags = ["--delivery-tries", "1"].map(str::to_owned);
    let platform = Platform::start_telling(&flags, &[("RUST_LOG", "trace")], stderr).await;
    platform.ready().await;
    let admin = platform.client().await;
    let endpoint = Endpoint::replying(Reply::status(500)).await;
    let (target, _) = endpoint.target(&admin, "restWebhook", &json!({})).await;
    execute(&admin, json!({ "event": { "group": "idp" } }), &[&target]).await;

    let (mut canaries, name) = (Canaries::default(), format!("canary-name-{}", new_name()));
    let (types, mut answers) = (with_secret(), vec![]);
    assert_eq!(types.len(), TYPES.len() - 2, "JWT and SAML have none");
    for of in &types {
        answers.extend(told_of(&admin, *of, &name, &mut canaries).await);
    }
    for answer in &answers {
        canaries.assert_not_in("an answer", &format!("{:?} {}", answer.headers, answer.body));
    }
    let events = 2 * types.len();
    assert_listed(&admin, &canaries, &format!("{IDPS}/_search"), json!([])).await;
    tests::eventually("all events are found", async || {
        let total = assert_listed(&admin, &canaries, EVENTS, json!([{ "aggregateType": "idp" }])).await;
        (total == events.to_string()).then_some(())
    })
    .await;
    for Called { body, .. } in endpoint.called(events).await {
        canaries.assert_not_in("what a target is sent", &String::from_utf8_lossy(&body));
    }
    assert_not_delivered(&admin, &canaries, &target, events).await;
    let metrics = platform.management().metrics().await;
    assert!(metrics.contains("CreateLDAPIDP"), "{metrics}");
    canaries.assert_not_in("the metrics", &metrics);
    assert_not_stored(&platform, &canaries, &name).await;
    let log = fs::read_to_string(log).expect("it is text");
    assert!(log.contains("CreateLDAPIDP") && log.contains("DEBUG"), "it tells of requests");
    canaries.assert_not_in("the log", &log);
}
