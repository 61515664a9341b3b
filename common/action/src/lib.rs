//! Actions: which targets an execution calls, and the calls.
//!
//! [`executions`] is the index of all executions in memory, updated from the log; it answers which one fires. [`client`]
//! calls one target, [`chain`] the targets of an execution one after another. Who is called with what is decided by those that
//! stand on this: the edge for requests and responses, the token endpoint for functions, the delivery of the command node
//! for events.

pub mod chain;
pub mod client;
pub mod executions;
pub mod signature;

use std::sync::Arc;

use client::Client;
use executions::ExecutionIndex;

/// How deep calls of targets may be nested that call the platform again.
pub const MOST_DEPTH: u32 = 3;

/// The header with their depth. A target that calls the platform hands it on.
pub const DEPTH: &str = "platform-execution-depth";

/// What a node needs to run executions.
#[derive(Clone)]
pub struct Actions {
    /// Which execution fires.
    pub executions: ExecutionIndex,
    /// Calls targets.
    pub client: Arc<Client>,
}
