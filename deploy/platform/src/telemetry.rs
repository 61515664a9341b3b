//! Telemetry of the process: log lines on standard error, and traces where a collector is configured.

mod export;
mod lines;

use std::io::{self, IsTerminal as _};

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{EnvFilter, Layer, filter::FilterFn, fmt, layer::SubscriberExt as _, registry::LookupSpan};

use self::lines::Lines;
use crate::{Failure, cli};

pub(crate) use export::Exporting;

/// The log filter where `RUST_LOG` is not set. The users of a lost connection log more about it than its pool does.
const DEFAULT: &str = "info,async_nats=warn,deadpool=error";
/// The crates of the platform. Below INFO no other crate is logged, whatever `RUST_LOG` says: libraries log there what
/// they send, including passwords and tokens.
const OWN: [&str; 15] = [
    "platform",
    "proto",
    "domain",
    "base",
    "eventlog",
    "view",
    "index",
    "api",
    "action",
    "edge",
    "server",
    "command",
    "query",
    "projector",
    "oidc",
];

/// Starts logging for a process that is no node.
pub(crate) fn start() {
    set(tracing_subscriber::registry().with(filter()).with(capped()).with(formatter(None)));
}

/// Starts logging and tracing for a node of a role. Traces are exported as long as the returned value lives.
pub(crate) fn start_node(
    role: &'static str,
    name: &str,
    options: &cli::Observing,
) -> Result<Option<Exporting>, Failure> {
    let node = Some((role, name.to_owned()));
    let Some(endpoint) = &options.otlp_endpoint else {
        set(tracing_subscriber::registry().with(filter()).with(capped()).with(formatter(node)));
        return Ok(None);
    };
    // Each has filters of its own: what is traced does not depend on what is logged.
    let told = formatter(node).with_filter(filter()).with_filter(capped());
    let (exporting, layer) = export::start(role, name, endpoint, options.otlp_sample)?;
    let spans = FilterFn::new(|metadata| metadata.is_span() && is_own(metadata) && *metadata.level() <= Level::INFO);
    set(tracing_subscriber::registry().with(told).with(layer.with_filter(spans)));
    Ok(Some(exporting))
}

fn set(subscriber: impl tracing::Subscriber + Send + Sync) {
    // It is set a second time only in tests; the first one stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

fn filter() -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT))
}

fn capped() -> FilterFn {
    FilterFn::new(|metadata| *metadata.level() <= Level::INFO || is_own(metadata))
}

fn is_own(metadata: &Metadata<'_>) -> bool {
    let root = metadata.target().split("::").next().unwrap_or_default();
    OWN.contains(&root)
}

/// Returns the layer for log lines: text on a terminal, else JSON.
fn formatter<S>(node: Option<(&'static str, String)>) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    if !io::stderr().is_terminal() {
        return Lines::new(node).boxed();
    }
    // It would report on standard error that standard error cannot be written, and panic.
    fmt::layer().with_target(false).with_writer(io::stderr).log_internal_errors(false).boxed()
}
