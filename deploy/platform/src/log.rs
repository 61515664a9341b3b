//! Tools for the log. They read it as every node does, and create or change nothing.

mod chain;
pub(crate) mod tail;
pub(crate) mod verify;

use domain::log_class::LogClass;
use eventlog::log::Log;

use crate::{Failure, cli, node::SHARD, running_servers};

/// Opens the selected log.
async fn open(servers: &cli::Servers, which: cli::WhichLog) -> Result<Log, Failure> {
    let nats = running_servers::nats(servers)?;
    let client = running_servers::connect(&nats, "platform log").await?;
    let class = match which {
        cli::WhichLog::Events => LogClass::Events,
        cli::WhichLog::Sessions => LogClass::Sessions,
    };
    Ok(Log::find(client, class, SHARD).await?)
}
