//! The command line. Every flag can also be given as an environment variable, shown by `--help`.

mod address;
mod bounds;
mod failed_events;
mod projections;
mod time;
mod tools;

use std::{net::SocketAddr, path::PathBuf};

pub(crate) use bounds::{Deliveries, Rates, Searches, TAIL_LIMIT, Writes};
use clap::{Args, Parser, Subcommand};
use domain::{
    address::{Allowed, Networks},
    setting::features::FLAGS,
};
pub(crate) use failed_events::{
    DiscardFailedEvent, ExportFailedEvents, FailedEventState, FailedEvents, ListFailedEvents, RetryFailedEvents,
    ShowFailedEvent, WhichFailedEvents,
};
pub(crate) use projections::{Exchange, GenerationOf, ListProjections, OneProjection, Projections, ReplayProjection};
pub(crate) use tools::{
    At, Bootstrap, DeleteExecution, Doctor, Events, Execution, ExportEvents, ListEvents, ListExecutions, Listed, Log,
    MasterKey, OfInstance, RenewBootstrap, RotateMasterKey, Servers, Status, Tail, Target, TargetDeliveries, Verify,
    WantedEvents, WhichLog,
};
use url::Url;
use view::{directory, ended::SILENCE};

use self::address::{address, external_url, node_number, server, url};

/// For how many seconds published files stay by default.
const INDEX_GRACE: u64 = 600;
/// How many seconds pass between two checks of the read models by default: a day.
const SCRUB_EVERY: u64 = 24 * 60 * 60;

/// An identity platform on an event log.
#[derive(Debug, Parser)]
#[command(name = "platform", version, about, long_about = None)]
pub(crate) struct Cli {
    /// A file with flags as TOML: `listen = "127.0.0.1:8080"`. Flags and environment variables override it
    #[arg(long, global = true, env = "PLATFORM_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) mode: Mode,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// Run everything in one process, with a NATS server and a Postgres of its own unless they are given
    Standalone(Box<Standalone>),
    /// Prepare a log and a database for nodes in processes of their own, once: master key, first instance and user
    Setup(Box<Setup>),
    /// Run a command node: decides commands and commits them to the log
    Command(Box<Role>),
    /// Run a query node: reads from the read models
    Query(Box<Role>),
    /// Run a projector: follows the log and updates the read models
    Projector(Box<Projector>),
    /// Run an OpenID Connect node: discovery, keys and tokens
    Oidc(Box<Role>),
    /// Run only the NATS server and the Postgres of a data directory, and print where they are
    Servers(RunServers),
    /// Stop what runs on a data directory
    Stop(DataDirectory),
    /// Print the SQL of the read models
    Schema,
    /// Look at the log: print its events, or check that it is intact
    #[command(subcommand)]
    Log(Log),
    /// Show what was done: events of all instances
    #[command(subcommand)]
    Events(Events),
    /// Print an access token of the system user of a data directory, valid for an hour
    SystemToken(OfInstance),
    /// Show executions, or remove one
    #[command(subcommand)]
    Execution(Execution),
    /// Show recent deliveries to targets
    #[command(subcommand)]
    Target(Target),
    /// Show events that views could not process, and retry or discard them
    #[command(subcommand)]
    FailedEvents(FailedEvents),
    /// Show the projections, rebuild one beside the active generation, and switch to it
    #[command(subcommand)]
    Projections(Projections),
    /// Print a link with which the system user of a data directory signs in to the pages of operators, once and within
    /// five minutes
    Operate(At),
    /// Renew the secrets of the first start
    #[command(subcommand)]
    Bootstrap(Bootstrap),
    /// Change the master key
    #[command(subcommand)]
    MasterKey(MasterKey),
    /// Print the deliveries of events that were given up, one a line, and how many wait
    Deliveries(Box<Listed>),
    /// Print the nodes of a platform, the writer, the holders of leases, and the progress of the read models
    Status(Box<Status>),
    /// Check the servers and this machine, and print what to change; exits with 1 if a check fails
    Doctor(Box<Doctor>),
}

impl Mode {
    /// Whether this runs a node, whose traces have its name.
    pub(crate) fn is_node(&self) -> bool {
        matches!(self, Self::Standalone(_) | Self::Command(_) | Self::Query(_) | Self::Projector(_) | Self::Oidc(_))
    }
}

/// Where a standalone platform keeps everything.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataDirectory {
    /// The folder of the platform's data
    #[arg(long, env = "PLATFORM_DATA_DIR", default_value = ".data", value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
}

/// Servers without a platform.
#[derive(Debug, Args)]
pub(crate) struct RunServers {
    #[command(flatten)]
    pub(crate) data: DataDirectory,
    /// Keep running with one server when the other one has died; otherwise both end
    #[arg(long)]
    pub(crate) stay: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Standalone {
    #[command(flatten)]
    pub(crate) data: DataDirectory,
    #[command(flatten)]
    pub(crate) serving: Serving,
    #[command(flatten)]
    pub(crate) nats: Nats,
    #[command(flatten)]
    pub(crate) postgres: MaybePostgres,
    #[command(flatten)]
    pub(crate) read_models: ReadModels,
    #[command(flatten)]
    pub(crate) people: People,
    #[command(flatten)]
    pub(crate) observing: Observing,
    /// What the first start creates beyond the defaults: the first person by another name, further service users, as TOML
    /// (docs/configuration.md)
    #[arg(long, env = "PLATFORM_SETUP", value_name = "FILE")]
    pub(crate) setup: Option<PathBuf>,
}

/// What is set up, and where.
#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// The folder for the master key and bootstrap.json, which shows who may log in
    #[command(flatten)]
    pub(crate) data: DataDirectory,
    #[command(flatten)]
    pub(crate) nats: Nats,
    #[command(flatten)]
    pub(crate) postgres: Postgres,
    /// How clients reach the platform: scheme, host and port of the first instance's issuer
    #[arg(long, env = "PLATFORM_EXTERNAL_URL", value_name = "URL", value_parser = external_url)]
    pub(crate) external_url: Url,
    /// A file with the master key: 32 bytes as 64 hex digits. A new one in the folder if not given
    #[arg(long, env = "PLATFORM_MASTER_KEY_FILE", value_name = "FILE")]
    pub(crate) master_key_file: Option<PathBuf>,
    /// What is created beyond the defaults: further service users, as TOML (docs/configuration.md)
    #[arg(long, env = "PLATFORM_SETUP", value_name = "FILE")]
    pub(crate) setup: Option<PathBuf>,
    /// A file to write with how the first person logs in, who has all rights on the instance; no such person if not
    /// given
    #[arg(long, env = "PLATFORM_FIRST_PERSON_FILE", value_name = "FILE")]
    pub(crate) first_person_file: Option<PathBuf>,
    /// The previews that are switched on in the first instance, separated by commas; none if not given
    #[arg(long, env = "PLATFORM_FEATURES", value_name = "NAME", value_delimiter = ',', value_parser = FLAGS)]
    pub(crate) features: Vec<String>,
}

/// A node that serves.
#[derive(Debug, Args)]
pub(crate) struct Role {
    #[command(flatten)]
    pub(crate) serving: Serving,
    #[command(flatten)]
    pub(crate) worker: Worker,
}

/// A node that keeps the read models.
#[derive(Debug, Args)]
pub(crate) struct Projector {
    #[command(flatten)]
    pub(crate) worker: Worker,
    /// A file with the master key: 32 bytes as 64 hex digits. It decrypts personal data
    #[arg(long, env = "PLATFORM_MASTER_KEY_FILE", value_name = "FILE")]
    pub(crate) master_key_file: Option<PathBuf>,
}

/// A node that works on what others wrote.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    pub(crate) nats: Nats,
    #[command(flatten)]
    pub(crate) postgres: Postgres,
    /// The name of this node in leases. If two running nodes of a role have the same name, the younger one ends. A
    /// random one if not given
    #[arg(long, env = "PLATFORM_NODE_NAME", value_name = "NAME", value_parser = node_name)]
    pub(crate) node_name: Option<String>,
    #[command(flatten)]
    pub(crate) observing: Observing,
    #[command(flatten)]
    pub(crate) read_models: ReadModels,
    /// The folder for the search indexes of a query node or a projector, a cache of the published ones; a temporary
    /// folder if not given
    #[arg(long, env = "PLATFORM_INDEX_DIR", value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) people: People,
}

/// The keys of people.
#[derive(Debug, Clone, Args)]
pub(crate) struct People {
    /// Start without the personal data of people whose keys are lost, as if they had been erased
    #[arg(long, env = "PLATFORM_ACCEPT_LOST_KEYS")]
    pub(crate) accept_lost_keys: bool,
}

/// How a node is watched.
#[derive(Debug, Clone, Args)]
pub(crate) struct Observing {
    /// The address of the management port: health, version, metrics. It requires no authentication
    #[arg(long, env = "PLATFORM_MANAGEMENT_LISTEN", default_value = "127.0.0.1:0", value_name = "ADDRESS", value_parser = address)]
    pub(crate) management_listen: SocketAddr,
    /// An OpenTelemetry collector that takes traces, OTLP over gRPC as http://host:port. No traces if not given
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true, value_name = "URL", value_parser = url)]
    pub(crate) otlp_endpoint: Option<Url>,
    /// The share of requests that are traced, of those whose sender does not decide it
    #[arg(long, env = "OTEL_TRACES_SAMPLER_ARG", default_value_t = 1.0, value_name = "0 TO 1", value_parser = share)]
    pub(crate) otlp_sample: f64,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "it must be a number from 0 to 1".to_owned())
}

/// How read models are kept.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReadModels {
    /// For how many seconds published files of a search index stay after the last manifest that names them: longer than a
    /// query node takes to fetch an index
    #[arg(long, env = "PLATFORM_INDEX_GRACE", default_value_t = INDEX_GRACE, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) index_grace: u64,
    /// How many seconds after a check of the read models in Postgres against the log the next one begins, which repairs
    /// what deviates; 0 for none
    #[arg(long, env = "PLATFORM_SCRUB_EVERY", default_value_t = SCRUB_EVERY, value_name = "SECONDS")]
    pub(crate) scrub_every: u64,
}

impl Default for ReadModels {
    fn default() -> Self {
        Self { index_grace: INDEX_GRACE, scrub_every: SCRUB_EVERY }
    }
}

/// How a node is reached.
#[derive(Debug, Args)]
pub(crate) struct Serving {
    /// The address to listen on
    #[arg(long, env = "PLATFORM_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// How clients reach the platform: scheme, host and port of the issuer. The listen address if not given
    #[arg(long, env = "PLATFORM_EXTERNAL_URL", value_name = "URL", value_parser = external_url)]
    pub(crate) external_url: Option<Url>,
    #[command(flatten)]
    pub(crate) rates: Rates,
    #[command(flatten)]
    pub(crate) searches: Searches,
    /// A file with the TLS certificate and its chain, in PEM; it is read again when it changes
    #[arg(long, env = "PLATFORM_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// A file with the private key of the certificate, in PEM
    #[arg(long, env = "PLATFORM_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The proxies whose X-Forwarded-Host and X-Forwarded-For are trusted: networks and addresses, separated by commas.
    /// They must set both themselves, whatever the client sends
    #[arg(
        long,
        env = "PLATFORM_TRUSTED_PROXIES",
        default_value = "",
        hide_default_value = true,
        value_name = "NETWORK,..."
    )]
    pub(crate) trusted_proxies: Networks,
    /// For how many seconds a node of one role keeps serving after SIGTERM while /readyz reports that it drains: longer
    /// than the load balancer takes to notice
    #[arg(long, env = "PLATFORM_DRAIN_DELAY", default_value_t = 0, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=300))]
    pub(crate) drain_delay: u64,
    /// A file with the master key: 32 bytes as 64 hex digits
    #[arg(long, env = "PLATFORM_MASTER_KEY_FILE", value_name = "FILE")]
    pub(crate) master_key_file: Option<PathBuf>,
    /// The number of this node in generated ids, different for every command node
    #[arg(long, env = "PLATFORM_NODE_NUMBER", default_value_t = 0, value_parser = node_number)]
    pub(crate) node_number: u16,
    /// Where targets may be called beyond the public internet: networks, addresses and host names, separated by commas.
    /// Standalone allows this machine where it listens on a loopback address
    #[arg(
        long,
        env = "PLATFORM_ALLOW_TARGETS",
        default_value = "",
        hide_default_value = true,
        value_name = "NETWORK,HOST,..."
    )]
    pub(crate) allow_targets: Allowed,
    /// The DNS server that proves who owns a domain; those of the machine if not given
    #[arg(long, env = "PLATFORM_DNS_SERVER", value_name = "ADDRESS:PORT", value_parser = server)]
    pub(crate) dns_server: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) deliveries: Deliveries,
    /// A file with system users, who sign tokens themselves: a JSON list of name, public key and roles. Standalone and
    /// `platform setup` make one, system-users.json in the data directory, which standalone uses by itself
    #[arg(long, env = "PLATFORM_SYSTEM_USERS", value_name = "FILE")]
    pub(crate) system_users: Option<PathBuf>,
    /// For how many seconds tokens are accepted while this node cannot learn from NATS or Postgres which have ended
    #[arg(long, env = "PLATFORM_SILENCE_LIMIT", default_value_t = SILENCE.as_secs(), value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(crate) silence_limit: u64,
    /// How many answers of each kind this node remembers: about instances, organizations, users, apps, grants and so on
    #[arg(long, env = "PLATFORM_DIRECTORY_SIZE", default_value_t = directory::SIZE, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub(crate) directory_size: u32,
    #[command(flatten)]
    pub(crate) writes: Writes,
}

/// The form of the address of Postgres in the help.
const POSTGRES_URL: &str = "postgres://USER:PASSWORD@HOST/DATABASE";

/// The Postgres that holds the read models.
#[derive(Debug, Clone, Args)]
pub(crate) struct Postgres {
    /// The address of Postgres
    #[arg(long, env = "PLATFORM_POSTGRES_URL", hide_env_values = true, value_name = POSTGRES_URL)]
    pub(crate) postgres_url: String,
}

/// The same where a data directory may have one of its own.
#[derive(Debug, Clone, Args)]
pub(crate) struct MaybePostgres {
    /// The address of Postgres, where it is not the data directory's own
    #[arg(long, env = "PLATFORM_POSTGRES_URL", hide_env_values = true, value_name = POSTGRES_URL)]
    pub(crate) postgres_url: Option<String>,
}

/// The NATS that holds the log.
#[derive(Debug, Clone, Args)]
pub(crate) struct Nats {
    /// The address of a NATS server with JetStream, as nats://host:port; several of one cluster separated by commas
    #[arg(long, env = "PLATFORM_NATS_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) nats_url: Option<String>,
    /// The token that the NATS server asks for
    #[arg(long, env = "PLATFORM_NATS_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) nats_token: Option<String>,
    /// A NATS credentials file
    #[arg(long, env = "PLATFORM_NATS_CREDENTIALS", value_name = "FILE", conflicts_with = "nats_token")]
    pub(crate) nats_credentials: Option<PathBuf>,
    /// The monitoring address of the NATS server, which shows whether it stores what it acknowledges; those of all
    /// servers that store the log, separated by commas
    #[arg(long, env = "PLATFORM_NATS_MONITOR_URL", value_name = "URL")]
    pub(crate) nats_monitor_url: Option<String>,
    /// The address with credentials of the NATS system account, which shows the same
    #[arg(long, env = "PLATFORM_NATS_SYSTEM_URL", hide_env_values = true, value_name = "URL")]
    pub(crate) nats_system_url: Option<String>,
    /// How many servers of the cluster store the log
    #[arg(long, env = "PLATFORM_NATS_REPLICAS", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) nats_replicas: u8,
    /// Use a NATS server that may lose acknowledged writes when the power fails
    #[arg(long, env = "PLATFORM_UNSAFE_DURABILITY", value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) unsafe_durability: bool,
}

/// Checks a node name, which has to fit into logs and leases.
fn node_name(given: &str) -> Result<String, String> {
    if (1..=100).contains(&given.chars().count()) && !given.contains(char::is_control) {
        return Ok(given.to_owned());
    }
    Err("a name has 1 to 100 characters, none of them a control character".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
