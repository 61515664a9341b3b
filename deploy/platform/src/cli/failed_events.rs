//! The command line of what operators do about failed events.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use super::{time::time, tools::At};

#[derive(Debug, Subcommand)]
pub(crate) enum FailedEvents {
    /// Print the events that views could not process, one a line, the last failure first
    List(Box<ListFailedEvents>),
    /// Print one of them, with the event itself and how many wait behind it
    Show(Box<ShowFailedEvent>),
    /// Have views try again one of them, or all that are found
    Retry(Box<RetryFailedEvents>),
    /// Write all that are found as JSON, one a line, those first that failed longest ago
    Export(Box<ExportFailedEvents>),
    /// Print what fails from now on, one a line, until Ctrl-C
    Watch(Box<WatchFailedEvents>),
    /// Have a view leave one out, for good; what waits behind it goes on
    Discard(Box<DiscardFailedEvent>),
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
    /// Whose error has this part, whatever the case of its ASCII letters
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// That failed last from this time on: 2026-11-21T10:42:13Z, or how long ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) since: Option<Timestamp>,
    /// That failed last before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) until: Option<Timestamp>,
    /// That this became of; those that were left out are found only by that
    #[arg(long)]
    pub(crate) state: Option<FailedEventState>,
}

/// What became of them.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FailedEventState {
    /// They wait
    Failed,
    /// Somebody has had them tried again, and their view has not met that yet
    Retrying,
    /// They are left out
    Discarded,
}

impl FailedEventState {
    /// As the API calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Failed => "FAILED_EVENT_STATE_FAILED",
            Self::Retrying => "FAILED_EVENT_STATE_RETRYING",
            Self::Discarded => "FAILED_EVENT_STATE_DISCARDED",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExportFailedEvents {
    #[command(flatten)]
    pub(crate) which: WhichFailedEvents,
    #[command(flatten)]
    pub(crate) at: At,
    /// Write to this file, in the place of what it has, instead of printing
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct WatchFailedEvents {
    #[command(flatten)]
    pub(crate) which: WhichFailedEvents,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
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
pub(crate) struct ShowFailedEvent {
    /// The id of the failed event
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("meant").args(["id", "all", "view", "instance", "aggregate_type", "aggregate", "error", "since", "until", "state"]).required(true).multiple(true))]
pub(crate) struct RetryFailedEvents {
    /// The id of the failed event
    #[arg(conflicts_with_all = ["all", "view", "instance", "aggregate_type", "aggregate", "error", "since", "until", "state"])]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) which: WhichFailedEvents,
    /// All that there are
    #[arg(long, conflicts_with_all = ["view", "instance", "aggregate_type", "aggregate", "error", "since", "until", "state"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiscardFailedEvent {
    /// The id of the failed event
    pub(crate) id: String,
    /// Why the view may leave it out; it is in the log for good
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
