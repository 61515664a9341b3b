//! The log in JetStream, which is the only source of truth, and what works beside it on NATS. No database, no read
//! model and no meaning of payloads enters here.
//!
//! [`log`] appends and follows [`record`]s; [`lease`] decides which process should work, in the loop of [`mod@unit`];
//! [`once`] notes what has happened, [`tries`] how often something was tried; [`flow`] stores logins in progress,
//! [`blocks`] what can be destroyed, [`assets`] what is too long; [`streams`] and [`durability`] refuse a NATS that
//! would lose something.

pub mod assets;
pub mod blocks;
mod cas;
pub mod durability;
pub mod flow;
pub mod lease;
pub mod log;
pub mod nats;
pub mod once;
pub mod record;
pub mod streams;
pub mod tries;
pub mod unit;
