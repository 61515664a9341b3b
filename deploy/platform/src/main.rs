//! The platform: one binary for every role, for all roles in one process, and for the operators' tools.

mod binaries;
mod bootstrap;
mod child;
mod cli;
mod config;
mod data_dir;
mod deliveries;
mod doctor;
mod events;
mod external;
mod failed_events;
mod first_login;
mod log;
mod management;
mod master_key;
mod nats;
mod node;
mod operator;
mod output;
mod postgres;
mod prepare;
mod presence;
mod projections;
mod role;
mod roles;
mod running_servers;
mod servers;
mod serving;
mod setup;
mod sole;
mod standalone;
mod status;
mod stop;
mod system_user;
mod target;
mod telemetry;

use std::process::ExitCode;

use base::explain::explain;
use rustix::process::{Resource, getrlimit};
use tikv_jemallocator::Jemalloc;
use tokio_util::sync::CancellationToken;

use crate::cli::Mode;

/// Requests allocate on one thread and free on another, and every commit of a search index takes megabytes for a
/// moment: jemalloc does both at less cost than the system's allocator.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let cli = match config::parse() {
        Ok(cli) => cli,
        Err(error) => return failed(&*error),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run(cli.mode)),
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error),
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let told = explain(error);
    output::notice(format_args!("platform: {told}"));
    if let Some(refused) = eventlog::nats::refused().filter(|_| !told.contains("NATS refused")) {
        output::notice(refused);
    }
    ExitCode::FAILURE
}

/// An error that ends the process with its message.
type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn run(mode: Mode) -> Result<(), Failure> {
    if !mode.is_node() {
        telemetry::start();
    }
    if mode.is_node() {
        check_files()?;
    }
    let shutdown = on_signal()?;
    match mode {
        Mode::Standalone(options) => standalone::run(options, shutdown).await,
        Mode::Setup(options) => setup::run(options, shutdown).await,
        Mode::Command(options) => role::run(role::Role::Command, options, shutdown).await,
        Mode::Query(options) => role::run(role::Role::Query, options, shutdown).await,
        Mode::Projector(options) => role::project(options, shutdown).await,
        Mode::Oidc(options) => role::run(role::Role::Oidc, options, shutdown).await,
        Mode::Servers(options) => servers::run(&options, shutdown).await,
        Mode::Stop(options) => stop::run(&options.data_dir).await,
        Mode::Log(cli::Log::Tail(options)) => log::tail::run(*options, shutdown).await,
        Mode::Log(cli::Log::Verify(options)) => log::verify::run(*options, shutdown).await,
        Mode::Events(cli::Events::List(options)) => events::list(*options).await,
        Mode::Events(cli::Events::Export(options)) => events::export(*options).await,
        Mode::SystemToken(options) => system_user::print_token(&options),
        Mode::Execution(cli::Execution::Delete(options)) => operator::delete_execution(*options).await,
        Mode::Execution(cli::Execution::List(options)) => operator::list_executions(*options).await,
        Mode::Target(cli::Target::Deliveries(options)) => target::deliveries(*options).await,
        Mode::FailedEvents(cli::FailedEvents::List(options)) => failed_events::list(*options).await,
        Mode::FailedEvents(cli::FailedEvents::Export(options)) => failed_events::export(*options).await,
        Mode::FailedEvents(cli::FailedEvents::Watch(options)) => failed_events::watch(*options, shutdown).await,
        Mode::FailedEvents(cli::FailedEvents::Show(options)) => failed_events::show(*options).await,
        Mode::FailedEvents(cli::FailedEvents::Retry(options)) => failed_events::retry(*options).await,
        Mode::FailedEvents(cli::FailedEvents::Discard(options)) => failed_events::discard(*options).await,
        Mode::Projections(asked) => projections::run(asked).await,
        Mode::Operate(at) => operator::print_link(&at).await,
        Mode::Status(options) => status::run(*options).await,
        Mode::MasterKey(cli::MasterKey::Rotate(options)) => master_key::rotate(*options).await,
        Mode::Bootstrap(cli::Bootstrap::Renew(options)) => operator::renew_bootstrap(*options).await,
        Mode::Deliveries(options) => deliveries::run(*options).await,
        Mode::Doctor(options) => doctor::run(*options, shutdown).await,
        Mode::Schema => {
            output::print(view::schema::sql().trim_end());
            Ok(())
        }
    }
}

/// How many open files a node needs to start at all: connections to servers, and indexes.
const FEWEST_FILES: u64 = 256;

/// Refuses a limit of open files that is so low that a server would seem to be unavailable.
fn check_files() -> Result<(), Failure> {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if most >= FEWEST_FILES {
        return Ok(());
    }
    Err(format!(
        "this process may open {most} files only: allow 8192 or more where it is started (`ulimit -n 8192`, LimitNOFILE= of \
         systemd)"
    )
    .into())
}

/// Returns a token that the first SIGINT or SIGTERM cancels.
fn on_signal() -> Result<CancellationToken, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let shutdown = CancellationToken::new();
    let cancelled = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        cancelled.cancel();
    });
    Ok(shutdown)
}
