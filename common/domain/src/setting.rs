//! The settings, one module each.

pub mod branding;
pub mod domains;
pub mod features;
pub mod help;
pub mod languages;
pub mod lockout;
pub mod login;
pub mod oidc;
pub mod password;
pub mod texts;
