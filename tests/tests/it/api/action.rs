//! Actions: targets that are called on requests, on events and in functions.

mod address;
mod call;
mod docs;
mod event;
mod function;
mod kept;
mod lockout;
mod mending;
mod nodes;
mod unknown;
mod unreadable;
