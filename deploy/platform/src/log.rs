//! Tools for the log: they read it as every node does, and neither create nor change anything.

mod chain;
pub(crate) mod tail;
pub(crate) mod verify;

use eventlog::log::Log;

use crate::{Failure, cli, node::SHARD, running_servers};

/// Opens the log that is meant.
async fn open(servers: &cli::Servers) -> Result<Log, Failure> {
    let nats = running_servers::nats(servers)?;
    let client = running_servers::connect(&nats, "platform log").await?;
    Ok(Log::find(client, SHARD).await?)
}
