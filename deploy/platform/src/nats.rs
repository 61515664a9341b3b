//! The NATS server of a standalone platform. The log lives in it, so every message is synced to disk before it is
//! acknowledged.

use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use async_nats::ConnectOptions;
use rustix::process::Signal;
use tokio::process::Command;
use tokio::time::timeout;

use crate::binaries::{Binaries, BinariesError};
use crate::child::{Child, ChildError, Progress, Server, StopSteps};
use crate::data_dir::{DataDir, DataDirError, create_private, free_ports, write_atomically};

const STOP: StopSteps = &[(Signal::TERM, Duration::from_secs(6))];
/// How long a start may take, including the recovery of a large log.
const START_LIMIT: Duration = Duration::from_mins(1);
/// How often a start is tried: another program may take a free port before the server does.
const ATTEMPTS: u32 = 3;

/// Why there is no NATS server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NatsError {
    /// The server is not installed.
    #[error(transparent)]
    Binaries(#[from] BinariesError),
    /// Its folder cannot be prepared.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The server does not run.
    #[error(transparent)]
    Child(#[from] ChildError),
}

/// A running NATS server.
pub(crate) struct Nats {
    child: Child,
    /// The URL for clients.
    pub(crate) url: String,
    /// The token of clients: other users of this machine must not write to the log. async-nats reads none from a URL.
    pub(crate) token: String,
    /// The URL of the monitoring port, over HTTP without the token.
    pub(crate) monitor_url: String,
}

impl Nats {
    /// Starts the server on the data folder's log and waits until JetStream answers.
    pub(crate) async fn start(data: &DataDir, binaries: &Binaries, progress: Progress<'_>) -> Result<Self, NatsError> {
        let program = binaries.nats_server()?;
        let folder = data.nats();
        create_private(&folder)?;
        let token = data.secret(&folder.join("token"))?;
        let server = Server { name: "nats-server", log: data.log("nats"), pid_file: data.pid_file("nats"), stop: STOP };
        server.clear_leftover(progress).await?;
        progress("starting nats-server");
        let mut attempt = 1;
        loop {
            let [port, monitor_port] = free_ports(&folder.join("ports"))?;
            let configuration = folder.join("nats.conf");
            let text = configuration_text(data.node_id(), port, monitor_port, &token);
            write_atomically(&configuration, text.as_bytes())?;
            let mut child = server.spawn(command(&program, &folder, &configuration), progress).await?;
            let url = format!("nats://127.0.0.1:{port}");
            match child.ready(START_LIMIT, || answers(&url, &token)).await {
                Ok(()) => {
                    let monitor_url = format!("http://127.0.0.1:{monitor_port}");
                    return Ok(Self { child, url, token, monitor_url });
                }
                Err(ChildError::Ended { tail, .. })
                    if attempt < ATTEMPTS && tail.contains("address already in use") =>
                {
                    attempt += 1;
                }
                Err(error) => {
                    child.stop().await;
                    return Err(error.into());
                }
            }
        }
    }

    /// Waits until the server ends by itself, and returns the error that describes it.
    pub(crate) async fn died(&mut self) -> ChildError {
        self.child.died().await
    }

    /// Stops the server.
    pub(crate) async fn stop(self) {
        self.child.stop().await;
    }
}

/// Returns the configuration file. The store's folder is relative to the working directory, so that no path needs
/// quoting.
fn configuration_text(node_id: &str, port: u16, monitor_port: u16, token: &str) -> String {
    let mut text = String::from("# Rewritten by the platform at every start.\n");
    let _ = write!(
        text,
        r#"server_name: "platform-{node_id}"
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
max_payload: 1MB
authorization {{ token: "{token}" }}
jetstream {{
  store_dir: "store"
  sync_interval: "always"
  max_memory_store: 256MB
}}
"#
    );
    text
}

fn command(program: &Path, folder: &Path, configuration: &Path) -> Command {
    let mut command = Command::new(program);
    // The platform's environment may hold keys; the server needs none of it.
    command.env_clear().envs(env::var_os("PATH").map(|path| ("PATH", path)));
    command.current_dir(folder).arg("--config").arg(configuration);
    command
}

async fn answers(url: &str, token: &str) -> bool {
    let ask = async {
        let client = ConnectOptions::with_token(token.to_owned()).connect(url).await.ok()?;
        async_nats::jetstream::new(client).query_account().await.ok()
    };
    timeout(Duration::from_secs(2), ask).await.is_ok_and(|account| account.is_some())
}

#[cfg(test)]
mod tests;
