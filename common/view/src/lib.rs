//! The read models in Postgres. Everything in them is derived from the log, and can be deleted and built again.
//!
//! [`projection`] lists what is stored, in which [`table`]s; [`checkpoint`] is how far each projection is, which
//! [`progress`] announces to the other nodes; [`reaction`] announces how far reactions are; [`generation`] builds a
//! projection anew beside the one that answers; [`scrub`] compares rows and events with the log, and repairs them;
//! [`failed_event`] is what a projection could not process. [`read_model`] writes and reads the [`rows`] that the API
//! returns; the writer reads [`history`]; [`directory`], [`ended`], [`settings`] and [`keyring`] admit requests;
//! [`persons`] opens personal data.

pub mod attempts;
pub mod checkpoint;
pub(crate) mod completeness;
pub mod database;
pub mod directory;
pub mod ended;
pub mod failed_event;
mod failure;
pub mod generation;
pub mod heartbeat;
pub mod history;
pub mod keyring;
pub mod persons;
pub mod progress;
pub mod projection;
pub mod reaction;
pub mod read_model;
pub mod revoked;
pub mod rows;
pub mod schema;
pub mod scrub;
pub mod settings;
pub mod table;
