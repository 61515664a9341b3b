//! OpenID Connect: tokens and who may have them.

mod access;
mod authorize;
mod certification;
mod clients;
mod code;
mod conformance;
mod flow;
mod hint;
mod introspection;
mod key;
mod login_client;
mod logout;
mod model;
mod opaque;
mod pages;
mod personal;
mod redemption;
mod redirect;
mod refresh;
mod revocation;
mod role;
mod rotation;
mod shop;
mod signer;
mod token;
mod userinfo;
