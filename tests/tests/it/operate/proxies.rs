//! deploy/examples: several nodes on one machine behind proxies, with other ports.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::Path,
    process::Stdio,
    time::Duration,
};

use proto::{
    action::{GetTargetRequest, GetTargetResponse},
    operation::{DELETE_TARGET, GET_TARGET},
};
use reqwest::{Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::json;
use tempfile::TempDir;
use tests::{
    browser::Browser,
    client::{Answer, Client, TARGETS, send, target},
    eventually,
    grpc::Grpc,
    instance::Bootstrap,
    ports::{free_address, free_port},
    process::{binary, server},
    tools,
};
use tokio::process::{Child, Command};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use crate::oidc::{
    flow::person,
    pages::operate::{gives, log_in},
};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/examples");

/// The ports in the examples.
const PORTS: [&str; 9] = ["8079", "8080", "8081", "8082", "8083", "9081", "9082", "9083", "9084"];

/// The nodes of the example, and proxies in front of them.
struct Example {
    folder: TempDir,
    ports: BTreeMap<&'static str, String>,
    /// The process of `start`, whose group has everything that it has started.
    start: Child,
    proxies: Vec<Child>,
}

impl Example {
    /// Copies the files with free ports, and runs `start`.
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let port = || free_port().to_string();
        let ports: BTreeMap<_, _> = PORTS.map(|documented| (documented, port())).into();
        for name in ["start", "platform.toml", "nginx.conf", "haproxy.cfg"] {
            copy(&folder.path().join(name), &ports);
        }
        let log = File::create(folder.path().join("start.log")).expect("the folder can be written");
        let mut command = Command::new("bash");
        command.arg("start").arg(binary()).arg("data").current_dir(folder.path()).process_group(0);
        command.env_remove("PLATFORM_FAULT").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let start = command.spawn().expect("there is bash");
        Self { folder, ports, start, proxies: vec![] }
    }

    fn run(&mut self, program: &Path, arguments: &[&str]) {
        let log = File::options().append(true).create(true).open(self.folder.path().join("proxies.log"));
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log.expect("the folder can be written")).kill_on_drop(true);
        self.proxies.push(command.spawn().expect("it can be started"));
    }

    fn url(&self, documented: &str) -> String {
        format!("http://localhost:{}", self.ports[documented])
    }

    async fn bootstrap(&self) -> Bootstrap {
        let file = self.folder.path().join("data/first/bootstrap.json");
        eventually("the setup", async || serde_json::from_str(&fs::read_to_string(&file).ok()?).ok()).await
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for log in ["start.log", "proxies.log"] {
                eprintln!("--- {log}:\n{}", fs::read_to_string(self.folder.path().join(log)).unwrap_or_default());
            }
        }
        // Workers of nginx outlive a master that is killed, so that it is told.
        for proxy in &mut self.proxies {
            if let Some(pid) = pid(proxy) {
                let _ = kill_process(pid, Signal::TERM);
            }
            for _ in (0..500).take_while(|_| matches!(proxy.try_wait(), Ok(None))) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if let Some(group) = pid(&self.start) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let data = self.folder.path().join("data/servers");
        // They outlive who started them.
        for (name, signal) in [("nats", Signal::KILL), ("postgres", Signal::QUIT)] {
            if let Some(server) = server(&data, name) {
                let _ = kill_process(server, signal);
            }
        }
    }
}

/// Returns the id of a process that still runs.
fn pid(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

/// Copies a file of the examples to a place, with other ports.
fn copy(to: &Path, ports: &BTreeMap<&'static str, String>) {
    let from = Path::new(EXAMPLES).join(to.file_name().expect("it has a name"));
    let mut copied = String::new();
    for word in fs::read_to_string(from).expect("it is there").split_inclusive(|char: char| !char.is_ascii_digit()) {
        let number = word.trim_end_matches(|char: char| !char.is_ascii_digit());
        copied += ports.get(number).map_or(number, String::as_str);
        copied += &word[number.len()..];
    }
    fs::write(to, copied).expect("the folder can be written");
}

#[tokio::test]
async fn the_examples_of_proxies_pass_everything_on() {
    let (nginx, haproxy) = (tools::on_path("nginx"), tools::on_path("haproxy"));
    let (Some(nginx), Some(haproxy)) = (nginx, haproxy) else { return tools::skip_unless_root("nginx or HAProxy") };
    let mut example = Example::start();
    let folder = example.folder.path().display().to_string();
    fs::create_dir_all(example.folder.path().join("data")).expect("the folder can be written");
    example.run(&nginx, &["-e", "stderr", "-p", &format!("{folder}/data"), "-c", &format!("{folder}/nginx.conf")]);
    // Both are on one port in the examples.
    let (other, configuration) = (free_address(), format!("{folder}/haproxy.cfg"));
    let text = fs::read_to_string(&configuration).expect("it was copied");
    let text = text.replace(&format!("127.0.0.1:{}", example.ports["8080"]), &other);
    fs::write(&configuration, text).expect("the folder can be written");
    example.run(&haproxy, &["-f", &configuration]);

    let bootstrap = example.bootstrap().await;
    assert_eq!(bootstrap.issuer, example.url("8080"));
    let other = other.replace("127.0.0.1", "localhost");
    let entries = [
        ("nginx", example.url("8080"), example.url("8079")),
        ("HAProxy", format!("http://{other}"), format!("http://{other}")),
    ];
    for (proxy, http, grpc) in entries {
        let what = format!("a token through {proxy}");
        let client = eventually(&what, async || {
            let discovery = format!("{http}/.well-known/openid-configuration");
            reqwest::Client::builder()
                .no_proxy()
                .build()
                .ok()?
                .get(discovery)
                .send()
                .await
                .ok()?
                .error_for_status()
                .ok()?;
            Client::try_log_in(&http, &bootstrap.service_user).await.ok()
        });
        let client = client.await;
        let id = json_is_passed_on(&client).await;
        grpc_is_passed_on(&grpc, &client, &id).await;
        if http == bootstrap.issuer {
            people_are_passed_on(&http, &client).await;
        }
    }
}

/// Checks that a person can log in on an oidc node to pages that query nodes serve.
async fn people_are_passed_on(issuer: &str, client: &Client) {
    let (user, name) = person(client).await;
    gives(client, "", &user, "IAM_OWNER_VIEWER").await;
    let mut browser = Browser::new(issuer);
    log_in(issuer, &mut browser, &name).await;
    let list = async || {
        let shown = browser.clone().get("/ui/operate/failed").await;
        shown.text.contains("No failed events.").then_some(())
    };
    eventually("the list of failed events", list).await;
}

async fn json_is_passed_on(client: &Client) -> String {
    let created = eventually("a write", async || {
        let answer =
            Answer::of(client.request(Method::POST, TARGETS).json(&target("proxied")).send().await.ok()?).await;
        (answer.status == StatusCode::CREATED).then_some(answer)
    });
    let created = created.await;
    let read = eventually("a read", async || {
        let answer = client.get_target(&created.id(), Some(&created.consistency())).await;
        (answer.status == StatusCode::OK).then_some(answer)
    });
    assert_eq!(read.await.body["target"]["target"]["name"], "proxied");
    let search = eventually("a search", async || {
        let request = client.request(Method::POST, &format!("{TARGETS}/_search"));
        let request = request.header("consistency-token", created.consistency()).header("consistency-wait", "10s");
        let answer = send(request.json(&json!([{ "inIds": { "ids": [created.id()] } }]))).await;
        (answer.status == StatusCode::OK).then_some(answer)
    });
    assert_eq!(search.await.body["details"]["totalResult"], "1");
    // Nodes believe the proxy, which believes nobody.
    let request = client.request(Method::GET, &format!("{TARGETS}/{}", created.id()));
    let read = send(request.header("x-forwarded-host", "other.example").header("x-forwarded-for", "192.0.2.1")).await;
    assert_eq!(read.status, StatusCode::OK, "{read:?}");
    created.id()
}

async fn grpc_is_passed_on(base: &str, client: &Client, id: &str) {
    let grpc = Grpc::connect(base, Some(&client.token)).await;
    let asked = GetTargetRequest { id: id.to_owned() };
    let read = grpc.call(&GET_TARGET, asked.clone()).await.expect("a read is passed on").into_inner();
    assert_eq!(read.target.and_then(|found| found.target).map(|target| target.name).as_deref(), Some("proxied"));

    let mut health = HealthClient::new(grpc.channel.clone());
    let watched = health.watch(HealthCheckRequest::default()).await.expect("a stream is passed on");
    let said = tokio::time::timeout(Duration::from_secs(10), watched.into_inner().message()).await;
    let said = said.expect("it says something at once").expect("without an error").expect("before it ends");
    assert_eq!(said.status(), ServingStatus::Serving);

    let web = grpc_web(client, asked).await;
    assert_eq!(web.target.and_then(|found| found.target).map(|target| target.name).as_deref(), Some("proxied"));
    let deletion = proto::action::DeleteTargetRequest { id: id.to_owned() };
    grpc.call(&DELETE_TARGET, deletion).await.expect("a write is passed on");
}

/// Gets a target by gRPC-web.
async fn grpc_web(client: &Client, asked: GetTargetRequest) -> GetTargetResponse {
    let message = prost::Message::encode_to_vec(&asked);
    let length = u32::try_from(message.len()).expect("a small message");
    let frame = [vec![0], length.to_be_bytes().to_vec(), message].concat();
    let request = client.request(Method::POST, GET_TARGET.facts.grpc).body(frame);
    let response = request.header("content-type", "application/grpc-web+proto").send().await.expect("it is passed on");
    assert_eq!(response.headers()["content-type"], "application/grpc-web+proto");
    let answer = response.bytes().await.expect("a body");
    let length = u32::from_be_bytes(answer[1..5].try_into().expect("four bytes"));
    let (message, trailers) = answer[5..].split_at(usize::try_from(length).expect("a small message"));
    assert!(trailers.ends_with(b"grpc-status:0\r\n"), "{trailers:?}");
    prost::Message::decode(message).expect("it is a target")
}
