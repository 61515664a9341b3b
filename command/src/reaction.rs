//! Reactions: work that follows from events, done by the node that holds its lease.

pub mod delivery;
mod place;
pub mod sweep;
