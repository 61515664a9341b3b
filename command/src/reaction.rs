//! Reactions: work that follows from events or from the clock, done by the node that holds its lease, or by the one
//! that writes.

pub mod assets;
mod backlog;
mod checkpoint;
pub mod delivery;
pub mod erasure;
pub mod purge;
pub mod rotation;
pub mod session_end;
mod steps;
pub mod sweep;

pub use steps::Steps;
