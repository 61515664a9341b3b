//! OpenID Connect: tokens and who may have them.

mod access;
mod token;
