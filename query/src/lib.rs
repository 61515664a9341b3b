//! The query node: reads from the read models, as fresh as the caller asks for. It never writes.

pub mod api;
mod get;

use store::{database::Database, progress::Progress};
use transport::consistency::Tokens;

/// What the queries of a node need.
#[derive(Clone)]
pub struct Queries {
    /// Where the read models are.
    pub database: Database,
    /// How far they are.
    pub progress: Progress,
    /// Consistency tokens.
    pub tokens: Tokens,
}
