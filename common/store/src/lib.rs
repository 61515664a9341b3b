//! The adapters: what the platform keeps, and where.
//!
//! The log in JetStream is the only truth ([`log`], [`record`]). Everything in Postgres ([`table`], [`history`],
//! [`checkpoint`]) is derived from it and can be deleted. Clock, randomness and keys are here too ([`clock`],
//! [`secret`], [`keyring`]), so that nothing else reads or draws them.

pub mod checkpoint;
pub mod clock;
pub mod database;
pub mod directory;
pub mod durability;
pub mod ended;
pub mod explain;
pub mod fault;
pub mod fold;
pub mod health;
pub mod history;
pub mod id;
pub mod index;
pub mod keyring;
pub mod lease;
pub mod log;
pub mod metric;
pub mod nats;
pub mod progress;
pub mod projection;
pub mod record;
pub mod rows;
pub mod secret;
pub mod signing;
pub mod streams;
pub mod table;
pub mod trace;
