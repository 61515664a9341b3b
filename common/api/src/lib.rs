//! No request, transport or store of its own enters here: these are the words of the API for what the core and the read
//! models know, in both directions.

pub mod app;
pub mod branding_settings;
pub mod condition;
pub mod details;
pub mod domain;
pub mod domain_settings;
mod duration;
pub mod execution;
pub mod failed_event;
pub mod feature_settings;
pub mod filter;
pub mod help_settings;
pub mod idp;
pub mod instance;
pub mod key;
pub mod language_settings;
pub mod lockout_settings;
pub mod login_settings;
pub mod membership;
pub mod oidc_settings;
pub mod organization;
pub mod password_settings;
pub mod personal_access_token;
pub mod project;
pub mod project_grant;
pub mod project_role;
pub mod reusable;
pub mod settings;
pub mod standard;
pub mod target;
pub mod text_settings;
mod token_algorithm;
pub mod user;
pub mod user_grant;
pub mod user_metadata;
pub mod web_key;
