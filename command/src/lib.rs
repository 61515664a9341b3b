//! The command node: decides commands, one after another, and commits them to the log.
//!
//! The path of a command: [`api`] turns a request into a command, `execute` authorises it and gives it a turn, the
//! [`writer`] decides it on `turn`'s view of the past and commits it with its neighbours, `settle` finds out what
//! became of the record.

pub mod api;
mod authority;
mod cache;
mod challenge;
mod checked_user;
mod client_secret;
mod escalation;
mod execute;
mod executions;
mod existence;
pub mod forward;
mod founding;
mod granted;
mod holder;
pub mod internal;
mod last_login;
mod login;
mod named;
mod new_user;
mod password;
mod person;
mod person_key;
mod plan;
pub mod reaction;
mod references;
mod registrations;
mod removal;
mod reusable;
mod seat;
mod settings;
pub mod settle;
pub mod setup;
mod signing_keys;
mod standard;
mod stored_answer;
mod tail;
mod trial;
mod turn;
mod user_agent;
pub mod writer;

pub use challenge::Challenges;
pub use execute::Commands;
pub use last_login::LastLogin;
pub use registrations::Registrations;

#[cfg(test)]
mod scene;
