//! A log that is backed up and restored on a new NATS server, with the users of docs/nats-permissions.md.

use std::{
    fs::{self, File},
    path::Path,
    process::Stdio,
};

use bytes::Bytes;
use futures::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, created, done, send, target},
    eventually,
    instance::Bootstrap,
    media::{png, text},
    ports::free_address,
    process::{Process, run},
    servers::Servers,
};

use super::nats_permissions::{Nats, node, node_flags};

const USERS: &str = "/resources/v3alpha/users";
const FEATURES: &str = "multitenancy_resources_api,multitenancy_settings";

/// The streams that docs/operations.md backs up, in its order.
const STREAMS: [&str; 6] = ["KV_REACTIONS", "ACTIONS_0", "SESSIONS_0", "EVENTS_0", "KV_ASSETS", "KV_PERSONS"];

/// A stream as in a backup of `nats stream backup`.
struct Backup {
    stream: &'static str,
    config: Value,
    state: Value,
    chunks: Vec<Bytes>,
}

async fn ask(client: &async_nats::Client, subject: String, message: Bytes) -> Value {
    let answer = client.request(subject, message).await.expect("it is answered");
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
    assert!(answer["error"].is_null(), "{answer}");
    answer
}

async fn back_up(client: &async_nats::Client, stream: &'static str) -> Backup {
    let inbox = client.new_inbox();
    let mut parts = client.subscribe(inbox.clone()).await.expect("it may hear its answers");
    let asked = json!({ "deliver_subject": inbox, "no_consumers": true }).to_string();
    let told = ask(client, format!("$JS.API.STREAM.SNAPSHOT.{stream}"), asked.into()).await;
    let mut chunks = vec![];
    while let Some(part) = parts.next().await.filter(|part| !part.payload.is_empty()) {
        chunks.push(part.payload);
        if let Some(reply) = part.reply {
            client.publish(reply, Bytes::new()).await.expect("it is sent");
        }
    }
    Backup { stream, config: told["config"].clone(), state: told["state"].clone(), chunks }
}

async fn restore(client: &async_nats::Client, backup: Backup) {
    let asked = json!({ "config": backup.config, "state": backup.state }).to_string();
    let told = ask(client, format!("$JS.API.STREAM.RESTORE.{}", backup.stream), asked.into()).await;
    let subject = told["deliver_subject"].as_str().expect("it says where to").to_owned();
    for chunk in backup.chunks {
        ask(client, subject.clone(), chunk).await;
    }
    ask(client, subject, Bytes::new()).await;
}

/// Runs `platform setup` as the user `setup`.
fn set_up(nats: &Nats, servers: &Servers, (folder, issuer): (&Path, &str)) -> String {
    let mut flags = nats.flags(servers, "setup");
    let key = flags.iter().position(|word| word == "--master-key-file").expect("it is given");
    flags.drain(key..key + 2);
    let folder = folder.display().to_string();
    flags.splice(
        0..0,
        ["setup", "--data-dir", &folder, "--external-url", issuer, "--features", FEATURES].map(str::to_owned),
    );
    let (is_success, _, told) = run(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(is_success, "{told}");
    told
}

/// A node of each role, each as a NATS user of its own.
struct Nodes {
    _processes: Vec<Process>,
    command: Client,
    query: Client,
    oidc: Client,
}

impl Nodes {
    async fn start(nats: &Nats, servers: &Servers, bootstrap: &Bootstrap) -> Self {
        let nodes = ["command", "projector", "query", "oidc"].map(|role| node(nats, servers, role, &bootstrap.issuer));
        let [command, _, query, oidc] = nodes.each_ref().map(|(_, url)| url.clone());
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let client = eventually("a token", async || {
            http.get(format!("{oidc}/.well-known/openid-configuration")).send().await.ok()?.error_for_status().ok()?;
            Client::try_log_in(&oidc, &bootstrap.service_user).await.ok()
        });
        let client = client.await;
        let processes = nodes.into_iter().map(|(process, _)| process).collect();
        Self { _processes: processes, command: client.at(&command), query: client.at(&query), oidc: client.at(&oidc) }
    }

    /// Creates a target, and waits until it is found.
    async fn write(&self, name: &str) -> String {
        let created = eventually("a write", async || {
            let request = self.command.request(Method::POST, TARGETS).json(&target(name));
            Some(Answer::of(request.send().await.ok()?).await).filter(|answer| answer.status == 201)
        });
        let created = created.await;
        eventually("a search", async || {
            let request = self.query.request(Method::POST, &format!("{TARGETS}/_search"));
            let request = request.header("consistency-token", created.consistency()).header("consistency-wait", "10s");
            let found = send(request.json(&json!([{ "inIds": { "ids": [created.id()] } }]))).await;
            (found.body["details"]["totalResult"] == "1").then_some(())
        })
        .await;
        created.id()
    }

    /// Uploads a logo, and returns its path.
    async fn logo(&self) -> String {
        let asset = json!({ "kind": "ASSET_KIND_LIGHT_LOGO", "content": text(&png(4, 2, 9)) });
        done(&self.command, "/settings/v3alpha/branding/assets", asset).await.body["asset"]["path"]
            .as_str()
            .expect("it has a path")
            .to_owned()
    }

    /// Creates a person.
    async fn person(&self) -> String {
        let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
        let person = json!({ "username": "ada", "human": { "data": data, "phone": { "number": "+441632960123" } } });
        created(&self.command, USERS, person).await.id()
    }
}

/// Checks that a node may not create the streams that are not in the backup, and reports the missing permission.
async fn a_node_says_what_it_may_not_do(nats: &Nats, servers: &Servers, (folder, issuer): (&Path, &str)) {
    let log = folder.join("refused.log");
    let (flags, _) = node_flags(nats, servers, "command", issuer);
    let file = File::create(&log).expect("the folder can be written");
    let _node = Process::spawn_to(&flags, &[], Stdio::null(), file.into());
    eventually("it says what it may not do", async || {
        let told = fs::read_to_string(&log).unwrap_or_default();
        let is_told = told.contains("docs/nats-permissions.md") && told.contains("$JS.API.STREAM.CREATE.");
        is_told.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_restored_log_goes_on_with_the_permissions_of_each_role() {
    let servers = Servers::start().await;
    let program = servers.nats_program();
    let (old, new) = (Nats::start(&program).await, Nats::start(&program).await);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (data, issuer) = (folder.path().join("first"), format!("http://{}", free_address()));
    set_up(&old, &servers, (&data, &issuer));
    let file = fs::read(data.join("bootstrap.json")).expect("it tells who may log in");
    let bootstrap: Bootstrap = serde_json::from_slice(&file).expect("it is JSON");
    fs::copy(data.join("master.key"), servers.folder().join("master.key")).expect("the folder can be written");

    let before = Nodes::start(&old, &servers, &bootstrap).await;
    let (kept, ada, logo) = (before.write("kept").await, before.person().await, before.logo().await);
    drop(before);
    let (from, to) = (old.client("setup").await, new.client("setup").await);
    for stream in STREAMS {
        restore(&to, back_up(&from, stream).await).await;
    }
    a_node_says_what_it_may_not_do(&new, &servers, (folder.path(), &issuer)).await;
    let told = set_up(&new, &servers, (&data, &issuer));
    assert!(told.contains("nothing was changed"), "{told}");

    let refused = new.refused().len();
    let nodes = Nodes::start(&new, &servers, &bootstrap).await;
    nodes.write("new").await;
    let read = nodes.query.get_target(&kept, None).await;
    assert_eq!(read.body["target"]["target"]["name"], "kept", "{read:?}");
    let change = json!({ "human": { "phone": {} } });
    let changed = send(nodes.command.request(Method::PATCH, &format!("{USERS}/{ada}")).json(&change)).await;
    assert_eq!(changed.status, 200, "what is sealed opens with the restored key: {}", changed.body);
    let shown = nodes.oidc.anonymous(Method::GET, &logo).send().await.expect("it answers");
    assert_eq!(shown.status(), 200, "what the log names is in the bucket");
    assert_eq!(new.refused().len(), refused, "nobody was refused anything more");
}
