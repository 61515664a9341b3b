//! The command line of the tools for generations of projections.

use clap::{Args, Subcommand};

use super::tools::At;

#[derive(Debug, Subcommand)]
pub(crate) enum Projections {
    /// Print the projections, one a line, with their progress and other generations
    List(Box<ListProjections>),
    /// Print one of them as JSON
    Status(Box<OneProjection>),
    /// Rebuild one from the log, beside the active generation
    Replay(Box<ReplayProjection>),
    /// Compare a generation with the active one, and wait for the result; exits with 1 if they differ
    Verify(Box<GenerationOf>),
    /// Switch to the generation that was built; the previous one is kept, to go back to
    Switch(Box<Exchange>),
    /// Go back to the previous generation
    Rollback(Box<Exchange>),
    /// Drop the generation that was built, or the previous one
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
    /// Wait until it is built and compared, and print the progress meanwhile
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenerationOf {
    #[command(flatten)]
    pub(crate) of: OneProjection,
    /// The previous one, instead of the one that is built
    #[arg(long)]
    pub(crate) previous: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Exchange {
    #[command(flatten)]
    pub(crate) of: OneProjection,
    /// Even if it failed on events that the active one processed
    #[arg(long)]
    pub(crate) force: bool,
}
