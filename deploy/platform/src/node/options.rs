//! The options of a node.

use std::{net::SocketAddr, time::Duration};

use base::health::Health;
use command::reaction::delivery::Patience;
use domain::{address::Allowed, object_limits::ObjectLimits};
use edge::caller::SystemUsers;
use query::SearchBounds;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::cli;

/// The name of a node, and the servers that it connects to.
pub(crate) struct NodeOptions {
    pub(crate) nats: cli::Nats,
    pub(crate) nats_url: String,
    pub(crate) postgres_url: String,
    /// The role of the node.
    pub(crate) role: &'static str,
    pub(crate) name: String,
    /// The number in the ids that it generates, where it may do so at the same time as other nodes.
    pub(crate) number: Option<u16>,
    pub(crate) health: Health,
    /// Cancelled when the node has to end.
    pub(crate) stopping: CancellationToken,
    /// Whether it may write the log, and so has to check that the log is safe.
    pub(crate) writes: bool,
    /// Whether no other process of this name can run.
    pub(crate) is_alone: bool,
    /// Whether the personal data of people whose keys are lost counts as erased.
    pub(crate) accepts_lost_keys: bool,
}

/// The options of a node that serves: its external address, and its limits.
pub(crate) struct ServingOptions {
    pub(crate) external: Url,
    pub(crate) number: u16,
    pub(crate) tail_limit: usize,
    /// How many objects of a kind an instance or organization may have.
    pub(crate) object_limits: ObjectLimits,
    /// The addresses that targets may have in addition to the public internet.
    pub(crate) targets: Allowed,
    /// The DNS server that domains are verified with, where it is not the machine's.
    pub(crate) dns_server: Option<SocketAddr>,
    /// How failed deliveries of events are retried and stored.
    pub(crate) patience: Patience,
    /// The users that sign their own tokens.
    pub(crate) system_users: SystemUsers,
    /// How long tokens are accepted while neither NATS nor Postgres can tell which have ended.
    pub(crate) silence: Duration,
    /// How many answers of each kind the directory remembers.
    pub(crate) directory_size: u32,
    /// The bounds of a search.
    pub(crate) searches: SearchBounds,
}
