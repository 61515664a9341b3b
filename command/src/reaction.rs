//! Reactions: what is done because of events, by whoever holds their leases.

pub mod delivery;
