//! A NATS server and a Postgres server without any role of the platform, for tests that bring their own.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use base::secret::random;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use view::projection::{PROJECTIONS, Projection};

use crate::{
    auditor::connect,
    process::{Process, server},
    template::{Template, copy},
};

/// Running servers, stopped when dropped.
#[derive(Debug)]
pub struct Servers {
    process: Process,
    folder: Option<TempDir>,
    /// The addresses of the servers.
    pub places: Places,
}

/// The addresses of servers.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Places {
    /// The URL of the NATS server.
    pub nats_url: String,
    /// The token that NATS requires.
    pub nats_token: String,
    /// The URL of the monitoring port of NATS.
    pub nats_monitor_url: String,
    /// The URL of Postgres, with password.
    pub postgres_url: String,
}

impl Servers {
    /// Starts both on a new folder.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        with_postgres(folder.path()).await;
        Self::start_on(folder).await
    }

    /// Starts both on a folder.
    pub(crate) async fn start_on(folder: TempDir) -> Self {
        let arguments = ["servers", "--stay", "--data-dir", &folder.path().display().to_string()].map(str::to_owned);
        let mut process = Process::spawn(&arguments, &[], Stdio::piped());
        let stdout = process.stdout().expect("standard output is piped");
        let line = BufReader::new(stdout).lines().next_line().await.expect("the servers start");
        let places = serde_json::from_str(&line.expect("the servers say where they are")).expect("they say it in JSON");
        Self { process, folder: Some(folder), places }
    }

    /// Connects a NATS client.
    pub async fn nats(&self) -> async_nats::Client {
        self.nats_as("a test").await
    }

    /// Connects a NATS client under a name.
    pub async fn nats_as(&self, name: &str) -> async_nats::Client {
        let options = async_nats::ConnectOptions::with_token(self.places.nats_token.clone()).name(name);
        options.connect(&self.places.nats_url).await.expect("NATS is there")
    }

    /// Returns how many bytes NATS has sent on connections whose names have a prefix.
    pub async fn sent_to(&self, name: &str) -> u64 {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let url = format!("{}/connz", self.places.nats_monitor_url);
        let answer: Value =
            http.get(url).send().await.expect("NATS is there").json().await.expect("it answers in JSON");
        let all = answer["connections"].as_array().expect("it has connections").iter();
        let is_its = |one: &&Value| one["name"].as_str().is_some_and(|found| found.starts_with(name));
        all.filter(is_its).filter_map(|one| one["out_bytes"].as_u64()).sum()
    }

    /// Returns the flags by which a role uses the servers, with the master key of the folder.
    pub fn flags(&self) -> Vec<String> {
        let Places { nats_url, nats_token, nats_monitor_url, postgres_url } = &self.places;
        let key = self.folder().join("master.key").display().to_string();
        let flags = [
            ("--nats-url", nats_url),
            ("--nats-token", nats_token),
            ("--nats-monitor-url", nats_monitor_url),
            ("--postgres-url", postgres_url),
            ("--master-key-file", &key),
        ];
        flags.iter().flat_map(|(flag, value)| [(*flag).to_owned(), (*value).clone()]).collect()
    }

    /// Returns the path of the NATS server's program.
    pub fn nats_program(&self) -> PathBuf {
        let pid = server(&self.folder(), "nats").expect("it runs").as_raw_nonzero();
        fs::read_link(format!("/proc/{pid}/exe")).expect("it is a process of this user")
    }

    /// Returns the folder of both servers.
    pub fn folder(&self) -> PathBuf {
        self.folder.as_ref().expect("it is there until they have stopped").path().to_owned()
    }

    /// Stops both servers, and returns their folder.
    pub async fn stop(mut self) -> TempDir {
        self.process.end().await;
        self.folder.take().expect("it is there until they have stopped")
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            end_at_once(&mut self.process, folder.path());
        }
    }
}

/// Kills a process with servers in a folder, and the servers, which outlive it. Nobody reads what they leave, so they
/// need not stop cleanly.
pub(crate) fn end_at_once(process: &mut Process, folder: &Path) {
    if !process.has_ended() {
        let _ = kill_process(process.pid(), Signal::KILL);
        wait(process.pid());
    }
    // Postgres removes its shared memory only if it is not killed.
    for (name, signal) in [("nats", Signal::KILL), ("postgres", Signal::QUIT)] {
        if let Some(server) = server(folder, name) {
            let _ = kill_process(server, signal);
            wait(server);
        }
    }
}

/// Waits until a process has ended; tests may drop outside of a runtime.
fn wait(pid: Pid) {
    let status = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let is_running = || std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z "));
    for _ in 0..2000 {
        if !is_running() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Creates a data folder with the files of an empty Postgres, and with a master key of its own.
pub(crate) async fn with_postgres(data: &Path) {
    let template = Template::find("postgres", async |folder| {
        let servers = Servers::start_on(tempfile::tempdir().expect("a temporary folder can be made")).await;
        let made = servers.stop().await;
        for part in ["version", "postgres", "postgres.password"] {
            copy(&made.path().join(part), &folder.join(part));
        }
    });
    copy(&template.await.folder, data);
    let key: String = random::<32>().iter().map(|byte| format!("{byte:02x}")).collect();
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(data.join("master.key"));
    file.and_then(|mut file| writeln!(file, "{key}")).expect("the folder can be written");
}

/// Removes every search index from NATS.
pub async fn drop_indexes(nats: async_nats::Client) {
    let context = async_nats::jetstream::new(nats);
    for stream in ["OBJ_INDEX_FILES", "KV_INDEX_MANIFESTS"] {
        context.delete_stream(stream).await.expect("it was there");
    }
}

/// Removes all read models from Postgres.
pub async fn drop_read_models(url: &str) {
    let schemas = PROJECTIONS.iter().filter(|projection| projection.schema().is_some());
    let schemas = schemas.map(Projection::schema_name);
    let all: Vec<String> = schemas.chain(["platform".to_owned()]).collect();
    let text = format!("drop schema {} cascade", all.join(", "));
    connect(url).await.batch_execute(&text).await.expect("they are there");
}
