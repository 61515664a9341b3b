//! The search index of a resource in tantivy, made of its FIELDS: schema, documents, filters, pages.
//!
//! It answers with exactly the semantics of comparing strings, with exact totals, and a page costs the same at any
//! offset. A document holds what the API answers, so a search needs no second store.

mod filter;
pub mod grams;
mod layout;
mod page;
mod search;
mod select;
mod writer;

pub use filter::{Filter, Method};
pub use layout::Layout;
pub use page::{Key, Page};
pub use search::{Hits, Search, Snapshot};
pub use writer::Writer;

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
}
