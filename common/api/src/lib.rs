//! No request, transport or store of its own enters here: these are the words of the API for what the core and the read
//! models know, in both directions.

pub mod condition;
pub mod details;
pub mod domain;
pub mod execution;
pub mod feature_settings;
pub mod filter;
pub mod idp;
pub mod instance;
pub mod language_settings;
pub mod membership;
pub mod organization;
pub mod reusable;
pub mod settings;
pub mod standard;
pub mod target;
pub mod user;
