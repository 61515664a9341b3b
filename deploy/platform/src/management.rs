//! The management port of a node, and the measuring of parts that report no metrics of their own.

mod measure;

use std::{net::SocketAddr, time::Duration};

use base::{
    explain::explain,
    health::{Health, State},
};
use domain::address::Networks;
use serde_json::{Map, Value};
use server::{
    connections::{self, Limits, Listening},
    management::{Management, Version},
};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use view::{
    database::Database,
    generation::incomplete,
    projection::{Kind, PROJECTIONS},
};

use crate::{Failure, cli};

pub(crate) use measure::Measuring;

/// The name of the node itself among its parts.
const NODE: &str = "node";
/// How often a node that waits for read models looks at them.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long read models may make no progress before a node begins without them.
const LONGEST_STANDSTILL: Duration = Duration::from_mins(5);
/// How many connections the port accepts at a time: its clients are machines of the operator.
const CONNECTIONS: usize = 100;

/// A management port. It is closed when this is dropped, at the very end of the process.
pub(crate) struct Managed {
    /// Collects the states that the parts of the node report.
    pub(crate) health: Health,
    /// The address of the port.
    pub(crate) address: SocketAddr,
    /// Cancelled when the node has to end: from then on `/readyz` reports that it drains.
    pub(crate) stopping: CancellationToken,
    _closing: DropGuard,
}

impl Managed {
    /// Opens the port. The node is not ready before it reports that it serves.
    pub(crate) async fn open(
        options: &cli::Observing,
        role: &'static str,
        node: &str,
        shutdown: &CancellationToken,
    ) -> Result<Self, Failure> {
        let listener = TcpListener::bind(options.management_listen).await.map_err(|error| {
            let address = options.management_listen;
            format!("cannot listen on {address}: {error}: choose another address with --management-listen")
        })?;
        let address = listener.local_addr()?;
        let health = Health::default();
        health.report(NODE, State::Starting("it connects to its servers and reads what it needs".to_owned()));
        let management = Management::new(role, node.to_owned(), version(), health.clone(), shutdown.clone());
        let closing = CancellationToken::new();
        let closed = closing.clone();
        let limits = Limits { connections: CONNECTIONS, ..Limits::default() };
        let listening = Listening { listener, certificate: None, proxies: Networks::default() };
        tokio::spawn(connections::serve(
            listening,
            management.routes(),
            async move { closed.cancelled().await },
            limits,
        ));
        health.set_address(address);
        tracing::info!(%address, "health and metrics are here");
        Ok(Self { health, address, stopping: shutdown.clone(), _closing: closing.drop_guard() })
    }

    /// Waits until every read model was complete once in this version: before that this node would know less than nodes
    /// of the previous version, which answer meanwhile.
    ///
    /// It waits as long as they make progress: one that is stuck at an event must not keep a node from serving the
    /// others.
    pub(crate) async fn wait_for_read_models(&self, database: &Database, shard: u16) {
        let (mut before, mut since) = (vec![], Instant::now());
        while since.elapsed() < LONGEST_STANDSTILL {
            let reason = match incomplete(database, shard).await {
                Ok(found) if found.is_empty() => return,
                Ok(found) => {
                    // A read model without a worker yet does not count as stuck.
                    let has_begun = found.iter().all(|(_, checkpoint)| checkpoint.is_some());
                    let now: Vec<_> = found.iter().map(|(known, checkpoint)| (known.name, *checkpoint)).collect();
                    if now != before || !has_begun {
                        (before, since) = (now, Instant::now());
                    }
                    let names: Vec<&str> = found.iter().map(|(known, _)| known.name).collect();
                    format!("projectors build read models of this version for the first time: {}", names.join(", "))
                }
                Err(failure) => {
                    since = Instant::now();
                    explain(&failure)
                }
            };
            self.health.report(NODE, State::Starting(reason));
            sleep(LOOK_AGAIN).await;
        }
        let names: Vec<&str> = before.iter().map(|(name, _)| *name).collect();
        tracing::error!(
            names = names.join(", "),
            "read models that were never complete make no progress; this node starts without them"
        );
    }

    /// Reports that the node serves requests or works.
    pub(crate) fn serves(&self) {
        self.health.report(NODE, State::Ok);
    }
}

fn version() -> Version {
    let commit = Some(env!("PLATFORM_COMMIT")).filter(|commit| !commit.is_empty());
    Version {
        name: "platform",
        version: env!("CARGO_PKG_VERSION"),
        commit,
        rust: env!("PLATFORM_RUST"),
        events: events(),
    }
}

/// Returns the revisions of events that this build reads.
fn events() -> Map<String, Value> {
    let tables = PROJECTIONS.iter().flat_map(|projection| match &projection.kind {
        Kind::Rows(tables) => tables.iter().collect(),
        Kind::Index(table) => vec![table],
        Kind::History => vec![],
    });
    tables.map(|table| (table.aggregate_type.to_owned(), table.revision.into())).collect()
}
