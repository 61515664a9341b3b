//! The command line of the tools that look at a platform and change nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DataDirectory, MaybePostgres, Nats};
use url::Url;

/// Where what is looked at runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Servers {
    /// The data directory of a running standalone platform, whose own servers are meant where no address is given
    #[arg(long, env = "PLATFORM_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) nats: Nats,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) servers: Servers,
    #[command(flatten)]
    pub(crate) postgres: MaybePostgres,
    /// The file with the master key, whose form and mode are looked at
    #[arg(long, env = "PLATFORM_MASTER_KEY_FILE", value_name = "FILE")]
    pub(crate) master_key_file: Option<PathBuf>,
    /// The folder of the search indexes, whose free space is looked at
    #[arg(long, env = "PLATFORM_INDEX_DIR", value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
    /// Print one JSON object: whether all is well, and the checks
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Execution {
    /// Remove an execution, also one that locks everybody out of the API
    Delete(Box<DeleteExecution>),
}

#[derive(Debug, Args)]
pub(crate) struct DeleteExecution {
    /// The id of the execution
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) data: DataDirectory,
    /// Where a command node is reached, if not under the issuer's address
    #[arg(long, env = "PLATFORM_URL", value_name = "URL")]
    pub(crate) url: Option<Url>,
}

#[derive(Debug, Args)]
pub(crate) struct Listed {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print one JSON object a line, with the payload; those that wait too
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Log {
    /// Print events of the log, one a line, oldest first
    Tail(Box<Tail>),
    /// Read the log and check that nothing is missing, changed or out of order; ends with 1 at the first fault
    Verify(Box<Verify>),
}

#[derive(Debug, Args)]
pub(crate) struct Tail {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// The sequence of the first event to print; the last events if not given
    #[arg(long, value_name = "SEQUENCE", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) from: Option<u64>,
    /// With --from: how many events to print at most, any number if not given. Without: how many of the last ones to
    /// begin with, 10 if not given
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Wait for further events and print them, until Ctrl-C
    #[arg(long)]
    pub(crate) follow: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the payloads too: what is secret in them is hashed or encrypted, names and the like are not
    #[arg(long)]
    pub(crate) payload: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Check from the record with this event on, and take what is before it on trust
    #[arg(long, value_name = "SEQUENCE", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) from: u64,
}
