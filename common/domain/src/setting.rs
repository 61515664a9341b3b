//! The settings, one module each.

pub mod features;
pub mod languages;
