//! What a node is told when it starts.

use std::{net::SocketAddr, time::Duration};

use base::health::Health;
use command::reaction::delivery::Patience;
use domain::address::Allowed;
use edge::caller::SystemUsers;
use query::SearchBounds;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::cli;

/// What a node is called, and the servers that it connects to.
pub(crate) struct NodeOptions {
    pub(crate) nats: cli::Nats,
    pub(crate) nats_url: String,
    pub(crate) postgres_url: String,
    /// What kind of node it is.
    pub(crate) role: &'static str,
    pub(crate) name: String,
    /// The number in the ids that it makes, where it makes any beside other nodes.
    pub(crate) number: Option<u16>,
    pub(crate) health: Health,
    /// Cancelled when the node has to end.
    pub(crate) stopping: CancellationToken,
    /// Whether it may write the log, and so has to know that the log is safe.
    pub(crate) writes: bool,
    /// Whether no other process of this name can run.
    pub(crate) is_alone: bool,
    /// Whether what is personal of those whose keys are lost counts as erased.
    pub(crate) accepts_lost_keys: bool,
}

/// The options of a node that serves: its address outside, and its bounds.
pub(crate) struct ServingOptions {
    pub(crate) external: Url,
    pub(crate) number: u16,
    pub(crate) tail_limit: usize,
    /// Where targets may be called beyond the public internet.
    pub(crate) targets: Allowed,
    /// What shows whose a domain is, where it is not the machine's.
    pub(crate) dns_server: Option<SocketAddr>,
    /// How failed deliveries of events are met.
    pub(crate) patience: Patience,
    /// The users that sign their own tokens.
    pub(crate) system_users: SystemUsers,
    /// How long tokens are accepted when nothing is heard of what has ended.
    pub(crate) silence: Duration,
    /// What a search may take.
    pub(crate) searches: SearchBounds,
}
