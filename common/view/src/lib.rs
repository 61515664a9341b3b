//! Nothing that only this crate knows enters here: all of it is derived from the log and kept in Postgres, and can be
//! deleted and built again.
//!
//! [`projection`] lists what is kept, in which [`table`]s; [`checkpoint`] says how far each is, and [`progress`] tells the other
//! nodes; [`reaction`] tells how far reactions are; [`generation`] builds one anew beside the one that answers; [`failed_event`] is what a projection could not process. [`read_model`] writes and reads [`rows`], which the API answers; [`history`] is what the writer reads, and
//! [`directory`], [`ended`], [`settings`] and [`keyring`] are what admits requests; [`persons`] opens what is personal.

pub mod attempts;
pub mod checkpoint;
pub mod database;
pub mod directory;
pub mod ended;
pub mod failed_event;
mod failure;
pub mod generation;
pub(crate) mod hearing;
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
pub mod settings;
pub mod table;
