//! Actions: the targets that an execution calls, and the calls.
//!
//! [`executions`] is the index of all executions in memory, updated from the log; it finds the one that fires.
//! [`client`] calls one target, [`chain`] the targets of an execution one after another. The users of this crate decide
//! when and with what targets are called: the edge for requests and responses, the token endpoint for functions, the
//! delivery of the command node for events.

pub mod chain;
pub mod client;
pub mod executions;
pub mod signature;

use std::sync::Arc;

use client::Client;
use executions::ExecutionIndex;

/// The deepest nesting of calls of targets that call the platform again.
pub const MOST_DEPTH: u32 = 3;

/// The header with the nesting depth. A target that calls the platform passes it on.
pub const DEPTH: &str = "platform-execution-depth";

/// What a node needs to run executions.
#[derive(Clone)]
pub struct Actions {
    /// Finds the execution that fires.
    pub executions: ExecutionIndex,
    /// Calls targets.
    pub client: Arc<Client>,
}
