//! The API: what is written, read and refused, over both transports.

mod action;
mod audit;
mod bad_input;
mod directory;
mod domain;
mod ended;
mod examples;
mod execution;
mod expiry;
mod forward;
mod fuzz;
mod grpc;
mod idempotency;
mod index;
mod instance;
mod openapi;
mod operator;
mod permission;
mod revoked;
mod rights;
mod schemathesis;
mod search;
mod target;
mod tenancy;
mod transports;
mod user;
