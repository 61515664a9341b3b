//! The only place that reads the wall clock, and the clock that leases are counted by.

use std::{sync::LazyLock, time::Duration};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::fault;

/// The clock that also runs while the machine is suspended. On systems other than Linux the monotonic clock does so.
#[cfg(target_os = "linux")]
const ALWAYS_RUNNING: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const ALWAYS_RUNNING: ClockId = ClockId::Monotonic;

/// The time now, by the system's clock.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Timestamp {
    Timestamp::now() + fault::clock_ahead() + fault::clock_error()
}

/// Returns the time at which this duration will have passed, in milliseconds since the Unix epoch.
pub fn millis_after(time: Duration) -> i64 {
    now().as_millisecond().saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the time since the machine started, including the time it was suspended. It is monotonic.
///
/// The clock of `std` and `tokio` stands still while a machine is suspended: what expires for others meanwhile would
/// not expire for this process.
pub fn since_start() -> Duration {
    let time = clock_gettime(ALWAYS_RUNNING);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Returns the seconds by which the clock of this machine was set since this function was first called.
pub fn adjusted_seconds() -> f64 {
    static FIRST: LazyLock<f64> = LazyLock::new(started_at);
    let first = *FIRST;
    started_at() - first
}

/// Returns the time at which the machine started according to its current clock, in seconds since the Unix epoch.
fn started_at() -> f64 {
    // A clock that tests put ahead represents the time of the world.
    let now = now() - fault::clock_ahead();
    now.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64() - since_start().as_secs_f64()
}

/// The longest that a request for the time of another clock may take. A later answer is too imprecise.
const LONGEST_WAY: Duration = Duration::from_secs(2);

/// Returns the seconds by which another clock is ahead of this machine's; `None` if there is no answer, or not soon
/// enough. The other clock was read somewhere between request and answer, so the middle of the two is compared.
pub async fn ahead(ask: impl Future<Output = Option<Timestamp>>) -> Option<f64> {
    // A clock that tests put ahead represents the time of the world, which servers do not know of.
    let own = || now() - fault::clock_ahead();
    let seconds = |at: Timestamp| at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
    let (asked, before) = (since_start(), own());
    let told = ask.await?;
    let is_soon = since_start().saturating_sub(asked) <= LONGEST_WAY;
    is_soon.then(|| seconds(told) - f64::midpoint(seconds(before), seconds(own())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_another_clock_does_not_count() {
        let ask = async {
            let told = now();
            std::thread::sleep(Duration::from_millis(20));
            Some(told)
        };
        let seconds = at_once(ahead(ask)).unwrap();
        // Half of the round trip, on a machine that may be slow meanwhile.
        assert!((-1.0..=-0.005).contains(&seconds), "{seconds}");
    }

    #[test]
    fn nobody_has_set_the_clock() {
        assert!([adjusted_seconds(), adjusted_seconds()].iter().all(|seconds| seconds.abs() < 1.0));
    }

    #[test]
    fn a_clock_that_is_silent_or_late_says_nothing() {
        assert!(at_once(ahead(async { None })).is_none());
        let late = async {
            std::thread::sleep(LONGEST_WAY + Duration::from_millis(10));
            Some(now())
        };
        assert!(at_once(ahead(late)).is_none());
    }

    fn at_once<T>(future: impl Future<Output = T>) -> T {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            std::task::Poll::Ready(output) => output,
            std::task::Poll::Pending => panic!("it waits for something"),
        }
    }

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
