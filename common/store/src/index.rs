//! The search index of a resource in tantivy, made of its FIELDS: schema, documents, filters, pages.
//!
//! It answers with exactly the semantics of comparing strings, with exact totals, and a page costs the same at any
//! offset. A document holds what the API answers, so a search needs no second store.

mod directory;
mod filter;
mod folder;
mod follow;
pub mod grams;
mod layout;
mod manifest;
mod page;
mod publish;
mod remote;
mod replica;
mod search;
mod select;
mod writer;

use std::path::PathBuf;

pub use filter::{Filter, Method};
pub use folder::Folder;
pub use follow::{Follower, Indexes, Newest, Shown, show};
pub use layout::Layout;
pub use manifest::{File, Manifest, Pack};
pub use page::{Key, Page};
pub use publish::Publisher;
pub use remote::{Remote, Told};
pub use replica::Replica;
pub use search::{Hits, Search, Snapshot};
pub use writer::Writer;

use crate::projection::Projection;

/// The name of an index of a shard: where it is published, and of its folder.
pub fn name(projection: &Projection, shard: u16) -> String {
    format!("{}.{shard}", projection.schema_name())
}

/// The index did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// tantivy failed.
    #[error("the search index failed")]
    Tantivy(#[from] tantivy::TantivyError),
    /// Its folder cannot be used.
    #[error("the folder of the search index cannot be used")]
    Folder(#[from] std::io::Error),
    /// A document cannot be read as what it must be.
    #[error("a document of the search index cannot be read")]
    Inconsistent,
    /// Another process uses the folder.
    #[error("the folder {} is used by another process: choose another one", .0.display())]
    InUse(PathBuf),
    /// NATS did not answer, or answered with an error.
    #[error("NATS: {0}")]
    Nats(String),
    /// Published files are gone, or are not what was published.
    #[error("the files {0} of the search index are not there any more")]
    Missing(String),
    /// Another process publishes the index now.
    #[error("another process keeps the search index now")]
    Fenced,
    /// It was made by a platform of another version.
    #[error("the search index has another layout than this version knows")]
    OtherLayout,
    /// It stands at a record that the log does not have.
    #[error("the search index belongs to another log")]
    OtherLog,
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] crate::log::Failure),
    /// A task was cancelled.
    #[error("a task of the search index was cancelled")]
    Cancelled(#[from] tokio::task::JoinError),
}

/// Runs what waits for the disk or the processor.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await?
}
