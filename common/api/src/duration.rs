//! Durations, which the core has in milliseconds.

use std::time;

use proto::wellknown::Duration;

/// How clients read it; `None` where the JSON mapping cannot write it.
pub(crate) fn duration(milliseconds: u64) -> Option<Duration> {
    time::Duration::from_millis(milliseconds).try_into().ok()
}

/// How the core reads it. A part of a millisecond counts as a whole one; validation has refused negative durations.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    let duration = time::Duration::try_from(duration).unwrap_or_default();
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
