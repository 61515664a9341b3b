//! A log that was set up, and nodes on it: each role in a process of its own.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    auditor::Audit,
    brokers::Brokers,
    client::{Answer, Client, TARGETS},
    eventually,
    instance::Bootstrap,
    management::Management,
    platform::Platform,
    ports::free_address,
    process::Process,
    servers::Servers,
    set_up::{self, SetUp},
};

/// Servers with a log that was set up, without any node.
#[derive(Debug)]
pub struct Cluster {
    /// The servers.
    pub servers: Servers,
    /// The flags of a node.
    flags: Vec<String>,
    /// The environment variables of every node.
    environment: Vec<(&'static str, &'static str)>,
    /// What the setup has created.
    pub bootstrap: Bootstrap,
    /// A client of the service user with all rights; [`Client::at`] sends it to a node.
    pub client: Client,
    logs: TempDir,
}

/// The environment variable that shortens the leases of a process ([`base::fault::shortened_lease`]).
const SHORT_LEASES: (&str, &str) = ("PLATFORM_SHORT_LEASES", "1");

/// A node.
#[derive(Debug)]
pub struct Node {
    /// The process.
    pub process: Process,
    /// The URL of the node.
    pub url: String,
    /// The management port.
    pub management: Management,
    log: PathBuf,
}

impl Cluster {
    /// Starts servers with a log that a standalone platform has set up.
    pub async fn start() -> Self {
        let SetUp { servers, bootstrap, token } = set_up::set_up().await;
        let servers = Servers::start_on(servers).await;
        let (flags, client) = (servers.flags(), Client::with_token(&bootstrap.issuer, token));
        let logs = tempfile::tempdir().expect("a temporary folder can be made");
        Self { servers, flags, environment: vec![], bootstrap, client, logs }
    }

    /// Starts servers for nodes with short leases, for a test that waits for the end of leases. Such a node can lose
    /// its leases when the machine is busy.
    pub async fn start_with_short_leases() -> Self {
        Self { environment: vec![SHORT_LEASES], ..Self::start().await }
    }

    /// Starts three brokers, and sets up their log by a standalone platform.
    pub async fn start_on_three() -> (Self, Brokers) {
        let servers = Servers::start().await;
        let brokers = Brokers::start(&servers).await;
        let mut flags = servers.flags();
        for (flag, instead) in [
            ("--nats-url", vec!["--nats-url", &brokers.url("platform")]),
            ("--nats-token", vec!["--nats-replicas", "3"]),
            ("--nats-monitor-url", vec!["--nats-system-url", &brokers.url("sys")]),
        ] {
            let place = flags.iter().position(|word| word == flag).expect("it is given");
            flags.splice(place..place + 2, instead.into_iter().map(str::to_owned));
        }
        (Self::set_up(servers, flags).await, brokers)
    }

    async fn set_up(servers: Servers, flags: Vec<String>) -> Self {
        let mut platform = Platform::start_with(&flags, &[]).await;
        platform.ready().await;
        let client = platform.client().await;
        let bootstrap = platform.bootstrap.clone();
        platform.stop().await;
        let logs = tempfile::tempdir().expect("a temporary folder can be made");
        Self { servers, flags, environment: vec![], bootstrap, client, logs }
    }

    /// Starts a node of a role under a name. The flags override the default ones.
    pub fn node(&self, role: &str, name: &str, flags: &[(&str, &str)], environment: &[(&str, &str)]) -> Node {
        let listen = free_address();
        let mut all = self.flags.clone();
        let managed = free_address();
        let mut own = vec![("--node-name", name), ("--management-listen", managed.as_str())];
        if role != "projector" {
            own.extend([("--listen", listen.as_str()), ("--external-url", &self.bootstrap.issuer)]);
        }
        for (flag, value) in own.iter().chain(flags) {
            match all.iter().position(|known| known == flag) {
                Some(place) => (*value).clone_into(&mut all[place + 1]),
                None => all.extend([(*flag).to_owned(), (*value).to_owned()]),
            }
        }
        all.insert(0, role.to_owned());
        let log = self.logs.path().join(format!("{role}-{}", listen.replace(':', "-")));
        let stderr = File::create(&log).expect("the folder can be written");
        let common = self.environment.iter().copied().chain([("RUST_LOG", "info")]);
        let environment: Vec<_> = environment.iter().copied().chain(common).collect();
        let process = Process::spawn_to(&all, &environment, Stdio::null(), stderr.into());
        Node { process, url: format!("http://{listen}"), management: Management::at(&managed), log }
    }

    /// Returns a client of a node.
    pub fn client(&self, node: &Node) -> Client {
        self.client.at(&node.url)
    }

    /// Reads and checks the complete log.
    pub async fn audit(&self) -> Audit {
        Audit::of(self.servers.nats().await).await
    }

    /// Waits until the writer has dropped from its tail what history has: history reports its progress every second,
    /// and the writer drops what was covered by the report before.
    pub async fn tail_is_forgotten(&self) {
        let mut said = self.servers.nats().await.subscribe("progress.0.history.2").await.expect("NATS is there");
        for _ in 0..4 {
            said.next().await.expect("the projector goes on");
        }
    }

    /// Waits until the node is the writer, and returns how long that took.
    pub async fn writes(&self, node: &Node) -> Duration {
        let begin = Instant::now();
        let client = self.client(node);
        eventually("a node that writes", || async {
            // The answer alone does not prove it, because another node may have decided the command.
            (node.has_writing() && is_writer(&client).await && node.has_writing()).then_some(())
        })
        .await;
        begin.elapsed()
    }
}

impl Cluster {
    /// Waits until a node reports that it is ready.
    pub async fn is_ready(&self, node: &Node) {
        let is_ready = || async { node.management.readiness().await.filter(|(status, _)| *status == 200) };
        eventually("a node that is ready", is_ready).await;
    }

    /// Waits until a query node can search.
    pub async fn searches(&self, client: &Client) {
        let request = || client.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([]));
        let probe = || async { (request().send().await.ok()?.status() == StatusCode::OK).then_some(()) };
        eventually("a node that searches", probe).await;
    }
}

/// Whether commands to a node are decided: only the writer knows what does not exist.
pub async fn is_writer(client: &Client) -> bool {
    let request = client.request(Method::PATCH, &format!("{TARGETS}/0")).timeout(Duration::from_secs(5));
    match request.json(&json!({ "timeout": "1s" })).send().await {
        Ok(response) => Answer::of(response).await.status == StatusCode::NOT_FOUND,
        Err(_) => false,
    }
}

impl Node {
    /// Whether the node is the writer, as far as it has logged.
    fn has_writing(&self) -> bool {
        let log = self.log();
        log.rfind("this node writes now") > log.rfind("this node no longer writes")
    }

    /// Returns the log lines of the node.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {} said:\n{}", self.url, self.log());
        }
    }
}
