//! The life of one request, from its head to its answer, the same on gRPC, gRPC-web and HTTP with JSON. No socket, no
//! certificate and no resource enters here.
//!
//! [`mount`] gives a request its id and has it admitted (instance, caller, feature flag, permission: [`admission`]),
//! reads it ([`json`] or protobuf), validates it, calls the handler between the targets of its executions
//! ([`trigger`]), and writes the [`answer`] or the [`error`].

pub mod admission;
pub mod answer;
pub mod call;
pub mod caller;
pub mod consistency;
pub mod described;
pub mod error;
pub mod freshness;
pub mod handler;
pub mod header;
pub mod internal;
pub mod json;
mod message;
pub mod mount;
pub mod observe;
pub mod operate_session;
pub mod page;
pub mod passed;
pub mod precondition;
pub mod prefer;
pub mod refusal;
mod rejection;
pub mod request_id;
pub mod seats;
pub mod secret_token;
pub mod trigger;
