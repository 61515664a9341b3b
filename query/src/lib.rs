//! The query node: reads from the read models, as fresh as the caller requires. It never writes.

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

/// The resources that the queries of a node need.
pub struct Queries {
    /// The connections for rows that are requested by id.
    pub reads: Database,
    /// The connections for searches in events and failed events.
    pub audit: Database,
    /// The progress of the read models.
    pub progress: Progress,
    /// What was removed, with everything that belongs to it.
    pub ended: Ended,
    /// The settings and state policies of every context.
    pub settings: SettingsIndex,
    /// The newest snapshots of the search indexes.
    pub indexes: Indexes,
    /// Consistency tokens.
    pub tokens: Tokens,
    /// Seats for searches.
    pub searches: Seats,
    /// Seats for searches in events and failed events.
    pub audits: Seats,
    /// The bounds of a search.
    pub bounds: SearchBounds,
    /// The operations that are built.
    pub operations: Vec<&'static Facts>,
}

/// The bounds of a search.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchBounds {
    /// How many results a page has.
    pub limits: Limits,
    /// How long it may take, once it has a processor.
    pub time: Duration,
    /// How many documents it may look at.
    pub documents: usize,
}
