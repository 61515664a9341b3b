//! The tasks of operators: start, inspect, repair, and run several nodes and versions.

mod doctor;
mod durability;
mod erasure;
mod log_tool;
mod logs;
mod master_key;
mod nats_permissions;
mod object_limits;
mod observability;
mod observed;
pub(crate) mod pages;
mod proxies;
mod restored;
mod setup;
mod sole;
mod standalone;
mod traces;
mod versions;
