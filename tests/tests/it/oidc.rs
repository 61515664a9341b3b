//! OpenID Connect: tokens and who may have them.

mod access;
mod introspection;
mod key;
mod role;
mod shop;
mod token;
