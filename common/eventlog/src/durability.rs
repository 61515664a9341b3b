//! Checks whether the NATS server persists what it acknowledges.
//!
//! The effective setting is requested over the wire: the server's file may differ from what it has loaded.

use std::time::Duration;

use futures::{StreamExt, future::join_all};
use serde::Deserialize;

use crate::nats;

const TIMEOUT: Duration = Duration::from_secs(3);

/// How to ask a server for its settings.
#[derive(Debug, Clone, Default)]
pub struct Durability {
    /// The addresses of the servers' monitoring ports, for example `http://127.0.0.1:8222`, separated by commas.
    pub monitor_url: Option<String>,
    /// The address with credentials of the system account.
    pub system_url: Option<String>,
    /// The number of servers that store the log.
    pub replicas: usize,
    /// Skips the check.
    pub unsafe_durability: bool,
}

/// The disk usage of a server, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// The server.
    pub server: String,
    /// The bytes that it stores.
    pub used: u64,
    /// The most bytes that it may store.
    pub most: u64,
}

/// A server that must not be used for the log.
#[derive(Debug, thiserror::Error)]
pub enum Unsafe {
    /// The server could lose what it acknowledged.
    #[error(
        "the NATS server {0} does not run JetStream with sync_interval: always and would lose acknowledged writes when \
         the power fails; set it in the server's jetstream block, or accept the loss with --unsafe-durability"
    )]
    LazySync(String),
    /// Too few servers have answered how they sync: fewer than acknowledge a write.
    #[error(
        "cannot check that NATS keeps what it acknowledges: {answered} of the {replicas} servers that keep the log answer; \
         name all of them in --nats-monitor-url, separated by commas, or give --nats-system-url"
    )]
    TooFew {
        /// The number of servers that have answered.
        answered: usize,
        /// The number of servers that store the log.
        replicas: usize,
    },
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
    #[serde(default)]
    stats: Stats,
}

#[derive(Deserialize, Default)]
struct Config {
    #[serde(default)]
    sync_always: bool,
    #[serde(default)]
    max_storage: u64,
}

#[derive(Deserialize, Default)]
struct Stats {
    #[serde(default)]
    storage: u64,
}

#[derive(Deserialize)]
struct Answer {
    data: Varz,
}

impl Durability {
    /// Asks the server, or all servers of the cluster, for the effective setting. A majority has to answer, like for a
    /// write; a server that is away does not keep anybody from taking over.
    pub async fn check(&self) -> Result<(), Unsafe> {
        if self.unsafe_durability {
            return Ok(());
        }
        let (servers, replicas) = (self.servers().await?, self.replicas);
        let answered = servers.len();
        match servers.into_iter().find(|server| !server.syncs_always()) {
            Some(server) => Err(Unsafe::LazySync(server.server_name)),
            None if answered <= replicas / 2 => Err(Unsafe::TooFew { answered, replicas }),
            None => Ok(()),
        }
    }

    /// Asks the servers how much they store and may store.
    pub async fn storage(&self) -> Result<Vec<Storage>, Unsafe> {
        let servers = self.servers().await?.into_iter();
        let told = servers.filter_map(|Varz { server_name, jetstream }| {
            let JetStream { config, stats } = jetstream?;
            Some(Storage { server: server_name, used: stats.storage, most: config.max_storage })
        });
        Ok(told.collect())
    }

    async fn servers(&self) -> Result<Vec<Varz>, Unsafe> {
        match (&self.monitor_url, &self.system_url) {
            (Some(urls), _) => {
                let asked = urls.split(',').map(str::trim);
                let asked = asked.map(async |url| ask_monitor(url).await.map_err(|error| no_answer(url, error)));
                let (answers, silent): (Vec<_>, Vec<_>) = join_all(asked).await.into_iter().partition(Result::is_ok);
                match silent.into_iter().next() {
                    Some(silent) if answers.is_empty() => silent.map(|never| vec![never]),
                    _ => answers.into_iter().collect(),
                }
            }
            (None, Some(url)) => ask_system(url).await.map_err(|error| no_answer(url, error)),
            (None, None) => Err(Unsafe::NoWayToAsk),
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

/// Collects the answers of all servers of the cluster, until a first pause.
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
