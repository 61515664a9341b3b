//! Every role as a NATS user of its own, with the permissions of docs/nats-permissions.md: they suffice, and permit no
//! more.

use std::{fs, io::Read, path::Path, process::Stdio, time::Duration};

use async_nats::jetstream;
use domain::log_class::LogClass;
use eventlog::log::Log;
use index::rewrite::{Requests, Rewrite, request};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tests::{
    client::{Client, SCOPE, TARGETS, send},
    clock::Clock,
    eventually,
    platform::Platform,
    ports::free_address,
    process::{Process, run},
    servers::Servers,
    tenant::new_name,
};
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{sleep, timeout},
};

/// A NATS server with the users of the document.
pub(super) struct Nats {
    _child: Child,
    folder: TempDir,
    address: String,
}

impl Nats {
    pub(super) async fn start(program: &Path) -> Self {
        Self::start_with(program, str::to_owned).await
    }

    /// Starts a server with changed users.
    async fn start_with(program: &Path, change: impl Fn(&str) -> String) -> Self {
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/nats-permissions.md");
        let document = fs::read_to_string(document).expect("it is there");
        let users = document.split("```").nth(1).and_then(|block| block.split_once('\n')).expect("it has a block").1;
        let users = change(users);
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let address = free_address();
        let configuration = folder.path().join("nats.conf");
        let text = format!(
            "listen: \"{address}\"\nlog_file: \"{}\"\njetstream {{ store_dir: \"{}\", sync_interval: \"always\" }}\n{users}",
            folder.path().join("log").display(),
            folder.path().join("store").display()
        );
        fs::write(&configuration, text).expect("the folder can be written");
        let mut command = Command::new(program);
        command.arg("--config").arg(&configuration).stdout(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
        let nats = Self { _child: command.spawn().expect("it can be started"), folder, address };
        eventually("NATS listens", || async { TcpStream::connect(&nats.address).await.ok() }).await;
        nats
    }

    fn url(&self, user: &str) -> String {
        format!("nats://{user}:change-me-{user}@{}", self.address)
    }

    pub(super) async fn client(&self, user: &str) -> async_nats::Client {
        eventlog::nats::options(&self.url(user)).connect(&self.url(user)).await.expect("the user is known")
    }

    /// Returns the permission violations in the log of the server.
    pub(super) fn refused(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().filter(|line| line.contains("Violation")).map(str::to_owned).collect()
    }

    /// Returns the flags of a node that connects as this user.
    pub(super) fn flags(&self, servers: &Servers, user: &str) -> Vec<String> {
        let mut flags = servers.flags();
        for (flag, instead) in [
            ("--nats-url", Some(("--nats-url", self.url(user)))),
            ("--nats-token", None),
            ("--nats-monitor-url", Some(("--nats-system-url", self.url("sys")))),
        ] {
            let place = flags.iter().position(|word| word == flag).expect("it is given");
            let instead = instead.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
            flags.splice(place..place + 2, instead);
        }
        flags
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- NATS refused:\n{}", self.refused().join("\n"));
        }
    }
}

/// Starts a node of this role, as the user of the same name.
pub(super) fn node(nats: &Nats, servers: &Servers, role: &str, issuer: &str) -> (Process, String) {
    let (flags, url) = node_flags(nats, servers, role, issuer);
    (Process::spawn(&flags, &[], Stdio::null()), url)
}

/// Returns the arguments of such a node, and its future URL.
pub(super) fn node_flags(nats: &Nats, servers: &Servers, role: &str, issuer: &str) -> (Vec<String>, String) {
    let listen = free_address();
    let mut flags = nats.flags(servers, role);
    if role != "projector" {
        let own = ["--listen", &listen, "--external-url", issuer];
        flags.extend(own.map(str::to_owned));
    }
    flags.insert(0, role.to_owned());
    (flags, format!("http://{listen}"))
}

/// Exchanges an assertion of a service user for a token.
async fn sign_for_a_token(command: &Client, oidc: &Client, issuer: &str) {
    let users = "/resources/v3alpha/users";
    let user = json!({ "username": "signs", "service": {} });
    let user = eventually("a user", || async {
        let answer =
            tests::client::Answer::of(command.request(Method::POST, users).json(&user).send().await.ok()?).await;
        (answer.status == 201).then(|| answer.id())
    });
    let user = user.await;
    let key = json!({ "keyType": "KEY_TYPE_ED25519", "expirationDate": "2099-01-01T00:00:00Z" });
    let key = send(command.request(Method::POST, &format!("{users}/{user}/keys")).json(&key)).await;
    let pem = key.body["privateKey"]["pem"].as_str().expect("it is shown");
    let signs = EncodingKey::from_ed_pem(pem.as_bytes()).expect("it is a key");
    let header = Header { kid: Some(key.id()), ..Header::new(Algorithm::EdDSA) };
    let exchanged = eventually("a token", || async {
        let end = base::clock::now().as_second() + 60;
        let claims = json!({ "iss": user, "sub": user, "aud": issuer, "exp": end, "jti": new_name() });
        let assertion = encode(&header, &claims, &signs).expect("it can be signed");
        let bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
        let form = [("grant_type", bearer), ("scope", SCOPE), ("assertion", &assertion)];
        let answer = send(oidc.anonymous(Method::POST, "/oauth/v2/token").form(&form)).await;
        (answer.status == 200).then_some(())
    });
    exchanged.await;
}

#[tokio::test]
async fn every_role_works_with_its_own_permissions_and_only_one_writes_the_log() {
    let servers = Servers::start().await;
    let nats = Nats::start(&servers.nats_program()).await;
    let mut platform = Platform::start_with(&nats.flags(&servers, "setup"), &[]).await;
    platform.ready().await;
    let bootstrap = platform.bootstrap.clone();
    platform.stop().await;

    let roles = ["command", "projector", "query", "oidc"];
    let nodes = roles.map(|role| node(&nats, &servers, role, &bootstrap.issuer));
    let [command, _, query, oidc] = nodes.each_ref().map(|(_, url)| url.as_str());
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    eventually("tokens", || async {
        http.get(format!("{oidc}/.well-known/openid-configuration")).send().await.ok().filter(|it| it.status() == 200)
    })
    .await;
    let client = Client::log_in(oidc, &bootstrap.service_user).await;
    sign_for_a_token(&client.at(command), &client.at(oidc), &bootstrap.issuer).await;
    let id = eventually("a write", || async {
        let request = client.at(command).request(Method::POST, TARGETS).json(&tests::client::target("one"));
        let answer = tests::client::Answer::of(request.send().await.ok()?).await;
        (answer.status == 201).then(|| (answer.id(), answer.consistency()))
    });
    let (id, consistency) = id.await;
    let found = client.at(query).get_target(&id, Some(&consistency)).await;
    assert_eq!(found.status, 200, "{found:?}");
    session_is_read(&client.at(command), &client.at(query)).await;
    let (user, token) = (&bootstrap.service_user, Client::log_in(oidc, &bootstrap.service_user).await.token);
    let revoking = client.at(oidc).anonymous(Method::POST, "/oauth/v2/revoke");
    let revoking = revoking.basic_auth(&user.client_id, Some(&user.client_secret)).form(&[("token", &token)]);
    assert_eq!(send(revoking).await.status, 200);
    let search = eventually("a search", || async {
        let request = client.at(query).request(Method::POST, &format!("{TARGETS}/_search"));
        let answer = send(request.header("consistency-token", &consistency).header("consistency-wait", "10s")).await;
        (answer.status == 200).then_some(answer)
    });
    assert_eq!(search.await.body["details"]["totalResult"], json!("1"));
    let (mut flags, standby) = node_flags(&nats, &servers, "command", &bootstrap.issuer);
    flags.extend(["--node-number", "1"].map(str::to_owned));
    let _standby = Process::spawn(&flags, &[], Stdio::null());
    let passed_on = eventually("a standby", || async {
        let request = client.at(&standby).request(Method::POST, TARGETS).json(&tests::client::target("passed on"));
        Some(tests::client::Answer::of(request.send().await.ok()?).await)
    });
    assert_eq!(passed_on.await.status, 201);
    projectors_have_documents_rewritten(&nats).await;
    assert_eq!(nats.refused(), Vec::<String>::new(), "nobody was refused anything");
    operators_see_all_nodes_and_who_is_refused_learns_it(&nats, &servers);

    only_one_writes(&nats).await;
    nobody_hears_the_answers_of_command_nodes(&nats).await;
    only_oidc_nodes_send_internal_commands(&nats).await;
    assert!(client.at(command).create_target("two").await.is_some(), "the log goes on");
    replies_are_not_refused(&nats).await;
}

/// A projector may ask the one that writes a search index, which may answer.
async fn projectors_have_documents_rewritten(nats: &Nats) {
    let url = nats.url("projector");
    let options = eventlog::nats::options(&url).custom_inbox_prefix("_INBOX.projector");
    let one = options.clone().connect(&url).await.expect("the user is known");
    let other = options.connect(&url).await.expect("the user is known");
    let mut requests = Requests::listen(one, 0, "any").await.expect("NATS is there");
    let answer = async {
        loop {
            match requests.take().await {
                Some(request) => break request.answer(&Some(vec![])).await,
                None => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let nothing = Rewrite::Documents(vec![]);
    let answered = eventually("an answer", || request(&other, 0, "any", &nothing));
    let both = timeout(Duration::from_mins(1), async { tokio::join!(answered, answer).0 });
    assert_eq!(both.await.expect("it arrives"), vec![]);
}

/// Query nodes do not need the keys of people.
async fn session_is_read(command: &Client, query: &Client) {
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    let person = json!({ "username": new_name(), "human": { "data": data } });
    let person = send(command.request(Method::POST, "/resources/v3alpha/users").json(&person)).await;
    assert_eq!(person.status, 201, "{}", person.body);
    let user_agent = json!({ "ip": "192.0.2.7" });
    let session = json!({ "checks": { "user": { "userId": person.id() } }, "userAgent": user_agent });
    let made = send(command.request(Method::POST, "/resources/v3alpha/sessions").json(&session)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let path = format!("/resources/v3alpha/sessions/{}", made.id());
    let read = tests::client::after(&made, query.request(Method::GET, &path)).await;
    assert_eq!(read.body["session"]["userAgent"], user_agent, "{}", read.body);
}

fn operators_see_all_nodes_and_who_is_refused_learns_it(nats: &Nats, servers: &Servers) {
    let as_user = |words: &[&str], user: &str| {
        let url = nats.url(user);
        run(&[words, &["--nats-url", &url]].concat())
    };
    let (is_success, out, told) = as_user(&["status", "--postgres-url", &servers.places.postgres_url], "setup");
    assert!(is_success, "{out}{told}");
    for role in ["command", "projector", "query", "oidc"] {
        assert!(out.contains(&format!("node: {role} ")), "{role}: {out}");
    }
    assert!(out.contains("lease: writer.0 is held by") && out.contains("read model: history has event"), "{out}");
    let (is_success, _, told) = as_user(&["log", "verify"], "query");
    assert!(!is_success && told.contains("NATS refused this user: ") && told.contains("_INBOX.tool"), "{told}");
    assert!(told.contains("docs/nats-permissions.md"), "{told}");
}

async fn only_one_writes(nats: &Nats) {
    let context = jetstream::new(nats.client("setup").await);
    let end = || async { context.get_stream("EVENTS_0").await.expect("it is there").cached_info().state.last_sequence };
    let before = end().await;
    for user in ["projector", "query", "oidc"] {
        let client = nats.client(user).await;
        client.publish("events.0", "hello".into()).await.expect("it is sent");
        client.publish("sessions.0", "hello".into()).await.expect("it is sent");
        client.publish("$KV.HOLDERS.writer.0", user.into()).await.expect("it is sent");
        if user != "projector" {
            client.publish("rewrites.0.any", "[]".into()).await.expect("it is sent");
        }
        client.flush().await.expect("NATS is there");
        let refused = || async {
            let refused = nats.refused();
            let is_refused = |subject: &str| {
                refused.iter().any(|line| line.contains(&format!("user:{user}\"")) && line.contains(subject))
            };
            let subjects = ["events.0", "sessions.0", "$KV.HOLDERS.writer.0"];
            let is_all = subjects.into_iter().all(is_refused) && (user == "projector" || is_refused("rewrites.0.any"));
            is_all.then_some(())
        };
        eventually("all are refused", refused).await;
    }
    assert_eq!(end().await, before);
    for user in ["command", "projector", "query", "oidc"] {
        let mut context = jetstream::new(nats.client(user).await);
        context.set_timeout(std::time::Duration::from_millis(300));
        assert!(context.delete_stream("EVENTS_0").await.is_err(), "{user} cannot delete the log");
        assert!(context.delete_stream("SESSIONS_0").await.is_err(), "{user} cannot delete the log of sessions");
    }
    assert_eq!(end().await, before);
}

/// Only oidc nodes may send internal commands, which no client can send.
async fn only_oidc_nodes_send_internal_commands(nats: &Nats) {
    for user in ["projector", "query"] {
        let client = nats.client(user).await;
        client.publish("internal.0", "hello".into()).await.expect("it is sent");
        client.flush().await.expect("NATS is there");
        let is_refused = |line: &String| line.contains(&format!("user:{user}\"")) && line.contains("\"internal.0\"");
        let told = || async { nats.refused().iter().any(is_refused).then_some(()) };
        eventually(&format!("{user} is refused"), told).await;
    }
}

/// The answers hold what only their callers may know, such as new signing keys.
async fn nobody_hears_the_answers_of_command_nodes(nats: &Nats) {
    for user in ["projector", "query", "oidc"] {
        let client = nats.client(user).await;
        for subject in ["_INBOX.command.>", "_INBOX.>", "commands.0.*", "internal.0"] {
            let _listening = client.subscribe(subject).await.expect("it is sent");
            client.flush().await.expect("NATS is there");
            let is_refused = |line: &String| {
                line.contains(&format!("user:{user}\""))
                    && line.contains("Subscription")
                    && line.contains(&format!("\"{subject}\""))
            };
            let told = || async { nats.refused().iter().any(is_refused).then_some(()) };
            eventually(&format!("{user} is refused {subject}"), told).await;
        }
    }
}

/// The limit that the document describes. When this fails, NATS has removed it, and the document can be updated.
async fn replies_are_not_refused(nats: &Nats) {
    let context = jetstream::new(nats.client("setup").await);
    let end = || async { context.get_stream("EVENTS_0").await.expect("it is there").cached_info().state.last_sequence };
    let (before, client) = (end().await, nats.client("query").await);
    client.publish_with_reply("$JS.API.STREAM.INFO.EVENTS_0", "events.0", "".into()).await.expect("it is sent");
    eventually("the server's answer is in the log", || async { (end().await > before).then_some(()) }).await;
}

#[tokio::test]
async fn command_nodes_alone_purge_and_only_what_ages_out() {
    let (servers, clock) = (Servers::start().await, Clock::new());
    let nats = Nats::start(&servers.nats_program()).await;
    let mut platform = Platform::start_with(&nats.flags(&servers, "setup"), &[]).await;
    platform.ready().await;
    let issuer = platform.bootstrap.issuer.clone();
    platform.stop().await;
    clock.set_ahead(std::time::Duration::from_hours(98 * 24));
    let [_projector, _command] = ["projector", "command"].map(|role| {
        let (flags, _) = node_flags(&nats, &servers, role, &issuer);
        Process::spawn(&flags, &[clock.environment()], Stdio::null())
    });
    let log = Log::find(nats.client("setup").await, LogClass::Sessions, 0).await.expect("it is there");
    let purged = async || log.purged().await.ok().filter(|purged| *purged > 0);
    eventually("what has aged out is purged", purged).await;
    projectors_have_documents_rewritten(&nats).await;
    assert_eq!(nats.refused(), Vec::<String>::new(), "nobody was refused anything");
    for (user, stream) in
        [("command", "EVENTS_0"), ("projector", "SESSIONS_0"), ("query", "SESSIONS_0"), ("oidc", "SESSIONS_0")]
    {
        let (client, subject) = (nats.client(user).await, format!("$JS.API.STREAM.PURGE.{stream}"));
        client.publish(subject.clone(), "".into()).await.expect("it is sent");
        let refused = async || {
            let of_user = format!("user:{user}\"");
            nats.refused().iter().any(|line| line.contains(&of_user) && line.contains(&subject)).then_some(())
        };
        eventually("it is refused", refused).await;
    }
}

#[tokio::test]
async fn a_command_node_that_may_not_write_both_logs_writes_to_neither_and_says_so() {
    let servers = Servers::start().await;
    let of_before = |users: &str| users.replacen("          \"sessions.0\"\n", "", 1);
    let nats = Nats::start_with(&servers.nats_program(), of_before).await;
    let mut platform = Platform::start_with(&nats.flags(&servers, "setup"), &[]).await;
    platform.ready().await;
    let issuer = platform.bootstrap.issuer.clone();
    platform.stop().await;
    let context = jetstream::new(nats.client("setup").await);
    let end = || async { context.get_stream("EVENTS_0").await.expect("it is there").cached_info().state.last_sequence };
    let before = end().await;
    let (_projector, _) = node(&nats, &servers, "projector", &issuer);
    let (mut flags, _) = node_flags(&nats, &servers, "command", &issuer);
    flags.extend(["--node-number", "1"].map(str::to_owned));
    let mut said = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let stderr = said.reopen().expect("it is there");
    let _command = Process::spawn_to(&flags, &[], Stdio::null(), stderr.into());
    let mut text = String::new();
    eventually("it says what it may not", || {
        said.read_to_string(&mut text).expect("it can be read");
        let is_told = text.contains("nothing can be written to SESSIONS_0") && text.contains("NATS refused this user");
        async move { is_told.then_some(()) }
    })
    .await;
    assert_eq!(end().await, before, "no barrier keeps others from writing");
    platform.restart(&[]).await;
    platform.ready().await;
    assert!(platform.client().await.create_target("by another").await.is_some(), "one that may writes");
}
