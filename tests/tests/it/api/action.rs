//! Actions: targets that are called on requests, on events and in functions.

mod address;
mod call;
mod docs;
mod event;
mod function;
mod lockout;
mod mending;
mod nodes;
mod put_metadata;
mod unknown;
mod unreadable;
