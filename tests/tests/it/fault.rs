//! What breaks: nodes, servers, networks and the log, and what stays true meanwhile.

mod broker;
mod chaos;
mod clock;
mod commit;
mod decided;
mod failed_events;
mod fencing;
mod flood;
mod follow;
mod generations;
mod history;
mod index;
mod isolation;
mod lease;
mod log;
mod mending;
mod model;
mod parking;
mod projector;
mod replay;
mod rest;
mod retrying;
mod sessions;
mod settle;
mod tail;
mod unindexed;
