//! The query node: reads from the read models, as fresh as the caller asks for. It never writes.

pub mod api;
pub mod follow;
mod get;
pub mod operate;
mod reusable;
mod search;
mod settings;
mod standard;

use std::time::Duration;

use edge::{consistency::Tokens, page::Limits, seats::Seats};
use index::Indexes;
use proto::operation::Facts;
use view::{database::Database, ended::Ended, progress::Progress, settings::SettingsIndex};

/// What the queries of a node need.
pub struct Queries {
    /// Where the read models are.
    pub database: Database,
    /// How far they are.
    pub progress: Progress,
    /// What was removed with all that belongs to it.
    pub ended: Ended,
    /// What is set in which context.
    pub settings: SettingsIndex,
    /// The newest snapshots of the search indexes.
    pub indexes: Indexes,
    /// Consistency tokens.
    pub tokens: Tokens,
    /// Seats for searches.
    pub searches: Seats,
    /// What a search may take.
    pub bounds: SearchBounds,
    /// The operations that are built.
    pub operations: Vec<&'static Facts>,
}

/// What a search may take.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchBounds {
    /// How many results an answer has.
    pub limits: Limits,
    /// How long it may take, once it has a processor.
    pub time: Duration,
    /// How many documents it may look at.
    pub documents: usize,
}
