//! The surface of the platform, as the proto files in this folder describe it: messages with their binary and JSON
//! forms, their validation, and one [`Operation`](operation::Operation) per rpc.
//!
//! `build/` generates everything except for the well-known types and the helpers of validation.

pub mod operation;
pub mod option;
pub mod shape;
pub mod validate;
pub mod wellknown;

pub use validate::{Contextual, KEY, MOST_VIOLATIONS, Rule, Validate, Violation};

#[expect(clippy::all, clippy::pedantic, clippy::allow_attributes, missing_docs, unreachable_pub, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}

include!(concat!(env!("OUT_DIR"), "/names.rs"));

/// The encoded descriptors of all proto files, their imports, options and comments included.
pub static DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

mod sources {
    include!(concat!(env!("OUT_DIR"), "/sources.rs"));
}

/// The text of the proto files that clients need, by the paths that imports use.
pub static SOURCES: &[(&str, &str)] = sources::SOURCES;

#[cfg(test)]
mod tests;
