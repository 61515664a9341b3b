//! The command line of what operators do about failed events.

use clap::{ArgGroup, Args, Subcommand};

use super::tools::At;

#[derive(Debug, Subcommand)]
pub(crate) enum FailedEvents {
    /// Print the events that views could not process, one a line, the last failure first
    List(Box<ListFailedEvents>),
    /// Print one of them as JSON, with the event itself and how many wait behind it
    Show(Box<ShowFailedEvent>),
    /// Have views try again one of them, or all that are found
    Retry(Box<RetryFailedEvents>),
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
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("meant").args(["id", "all", "view", "instance", "aggregate_type", "aggregate"]).required(true).multiple(true))]
pub(crate) struct RetryFailedEvents {
    /// The id of the failed event
    #[arg(conflicts_with_all = ["all", "view", "instance", "aggregate_type", "aggregate"])]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) which: WhichFailedEvents,
    /// All that there are
    #[arg(long, conflicts_with_all = ["view", "instance", "aggregate_type", "aggregate"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) at: At,
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
}
