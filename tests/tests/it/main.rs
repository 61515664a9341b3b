//! The platform from outside: real processes, real servers, real clients.

mod api;
mod fault;
mod oidc;
mod operate;
mod table;
