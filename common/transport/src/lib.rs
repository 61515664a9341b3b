//! The edges of a node: one async function per operation, served over gRPC, gRPC-web and HTTP with JSON.
//!
//! Life of a request: [`server`] accepts it, [`mount`] gives it its id and has it admitted (instance, caller, feature
//! flag, permission: [`edge`]), reads it ([`json`] or protobuf), validates it, calls the handler, and writes the answer
//! or the [`error`].

mod admission;
pub mod caller;
pub mod condition;
pub mod consistency;
mod context;
pub mod cors;
pub mod details;
pub mod edge;
pub mod error;
pub mod handler;
pub mod health;
pub mod json;
pub mod limit;
pub mod management;
pub mod mount;
pub mod observe;
pub mod openapi;
pub mod page;
pub mod precondition;
pub mod prefer;
pub mod reflection;
mod rejection;
pub mod server;
pub mod tls;
pub mod trigger;
