//! Tools for the log: they read it as every node does, and neither create nor change anything.

mod chain;
pub(crate) mod tail;
pub(crate) mod verify;

use eventlog::log::Log;

use crate::{Failure, cli, node::SHARD, reach};

/// Opens the log that is meant.
async fn open(servers: &cli::Servers) -> Result<Log, Failure> {
    let nats = reach::nats(servers)?;
    let client = reach::connect(&nats, "platform log").await?;
    Ok(Log::find(client, SHARD).await?)
}
