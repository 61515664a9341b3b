//! Failures of a search index.

use std::path::PathBuf;

use tantivy::TantivyError;

use crate::bounds::SearchInterrupted;

/// The error for an operation of the index that failed.
#[derive(Debug, thiserror::Error)]
pub enum IndexFailure {
    /// tantivy failed.
    #[error("the search index failed")]
    Tantivy(#[from] tantivy::TantivyError),
    /// Its folder cannot be used.
    #[error("the folder of the search index cannot be used")]
    Folder(#[from] std::io::Error),
    /// The resource has no such column, or none that is indexed for this purpose.
    #[error("the search index has no column {0} for this")]
    NoColumn(&'static str),
    /// The projection is stored elsewhere.
    #[error("{0} is no search index")]
    NoIndex(&'static str),
    /// A document does not have the expected form.
    #[error("a document of the search index cannot be read")]
    Inconsistent,
    /// A search exceeded its bounds.
    #[error(transparent)]
    Stopped(#[from] SearchInterrupted),
    /// Another process uses the folder.
    #[error("the folder {} is used by another process: choose another one", .0.display())]
    InUse(PathBuf),
    /// NATS did not answer, or answered with an error.
    #[error("NATS: {0}")]
    Nats(String),
    /// Published files are gone, or differ from what was published.
    #[error("the files {0} of the search index are not there any more")]
    Missing(String),
    /// Published files did not arrive completely this time.
    #[error("the files {0} of the search index did not come in full")]
    Incomplete(String),
    /// The published manifest is of another version of the platform.
    #[error("the manifest of the search index is of another version of the platform")]
    Unreadable,
    /// Another generation was published in the place of this one.
    #[error("another generation of the search index answers now")]
    Exchanged,
    /// Another process publishes the index.
    #[error("another process writes the search index now")]
    Fenced,
    /// The index was written by another version of the platform.
    #[error("the search index has another layout than this version knows")]
    OtherLayout,
    /// The index is at a record that the log does not have.
    #[error("the search index belongs to another log")]
    OtherLog,
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] eventlog::log::LogFailure),
    /// Not even an index without documents can be written in memory.
    #[error("no index can be written in memory to find out which document ends the search index")]
    NoRehearsal,
    /// A task panicked; where and why is in the log.
    #[error("a task of the search index ended early")]
    Task(#[from] tokio::task::JoinError),
}

impl IndexFailure {
    /// Whether a document may be the cause: the writing threads end without reporting which document they were at.
    pub fn may_be_of_document(&self) -> bool {
        matches!(self, Self::Tantivy(TantivyError::ErrorInThread(_)))
    }

    /// Whether the files are useless for good: the index must be built again from the log.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Missing(_) | Self::OtherLayout | Self::OtherLog | Self::Inconsistent => true,
            Self::Tantivy(error) => matches!(
                error,
                TantivyError::DataCorruption(_) | TantivyError::SchemaError(_) | TantivyError::IncompatibleIndex(_)
            ),
            _ => false,
        }
    }
}
