//! The platform from outside: real processes, real servers, real clients.

mod fault_commit;
mod target;
