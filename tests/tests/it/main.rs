//! The platform from outside: real processes, real servers, real clients.

mod bad_input;
mod bad_input_http;
mod errors_doc;
mod fault_commit;
mod fault_fencing;
mod fault_history;
mod fault_index;
mod fault_log;
mod fault_projector;
mod fault_replay;
mod fault_settle;
mod fault_tail;
mod grpc;
mod idempotency;
mod index;
mod permission;
mod search;
mod standalone;
mod standalone_refused;
mod table;
mod target;
mod target_consistency;
mod target_patch;
mod tidy;
mod token;
mod token_access;
