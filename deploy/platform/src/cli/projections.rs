//! The command line of the tools for generations of projections.

use clap::{Args, Subcommand};

use super::tools::At;

#[derive(Debug, Subcommand)]
pub(crate) enum Projections {
    /// Print the projections, one a line, how far each is, and the generations beside it
    List(Box<ListProjections>),
    /// Print one of them as JSON
    Status(Box<OneProjection>),
    /// Build one anew from the log, beside the generation that answers
    Replay(Box<ReplayProjection>),
    /// Compare a generation with the one that answers, and wait for the result; ends with 1 when they differ
    Verify(Box<GenerationOf>),
    /// Let the generation that was built answer; the one that answered is kept, to go back to
    Switch(Box<Exchange>),
    /// Let the generation answer that answered before
    Rollback(Box<Exchange>),
    /// Drop the generation that was built, or the one that answered before
    Drop(Box<GenerationOf>),
}

#[derive(Debug, Args)]
pub(crate) struct ListProjections {
    #[command(flatten)]
    pub(crate) at: At,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OneProjection {
    /// The name of the projection, for example targets
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) at: At,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayProjection {
    #[command(flatten)]
    pub(crate) of: OneProjection,
    /// Wait until it is built and compared, and print how far it is meanwhile
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenerationOf {
    #[command(flatten)]
    pub(crate) of: OneProjection,
    /// The one that answered before, instead of the one that is built
    #[arg(long)]
    pub(crate) previous: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Exchange {
    #[command(flatten)]
    pub(crate) of: OneProjection,
    /// Although it could not process events that the one that answers could
    #[arg(long)]
    pub(crate) force: bool,
}
