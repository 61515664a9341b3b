//! A standalone platform.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use reqwest::Method;
use rustix::process::{Signal, kill_process};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

pub use crate::client::ServiceUser;
use crate::{
    client::{Client, after, post},
    eventually,
    management::Management,
    process::Process,
    servers::wait,
};

/// A platform in one process on a folder of its own, stopped when dropped.
#[derive(Debug)]
pub struct Platform {
    folder: TempDir,
    flags: Vec<String>,
    process: Process,
    /// What the first start left.
    pub bootstrap: Bootstrap,
}

/// `bootstrap.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The issuer, which is where the platform is reached.
    pub issuer: String,
    /// The instance.
    pub instance_id: String,
    /// The organization.
    pub organization_id: String,
    /// The platform's own project.
    pub project_id: String,
    /// The service user with all rights.
    pub service_user: ServiceUser,
    /// Those of the setup file.
    #[serde(default)]
    pub service_users: Vec<ServiceUser>,
}

/// Who there is besides the one with all rights: `viewer` may read, `nobody` may do nothing.
const SETUP: &str =
    "[[service_user]]\nname = \"viewer\"\nroles = [\"IAM_OWNER_VIEWER\"]\n\n[[service_user]]\nname = \"nobody\"\n";

impl Platform {
    /// Starts a new platform.
    pub async fn start() -> Self {
        Self::start_with(&[], &[]).await
    }

    /// Starts a new platform with further flags and environment variables.
    pub async fn start_with(flags: &[String], environment: &[(&str, &str)]) -> Self {
        Self::start_telling(flags, environment, Stdio::inherit()).await
    }

    /// Starts a new platform that tells of its work where the test wants it.
    pub async fn start_telling(flags: &[String], environment: &[(&str, &str)], stderr: Stdio) -> Self {
        Self::start_at("127.0.0.1:0", flags, environment, stderr).await
    }

    /// Starts a new platform that listens somewhere else.
    pub async fn start_on(listen: &str, flags: &[String]) -> Self {
        Self::start_at(listen, flags, &[], Stdio::inherit()).await
    }

    async fn start_at(listen: &str, flags: &[String], environment: &[(&str, &str)], stderr: Stdio) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let setup = folder.path().join("setup.toml");
        fs::write(&setup, SETUP).expect("the folder can be written");
        let data = folder.path().join("data").display().to_string();
        let mut all = vec!["standalone".to_owned(), "--data-dir".into(), data];
        if !flags.iter().any(|flag| flag == "--setup") {
            all.extend(["--setup".to_owned(), setup.display().to_string()]);
        }
        all.extend_from_slice(flags);
        let process = Self::spawn(&all, listen, environment, stderr);
        let path = folder.path().join("data/bootstrap.json");
        let bootstrap = eventually("bootstrap.json", || {
            let found = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
            std::future::ready(found)
        });
        let bootstrap = bootstrap.await;
        Self { folder, flags: all, process, bootstrap }
    }

    fn spawn(flags: &[String], listen: &str, environment: &[(&str, &str)], stderr: Stdio) -> Process {
        let flags: Vec<String> = flags.iter().cloned().chain(["--listen".to_owned(), listen.to_owned()]).collect();
        Process::spawn_to(&flags, environment, Stdio::null(), stderr)
    }

    /// Starts the process again on the same data and address, and waits until it answers.
    pub async fn restart(&mut self, environment: &[(&str, &str)]) {
        self.respawn(environment);
        self.ready().await;
    }

    /// Starts the process again and does not wait.
    pub fn respawn(&mut self, environment: &[(&str, &str)]) {
        let listen = self.bootstrap.issuer.trim_start_matches("http://").to_owned();
        self.process = Self::spawn(&self.flags, &listen, environment, Stdio::inherit());
    }

    /// Waits until tokens can be issued.
    pub async fn ready(&self) {
        let url = format!("{}/.well-known/openid-configuration", self.bootstrap.issuer);
        let http = reqwest::Client::builder().timeout(Duration::from_secs(2)).no_proxy().build().expect("a client");
        eventually("discovery", || async { http.get(&url).send().await.ok().filter(|answer| answer.status() == 200) })
            .await;
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Ends the process in order.
    pub async fn stop(&mut self) {
        self.process.end().await;
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Its management port.
    pub fn management(&self) -> Management {
        let address = fs::read_to_string(self.data().join("management.address"));
        Management::at(&address.expect("a running platform says where it is"))
    }

    /// The address of its NATS server, and the token that it asks for.
    pub fn nats(&self) -> (String, String) {
        let read = |file: &str| fs::read_to_string(self.data().join("nats").join(file)).expect("it has an own server");
        let ports = read("ports");
        let port = ports.split_whitespace().next().expect("the first is the clients' port");
        (format!("nats://127.0.0.1:{port}"), read("token").trim().to_owned())
    }

    /// The address of its own Postgres, with password.
    pub fn postgres_url(&self) -> String {
        let read = |file: &str| fs::read_to_string(self.data().join(file));
        let (port, password) = (read("postgres.port"), read("postgres.password"));
        let [port, password] = [port, password].map(|text| text.expect("it has an own server").trim().to_owned());
        format!("postgres://platform:{password}@127.0.0.1:{port}/postgres")
    }

    /// The sequence of the last event in the log, and the number of records.
    pub async fn log_end(&self) -> (u64, u64) {
        let (url, token) = self.nats();
        let client = async_nats::ConnectOptions::with_token(token).connect(url).await.expect("NATS is there");
        let log = eventlog::log::Log::open(client, 0, 1).await.expect("the log can be opened");
        let last = log.last().await.expect("the log can be read").expect("it has been set up").position();
        (last.sequence, last.stream_sequence)
    }

    /// A client of the service user with all rights.
    pub async fn client(&self) -> Client {
        self.client_of(&self.bootstrap.service_user).await
    }

    /// A client of one of the setup file's service users.
    pub async fn client_named(&self, name: &str) -> Client {
        let mut users = self.bootstrap.service_users.iter();
        self.client_of(users.find(|user| user.client_id == name).expect("the setup file names it")).await
    }

    /// A client of the system user, who operates the platform.
    pub async fn operator(&self) -> Client {
        let data = self.data();
        let mut command = tokio::process::Command::new(crate::process::binary());
        let printed = command.arg("system-token").arg("--data-dir").arg(data).output().await.expect("it runs");
        let token = String::from_utf8(printed.stdout).expect("a token is text").trim().to_owned();
        self.client().await.with(token)
    }

    /// A client that is logged in as a service user, for which `admin` makes a new secret.
    pub async fn log_in(&self, admin: &Client, id: &str, username: &str) -> Client {
        let path = format!("/resources/v3alpha/users/{id}");
        // It may not be known yet which roles the user has.
        let secret = eventually("a secret", async || {
            let answer = post(admin, &format!("{path}/_generate_secret"), json!({})).await;
            (answer.status != 503).then_some(answer)
        });
        let secret = secret.await;
        assert_eq!(secret.status, 200, "{}", secret.body);
        // The token endpoint reads a read model.
        let seen = after(&secret, admin.request(Method::GET, &path)).await;
        assert_eq!(seen.body["user"]["hasSecret"], true, "{}", seen.body);
        let client_secret = secret.body["clientSecret"].as_str().expect("it is shown").to_owned();
        self.client_of(&ServiceUser { user_id: id.to_owned(), client_id: username.to_owned(), client_secret }).await
    }

    async fn client_of(&self, user: &ServiceUser) -> Client {
        Client::log_in(&self.bootstrap.issuer, user).await
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        if !self.process.has_ended() {
            // A stopped process cannot end.
            let _ = kill_process(self.process.pid(), Signal::CONT);
            let _ = kill_process(self.process.pid(), Signal::TERM);
            wait(self.process.pid());
        }
        // A process that was killed leaves its servers behind; the next start or this stops them.
        let leftovers = self.data();
        for server in ["nats", "postgres"] {
            crate::process::kill_leftover(&leftovers, server);
        }
    }
}
