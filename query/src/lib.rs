//! The query node: reads from the read models, as fresh as the caller asks for. It never writes.

pub mod api;
mod get;
mod search;

use std::sync::Arc;

use store::{database::Database, index::Snapshot, progress::Progress};
use tokio::sync::watch;
use transport::consistency::Tokens;

/// What the queries of a node need.
#[derive(Clone)]
pub struct Queries {
    /// Where the read models are.
    pub database: Database,
    /// How far they are.
    pub progress: Progress,
    /// The newest snapshot of the targets' search index.
    pub targets: watch::Receiver<Option<Arc<Snapshot>>>,
    /// Consistency tokens.
    pub tokens: Tokens,
}
