//! No SQL and no request enters here: this is the search index of a resource in tantivy, made of its COLUMNS (schema,
//! documents, filters, pages), and how its files get to all nodes.
//!
//! It answers with exactly the semantics of comparing strings, with exact totals, and a page costs the same at any
//! offset. A document holds what the API answers, so a search needs no second store.

mod bounds;
mod directory;
mod failure;
mod filter;
mod folder;
mod follow;
pub mod grams;
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
mod search;
mod select;
mod sieve;
mod writer;

pub use bounds::{Bounds, Stopped};
pub use failure::IndexFailure;
pub use filter::{Filter, Method};
pub use folder::Folder;
pub use follow::{Follower, Indexes, Newest, Shown, show};
pub use layout::{Layout, name};
pub use manifest::{File, Manifest, Omitted, Pack};
pub use moved::Moved;
pub use page::{Page, SortKey};
pub use publish::Publisher;
pub use remote::{Publication, Remote, Told};
pub use replica::Replica;
pub use search::{Hits, Search, Snapshot};
pub use writer::{Refused, Writer};
