//! No database, no read model and no payload's meaning enters here: this is the log in JetStream, which is the only truth,
//! and what works beside it on NATS.
//!
//! [`log`] appends and follows [`record`]s; [`lease`] decides who should work, in the loop of [`mod@unit`]; [`once`] knows what has
//! happened, [`tries`] how often something was tried; [`flow`] has what is under way; [`blocks`] have what can be destroyed, [`assets`] what is too long; [`streams`] and [`durability`] refuse a NATS that would lose something.

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
