//! The command line of the tools for failed events.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use super::{time::time, tools::At};

#[derive(Debug, Subcommand)]
pub(crate) enum FailedEvents {
    /// Print the events that views could not process or deliver, one a line, the last failure first
    List(Box<ListFailedEvents>),
    /// Print all that match as JSON, one object a line, the first failure first
    Export(Box<ExportFailedEvents>),
    /// Print events that fail from now on, one a line, until Ctrl-C; if more than 1000 fail within 30 seconds, only the
    /// last of them
    Watch(Box<ListFailedEvents>),
    /// Print one of them, with the event itself and how many events wait for it
    Show(Box<ShowFailedEvent>),
    /// Have views retry one of them, or all that match
    Retry(Box<RetryFailedEvents>),
    /// Discard an event in a view for good; the events that wait for it are processed
    Discard(Box<DiscardFailedEvent>),
}

/// The ids of the flags that select failed events.
const WHICH: [&str; 9] =
    ["view", "instance", "aggregate_type", "aggregate", "target", "error", "since", "before", "state"];

/// What became of a failed event.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FailedEventState {
    /// It waits for a decision
    Failed,
    /// It is being retried
    Retrying,
    /// It was discarded
    Discarded,
}

/// Which are meant; all of it holds.
#[derive(Debug, Args)]
pub(crate) struct WhichFailedEvents {
    /// Of this view
    #[arg(long, value_name = "NAME")]
    pub(crate) view: Option<String>,
    /// In this instance
    #[arg(long, value_name = "ID")]
    pub(crate) instance: Option<String>,
    /// Of aggregates of this type
    #[arg(long, value_name = "NAME")]
    pub(crate) aggregate_type: Option<String>,
    /// Of this aggregate
    #[arg(long, value_name = "ID")]
    pub(crate) aggregate: Option<String>,
    /// Not delivered to this target
    #[arg(long, value_name = "ID")]
    pub(crate) target: Option<String>,
    /// With this in the error, whatever the case of its letters
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Whose last failure was at this time or later: 2026-11-27T10:00:00Z, or how long ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) since: Option<Timestamp>,
    /// Whose last failure was before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) before: Option<Timestamp>,
    /// In this state; discarded events are found only with this
    #[arg(long)]
    pub(crate) state: Option<FailedEventState>,
}

#[derive(Debug, Args)]
pub(crate) struct ListFailedEvents {
    #[command(flatten)]
    pub(crate) which: WhichFailedEvents,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportFailedEvents {
    #[command(flatten)]
    pub(crate) which: WhichFailedEvents,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print one JSON object a line, which is the default
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowFailedEvent {
    /// The id of the failed event
    pub(crate) id: String,
    /// Show personal data in clear; the log records for good that you have seen it. A node named by --url must both
    /// read and write, or be a proxy in front of nodes that do
    #[arg(long, requires = "reason")]
    pub(crate) reveal: bool,
    /// Why you have to see it. It stays in the log for good, and targets may receive it: give a ticket number and
    /// nothing personal
    #[arg(long, value_name = "TEXT", requires = "reveal")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").args(WHICH).multiple(true))]
#[command(group = ArgGroup::new("meant").args(["id", "all"]).args(WHICH).required(true).multiple(true))]
pub(crate) struct RetryFailedEvents {
    /// The id of the failed event
    #[arg(conflicts_with_all = ["all", "which"])]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) which: WhichFailedEvents,
    /// All failed events
    #[arg(long, conflicts_with = "which")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiscardFailedEvent {
    /// The id of the failed event
    pub(crate) id: String,
    /// Why the view may discard it; it stays in the log for good
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
