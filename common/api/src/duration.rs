//! Converts durations, which are milliseconds in the core.

use std::time;

use proto::wellknown::Duration;

/// Converts milliseconds for clients; `None` if the JSON mapping cannot represent them.
pub(crate) fn duration(milliseconds: u64) -> Option<Duration> {
    time::Duration::from_millis(milliseconds).try_into().ok()
}

/// Converts a duration from clients, rounding up to a millisecond; validation has refused negative durations.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    let duration = time::Duration::try_from(duration).unwrap_or_default();
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
