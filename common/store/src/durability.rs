//! Whether the NATS server keeps what it acknowledges.
//!
//! The effective setting is asked for over the wire: a server's file may say one thing and its memory another.

use std::time::Duration;

use futures::StreamExt;
use serde::Deserialize;

use crate::nats;

const TIMEOUT: Duration = Duration::from_secs(3);

/// Where to ask a server for its settings.
#[derive(Debug, Clone, Default)]
pub struct Durability {
    /// The address of the server's monitoring port, for example `http://127.0.0.1:8222`.
    pub monitor_url: Option<String>,
    /// The address with credentials of the system account.
    pub system_url: Option<String>,
    /// Do not ask at all.
    pub unsafe_durability: bool,
}

/// A server that must not be used for the log.
#[derive(Debug, thiserror::Error)]
pub enum Unsafe {
    /// The server could lose what it acknowledged.
    #[error(
        "the NATS server {0} does not run JetStream with sync_interval: always and would lose acknowledged writes when \
         the power goes; set it in the server's jetstream block, or accept the loss with --unsafe-durability"
    )]
    LazySync(String),
    /// There is no way to ask.
    #[error(
        "cannot check that NATS keeps what it acknowledges: give --nats-monitor-url or --nats-system-url, or accept \
         possible loss with --unsafe-durability"
    )]
    NoWayToAsk,
    /// The server did not answer.
    #[error("cannot check that NATS keeps what it acknowledges: {0} does not answer as a NATS server: {1}")]
    NoAnswer(String, String),
}

#[derive(Deserialize)]
struct Varz {
    server_name: String,
    jetstream: Option<JetStream>,
}

#[derive(Deserialize, Default)]
struct JetStream {
    #[serde(default)]
    config: Config,
}

#[derive(Deserialize, Default)]
struct Config {
    #[serde(default)]
    sync_always: bool,
}

#[derive(Deserialize)]
struct Answer {
    data: Varz,
}

impl Durability {
    /// Asks the server, or all servers of the cluster, for the effective setting.
    pub async fn check(&self) -> Result<(), Unsafe> {
        if self.unsafe_durability {
            return Ok(());
        }
        let servers = match (&self.monitor_url, &self.system_url) {
            (Some(url), _) => vec![ask_monitor(url).await.map_err(|error| no_answer(url, error))?],
            (None, Some(url)) => ask_system(url).await.map_err(|error| no_answer(url, error))?,
            (None, None) => return Err(Unsafe::NoWayToAsk),
        };
        match servers.into_iter().find(|server| !server.syncs_always()) {
            Some(server) => Err(Unsafe::LazySync(server.server_name)),
            None => Ok(()),
        }
    }
}

impl Varz {
    fn syncs_always(&self) -> bool {
        self.jetstream.as_ref().is_some_and(|jetstream| jetstream.config.sync_always)
    }
}

async fn ask_monitor(url: &str) -> Result<Varz, reqwest::Error> {
    let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build()?;
    let answer = client.get(format!("{}/varz", url.trim_end_matches('/'))).send().await?.error_for_status()?;
    answer.json().await
}

/// Every server of the cluster answers; the first pause ends the collection.
async fn ask_system(url: &str) -> Result<Vec<Varz>, async_nats::Error> {
    let client = nats::connect(nats::options(url).connection_timeout(TIMEOUT), url).await?;
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await?;
    client.publish_with_reply("$SYS.REQ.SERVER.PING.VARZ", inbox, "".into()).await?;
    let mut servers = vec![];
    let mut patience = TIMEOUT;
    while let Ok(Some(message)) = tokio::time::timeout(patience, answers.next()).await {
        servers.push(serde_json::from_slice::<Answer>(&message.payload)?.data);
        patience = TIMEOUT / 10;
    }
    if servers.is_empty() { Err("no server answers the system account's question".into()) } else { Ok(servers) }
}

fn no_answer(url: &str, error: impl std::fmt::Display) -> Unsafe {
    Unsafe::NoAnswer(nats::without_password(url), error.to_string())
}
