//! The resources, one module each.

pub mod data_key;
pub mod domain;
pub mod execution;
pub mod instance;
pub mod membership;
pub mod organization;
pub mod project;
pub mod signing_key;
pub mod system;
pub mod target;
pub mod user;
