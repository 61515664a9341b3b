//! The search index of a resource in tantivy, derived from its COLUMNS (schema, documents, filters, pages), and the
//! distribution of its files to all nodes. No SQL and no request enters here.
//!
//! Matching has exactly the semantics of comparing strings, totals are exact, and a page costs the same at any offset.
//! A document contains what the API returns, so a search needs no second store.

mod bounds;
mod comparison;
mod contents;
mod directory;
mod failure;
mod filter;
mod folder;
mod follow;
pub mod generation;
mod grams;
mod layout;
mod manifest;
mod moved;
mod needle;
mod page;
mod publish;
mod query;
mod rehearsal;
mod remote;
mod replica;
pub mod rewrite;
mod search;
mod select;
mod sieve;
mod tag;
mod writer;

pub use bounds::{Bounds, SearchInterrupted};
pub use contents::Contents;
pub use failure::IndexFailure;
pub use filter::{Filter, Method};
pub use folder::Folder;
pub use follow::{Follower, Indexes, SnapshotReceiver, SnapshotSender, Storage, replace_snapshot};
pub use layout::{Layout, generation_name, name};
pub use manifest::{File, Manifest, Omitted, Pack};
pub use moved::IndexProgress;
pub use page::{Page, SortKey};
pub use publish::Publisher;
pub use remote::{Publication, Published, Remote};
pub use replica::Replica;
pub use search::{Hits, Search, Snapshot};
pub use writer::{Refused, Writer};
