//! The management port of a node, and the measuring of what does not tell of itself.

mod measure;

use std::net::SocketAddr;

use base::health::{Health, State};
use domain::address::Networks;
use serde_json::{Map, Value};
use server::{
    connections::{self, Limits, Listening},
    management::{Management, Version},
};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use view::projection::{Kind, PROJECTIONS};

use crate::{Failure, cli};

pub(crate) use measure::Measuring;

/// What the node itself is called among its parts.
const NODE: &str = "node";
/// Whoever asks is a machine of the operator.
const CONNECTIONS: usize = 100;

/// A management port. It is closed when this is dropped, which is at the very end.
pub(crate) struct Managed {
    /// Where the parts of the node tell how they are.
    pub(crate) health: Health,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Cancelled when the node was told to end: from then on it says that it drains.
    pub(crate) stopping: CancellationToken,
    _closing: DropGuard,
}

impl Managed {
    /// Opens the port. The node is not ready before it says so.
    pub(crate) async fn open(
        options: &cli::Observing,
        (role, node): (&'static str, &str),
        shutdown: &CancellationToken,
    ) -> Result<Self, Failure> {
        let listener = TcpListener::bind(options.management_listen).await.map_err(|error| {
            let address = options.management_listen;
            format!("cannot listen on {address}: {error}: choose another address with --management-listen")
        })?;
        let address = listener.local_addr()?;
        let health = Health::default();
        health.report(NODE, State::Starting("it connects to its servers and reads what it needs".to_owned()));
        let management = Management::new((role, node.to_owned()), version(), health.clone(), shutdown.clone());
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
        health.is_told_at(address);
        tracing::info!(%address, "health and metrics are here");
        Ok(Self { health, address, stopping: shutdown.clone(), _closing: closing.drop_guard() })
    }

    /// Reports that the node serves, or works.
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

/// The revisions of events that this build reads.
fn events() -> Map<String, Value> {
    let tables = PROJECTIONS.iter().flat_map(|projection| match &projection.kind {
        Kind::Rows(tables) => tables.iter().collect(),
        Kind::Index(table) => vec![table],
        Kind::History => vec![],
    });
    tables.map(|table| (table.aggregate_type.to_owned(), table.revision.into())).collect()
}
