//! Everything around requests. No rule of the platform enters here: it would serve another router as well.
//!
//! [`connections`] accepts connections within bounds, over TLS or not ([`tls`]); [`limit`] and [`cors`] come before
//! routes; [`management`] is a port of its own; [`health`], [`reflection`] and [`openapi`] describe what is served.

pub mod connections;
pub mod cors;
pub mod health;
pub mod limit;
pub mod management;
pub mod openapi;
pub mod protos;
pub mod reflection;
mod stream;
pub mod tls;
