//! The foundation of every part of a process. Nothing that belongs to one store, one protocol or one resource enters
//! here.
//!
//! Time, ids and randomness come from here alone ([`clock`], [`id`], [`secret`]); what a process reports about itself
//! goes through here ([`metric`], [`health`], [`trace`], [`explain`], [`speed`]); [`fair`] shares resources among
//! tenants; [`mod@panic`] keeps a panic from ending more than it must; [`fault`] ends the process where a test asks for
//! it.

pub mod clock;
pub mod explain;
pub mod fair;
pub mod fault;
pub mod fold;
pub mod health;
pub mod id;
pub mod key_pair;
pub mod metric;
pub mod panic;
pub mod password;
pub mod private_file;
pub mod secret;
pub mod signing;
pub mod speed;
pub mod trace;
