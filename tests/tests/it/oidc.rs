//! OpenID Connect: tokens and who may have them.

mod access;
mod introspection;
mod role;
mod shop;
mod token;
