//! The functional core: what each resource is, which commands it accepts and what each event means.
//!
//! Nothing here performs input or output, reads a clock or draws a random number. Start with
//! [`aggregate`], the contract with the shell; then [`standard`], [`reusable`] and [`settings`], the shapes; then
//! [`resource::target`], a standard resource from top to bottom.

pub mod address;
pub mod aggregate;
pub mod catalog;
pub mod claim;
pub mod client_secret;
pub mod column;
pub mod context;
pub mod disclosure;
pub mod event;
pub mod failed_event;
pub mod links;
pub mod log_class;
pub mod media;
pub mod newcomer;
pub mod object_limits;
pub mod permission;
pub mod person;
pub mod projection;
mod properties;
pub mod redirect_uri;
pub mod reference;
pub mod refresh_family;
pub mod rejection;
pub mod resource;
pub mod reusable;
pub mod rights;
pub mod role;
pub mod secret;
pub mod setting;
pub mod settings;
pub mod standard;
pub mod token_revocation;
pub mod user_agent;
pub mod with_unknown;

#[cfg(test)]
mod testing;
