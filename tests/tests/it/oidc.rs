//! OpenID Connect: tokens and who may have them.

mod access;
mod clients;
mod introspection;
mod key;
mod model;
mod opaque;
mod personal;
mod revocation;
mod role;
mod rotation;
mod shop;
mod signer;
mod token;
