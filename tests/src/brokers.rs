//! Three NATS servers that form a cluster, in addition to the Postgres of [`Servers`].

use std::{fs, path::PathBuf, process::Stdio};

use async_nats::jetstream;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{eventually, ports::free_port, servers::Servers};

const MEMBERS: usize = 3;

/// The cluster; its members end when it is dropped.
#[derive(Debug)]
pub struct Brokers {
    program: PathBuf,
    folder: TempDir,
    /// The ports of each member: for clients, and for the other members.
    ports: [(u16, u16); MEMBERS],
    running: [Option<Child>; MEMBERS],
}

impl Brokers {
    /// Starts three servers with the program of the single server.
    pub async fn start(servers: &Servers) -> Self {
        let program = servers.nats_program();
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let ports = std::array::from_fn(|_| (free_port(), free_port()));
        let mut brokers = Self { program, folder, ports, running: [const { None }; MEMBERS] };
        for member in 0..MEMBERS {
            brokers.run(member);
        }
        brokers.ready().await;
        brokers
    }

    /// Starts a member that does not run.
    pub fn run(&mut self, member: usize) {
        let (clients, cluster) = self.ports[member];
        let routes: Vec<String> = self.ports.iter().map(|(_, port)| format!("\"nats://127.0.0.1:{port}\"")).collect();
        let place = |name: &str| self.folder.path().join(format!("{name}-{member}")).display().to_string();
        let text = format!(
            "server_name: n{member}\nlisten: \"127.0.0.1:{clients}\"\nlog_file: \"{}\"\n\
             jetstream {{ store_dir: \"{}\", sync_interval: always }}\nlame_duck_grace_period: 1s\n\
             cluster {{ name: three, listen: \"127.0.0.1:{cluster}\", routes: [{}] }}\n\
             accounts {{\n  SYS {{ users: [{{ user: sys, password: sys }}] }}\n  \
             P {{ jetstream: enabled, users: [{{ user: platform, password: platform }}] }}\n}}\nsystem_account: SYS\n",
            place("log"),
            place("store"),
            routes.join(", ")
        );
        let configuration = place("conf");
        fs::write(&configuration, text).expect("the folder can be written");
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(configuration).stdout(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
        self.running[member] = Some(command.spawn().expect("it can be started"));
    }

    /// Waits until the cluster has a leader that accepts streams.
    pub async fn ready(&self) {
        eventually("three brokers", || async {
            let context = jetstream::new(self.try_connect("platform").await?);
            context.query_account().await.ok()
        })
        .await;
    }

    /// Returns the addresses of all members for a user.
    pub fn url(&self, user: &str) -> String {
        let url = |(port, _): &(u16, u16)| format!("nats://{user}:{user}@127.0.0.1:{port}");
        self.ports.iter().map(url).collect::<Vec<_>>().join(",")
    }

    /// Connects a client with the platform's account.
    pub async fn client(&self) -> async_nats::Client {
        eventually("a broker", || self.try_connect("platform")).await
    }

    async fn try_connect(&self, user: &str) -> Option<async_nats::Client> {
        let url = self.url(user);
        eventlog::nats::connect(eventlog::nats::options(&url), &url).await.ok()
    }

    /// Returns the member that leads a stream.
    pub async fn leader(&self, stream: &str) -> usize {
        let context = jetstream::new(self.client().await);
        let leader = || async {
            let leader = context.get_stream(stream).await.ok()?.cached_info().cluster.as_ref()?.leader.clone()?;
            leader.trim_start_matches('n').parse().ok()
        };
        eventually("a leader", leader).await
    }

    /// Kills a member.
    pub async fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.running[member].take() {
            child.kill().await.expect("it runs");
        }
    }

    /// Ends a member by the lame duck mode, in which it hands over its work.
    pub async fn drain(&mut self, member: usize) {
        let mut child = self.running[member].take().expect("it runs");
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs");
        kill_process(pid, Signal::USR2).expect("it runs");
        // The mode is slow for many clients, but there are few.
        let ended = tokio::time::timeout(std::time::Duration::from_secs(20), child.wait()).await;
        if ended.is_err() {
            child.kill().await.expect("it runs");
        }
    }
}
