//! The only place that reads the wall clock, and the clock that leases are counted by.

use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::fault;

/// The clock that also runs while the machine is suspended. Elsewhere the monotonic clock does.
#[cfg(target_os = "linux")]
const ALWAYS_RUNNING: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const ALWAYS_RUNNING: ClockId = ClockId::Monotonic;

/// The time now, by the system's clock.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Timestamp {
    Timestamp::now() + fault::clock_ahead()
}

/// The time since the machine started, its sleep included. It never goes back, and nobody sets it.
///
/// The clock of `std` and `tokio` stands still while a machine sleeps: what expires for others meanwhile would not have
/// expired for this process.
pub fn since_start() -> Duration {
    let time = clock_gettime(ALWAYS_RUNNING);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_time_since_the_start_is_what_the_kernel_calls_uptime() {
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = text.split(' ').next().unwrap().parse().unwrap();
        assert!((since_start().as_secs_f64() - uptime).abs() < 10.0, "{uptime}");
    }

    #[test]
    fn the_time_since_the_start_never_goes_back() {
        let times: Vec<Duration> = (0..1000).map(|_| since_start()).collect();
        assert!(times.is_sorted());
    }
}
