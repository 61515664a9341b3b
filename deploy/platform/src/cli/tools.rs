//! The command line of the operators' tools: those that inspect a platform, and those that change a running one.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use url::Url;

use super::{DataDirectory, MaybePostgres, Nats, address::external_url, time::time};
use crate::{Failure, bootstrap, data_dir::DataDir};

/// Where what is looked at runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Servers {
    /// The data directory of a running standalone platform, whose own servers are used if no address is given
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
    /// The file with the master key, whose form and mode are checked
    #[arg(long, env = "PLATFORM_MASTER_KEY_FILE", value_name = "FILE")]
    pub(crate) master_key_file: Option<PathBuf>,
    /// The folder of the search indexes, whose free space is checked
    #[arg(long, env = "PLATFORM_INDEX_DIR", value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
    /// Print one JSON object: whether all is well, and the checks
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) servers: Servers,
    #[command(flatten)]
    pub(crate) postgres: MaybePostgres,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListExecutions {
    #[command(flatten)]
    pub(crate) at: At,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Execution {
    /// Print the executions of an instance, one a line: the id, and the targets that it calls
    List(Box<ListExecutions>),
    /// Remove an execution, also one that locks everybody out of the API
    Delete(Box<DeleteExecution>),
}

#[derive(Debug, Args)]
pub(crate) struct DeleteExecution {
    /// The id of the execution
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) at: At,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Target {
    /// Print the last attempts to deliver events to a target, 20 at most, the latest first
    Deliveries(Box<TargetDeliveries>),
}

#[derive(Debug, Args)]
pub(crate) struct TargetDeliveries {
    /// The id of the target
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bootstrap {
    /// Give the service user of the first start a new secret and write bootstrap.json with it; the old secret stops
    /// working. If the first person still has the one-time password of the first login, it is replaced too
    Renew(Box<RenewBootstrap>),
}

#[derive(Debug, Args)]
pub(crate) struct RenewBootstrap {
    #[command(flatten)]
    pub(crate) at: At,
    /// Only replace the password of the first person, or of the person with this login name, by a one-time password,
    /// and write it to first-login
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub(crate) first_person: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Listed {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Print one JSON object a line, with the payload; deliveries that wait too
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Log {
    /// Print events of the log, one a line, oldest first
    Tail(Box<Tail>),
    /// Read the log and check that nothing is missing, changed or out of order; exits with 1 at the first fault
    Verify(Box<Verify>),
}

/// Which of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhichLog {
    /// The log that is stored for ever
    Events,
    /// The log of sessions and revocations, which age out
    Sessions,
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
    /// Which log
    #[arg(long, value_enum, default_value_t = WhichLog::Events)]
    pub(crate) log: WhichLog,
    /// Print the payloads too: secrets in them are hashed or encrypted, names and the like are not
    #[arg(long)]
    pub(crate) payload: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// Which log
    #[arg(long, value_enum, default_value_t = WhichLog::Events)]
    pub(crate) log: WhichLog,
    /// Check from the record with this event on, and trust what is before it
    #[arg(long, value_name = "SEQUENCE", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) from: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MasterKey {
    /// Replace the master key while nodes run
    Rotate(Box<RotateMasterKey>),
}

#[derive(Debug, Args)]
pub(crate) struct RotateMasterKey {
    #[command(flatten)]
    pub(crate) at: At,
    /// The file that the nodes read; master.key in the data directory if not given
    #[arg(long, env = "PLATFORM_MASTER_KEY_FILE", value_name = "FILE")]
    pub(crate) master_key_file: Option<PathBuf>,
    /// Only put a new key before the old one in the file, so that it can be given to all nodes first
    #[arg(long)]
    pub(crate) prepare: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Events {
    /// Print the newest events, the newest last
    List(Box<ListEvents>),
    /// Print all events as JSON, one a line, the oldest first, and print where to go on
    Export(Box<ExportEvents>),
}

#[derive(Debug, Args)]
pub(crate) struct ListEvents {
    #[command(flatten)]
    pub(crate) wanted: WantedEvents,
    /// How many events to print at most
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) limit: u64,
    /// Print one JSON object a line, with the payload
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportEvents {
    #[command(flatten)]
    pub(crate) wanted: WantedEvents,
    /// Print only what comes after the event with this sequence
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    pub(crate) after: u64,
}

/// Which events are printed; all conditions hold.
#[derive(Debug, Args)]
pub(crate) struct WantedEvents {
    #[command(flatten)]
    pub(crate) at: At,
    /// Events of this instance
    #[arg(long, value_name = "ID")]
    pub(crate) instance: Option<String>,
    /// Events of this type, such as user.added
    #[arg(long, value_name = "TYPE")]
    pub(crate) r#type: Option<String>,
    /// Events of objects of this kind, such as user
    #[arg(long, value_name = "KIND")]
    pub(crate) aggregate_type: Option<String>,
    /// Events of the object with this id
    #[arg(long, value_name = "ID")]
    pub(crate) aggregate: Option<String>,
    /// Events that this user caused
    #[arg(long, value_name = "ID")]
    pub(crate) actor: Option<String>,
    /// Events from this time on: 2026-11-21T10:42:13Z, or how long ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) since: Option<Timestamp>,
    /// Events before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) until: Option<Timestamp>,
}

/// The instance that an operator asks, and where.
#[derive(Debug, Args)]
pub(crate) struct At {
    #[command(flatten)]
    pub(crate) of: OfInstance,
    /// The address of a node that can do it, if it is not the issuer's
    #[arg(long, env = "PLATFORM_URL", value_name = "URL", value_parser = external_url)]
    pub(crate) url: Option<Url>,
}

/// The data directory of an operator, and the instance that is asked.
#[derive(Debug, Args)]
pub(crate) struct OfInstance {
    #[command(flatten)]
    pub(crate) data: DataDirectory,
    /// The issuer of the instance, where it is not the one of bootstrap.json: its primary domain was changed, or the file
    /// is lost
    #[arg(long, value_name = "URL", value_parser = external_url)]
    issuer: Option<Url>,
}

impl OfInstance {
    /// Returns the issuer.
    pub(crate) fn issuer(&self) -> Result<String, Failure> {
        match (&self.issuer, bootstrap::Bootstrap::issuer_of(&self.data.data_dir)) {
            (Some(issuer), _) => Ok(issuer.origin().ascii_serialization()),
            (None, Ok(issuer)) => Ok(issuer),
            (None, Err(error)) => {
                DataDir::require(&self.data.data_dir)?;
                Err(format!("{error}; name the issuer with --issuer").into())
            }
        }
    }
}
