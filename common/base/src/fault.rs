//! Fail points: places where a test makes the process die, stop or panic.
//!
//! They are compiled in with the feature `fault` only. `PLATFORM_FAULT=commit.published:3:kill` kills the process the
//! third time it passes `commit.published`; `stop` stops it until it gets SIGCONT. Each of these fires once.
//! `turn.deciding/CreateTarget:3:panic` panics there from the third time on, where it is about `CreateTarget`; `*`
//! matches everything. With `panic-while=FILE` it panics only as long as the file exists. With `kill-while=FILE` it
//! kills, counting only the times that the point was passed while the file existed. Several faults, each at another
//! point, are separated by commas.
//!
//! With the feature some times are short, so that tests need not wait for them, unless `PLATFORM_REAL_TIMES` is set;
//! leases are short if `PLATFORM_SHORT_LEASES` is set as well. The clock is ahead by the seconds in the file that
//! `PLATFORM_CLOCK` names, and by those in the file that `PLATFORM_WRONG_CLOCK` names, by which servers are not assumed
//! to be ahead, too. With `PLATFORM_NEXT_VERSION` a process writes what the next version might, with
//! `PLATFORM_BEFORE_REFERENCES` what the first versions did, and with `PLATFORM_DOES_NOT_KNOW` it delivers events like
//! a version that does not know a type, for tests of two versions on one log. `PLATFORM_MOST_DELIVERIES` lowers a limit.

use std::{sync::LazyLock, time::Duration};

static HAS_SHORT_TIMES: LazyLock<bool> =
    LazyLock::new(|| cfg!(feature = "fault") && std::env::var_os("PLATFORM_REAL_TIMES").is_none());
static HAS_SHORT_LEASES: LazyLock<bool> =
    LazyLock::new(|| *HAS_SHORT_TIMES && std::env::var_os("PLATFORM_SHORT_LEASES").is_some());

/// Returns the real time, or the short one if fail points are compiled in and `PLATFORM_REAL_TIMES` is not set.
pub fn shortened(real: Duration, short: Duration) -> Duration {
    if *HAS_SHORT_TIMES { short } else { real }
}

/// Returns the real length of a lease, or the short one if times are short and `PLATFORM_SHORT_LEASES` is set. On a
/// busy machine even a healthy process loses a short lease, so only tests that wait for the end of leases ask for short
/// ones.
pub fn shortened_lease(real: Duration, short: Duration) -> Duration {
    if *HAS_SHORT_LEASES { short } else { real }
}

/// Returns a limit, or the lower one that an environment variable has.
pub fn lowered(variable: &str, real: u64) -> u64 {
    let lower = std::env::var(variable).ok().filter(|_| cfg!(feature = "fault"));
    lower.and_then(|lower| lower.parse().ok()).map_or(real, |lower: u64| lower.min(real))
}

/// Whether this process writes as the next version does.
pub fn is_next_version() -> bool {
    static IS_NEXT: LazyLock<bool> =
        LazyLock::new(|| cfg!(feature = "fault") && std::env::var_os("PLATFORM_NEXT_VERSION").is_some());
    *IS_NEXT
}

/// By how much the version of a projection in this process is higher than usual, as after a change of its tables.
pub fn raised_version(projection: &str) -> i32 {
    static RAISED: LazyLock<Option<String>> = LazyLock::new(|| {
        let raised = std::env::var("PLATFORM_RAISED_PROJECTION").ok();
        raised.filter(|_| cfg!(feature = "fault"))
    });
    i32::from(RAISED.as_deref() == Some(projection))
}

/// Whether this process writes like the versions that knew no references.
pub fn is_before_references() -> bool {
    static IS_BEFORE: LazyLock<bool> =
        LazyLock::new(|| cfg!(feature = "fault") && std::env::var_os("PLATFORM_BEFORE_REFERENCES").is_some());
    *IS_BEFORE
}

/// Whether this process writes like the versions that knew no contacts by which people are found, or no references
/// either.
pub fn is_before_contacts() -> bool {
    static IS_BEFORE: LazyLock<bool> =
        LazyLock::new(|| cfg!(feature = "fault") && std::env::var_os("PLATFORM_BEFORE_CONTACTS").is_some());
    *IS_BEFORE || is_before_references()
}

/// Whether this process delivers events like a version that does not know this type.
pub fn does_not_know(event_type: &str) -> bool {
    static UNKNOWN: LazyLock<Option<String>> = LazyLock::new(|| {
        let unknown = std::env::var("PLATFORM_DOES_NOT_KNOW").ok();
        unknown.filter(|_| cfg!(feature = "fault"))
    });
    UNKNOWN.as_deref() == Some(event_type)
}

/// Returns by how much this clock is ahead of the system's.
#[cfg(not(feature = "fault"))]
#[inline]
pub fn clock_ahead() -> Duration {
    Duration::ZERO
}

/// Returns by how much this clock is ahead of the system's. The file is read on each call.
#[cfg(feature = "fault")]
pub fn clock_ahead() -> Duration {
    static FILE: LazyLock<Option<std::ffi::OsString>> = LazyLock::new(|| std::env::var_os("PLATFORM_CLOCK"));
    seconds_in(FILE.as_deref())
}

/// Returns by how much the clock of this node alone is wrong.
#[cfg(not(feature = "fault"))]
#[inline]
pub fn clock_error() -> Duration {
    Duration::ZERO
}

/// Returns by how much the clock of this node alone is wrong. The file is read on each call.
#[cfg(feature = "fault")]
pub fn clock_error() -> Duration {
    static FILE: LazyLock<Option<std::ffi::OsString>> = LazyLock::new(|| std::env::var_os("PLATFORM_WRONG_CLOCK"));
    seconds_in(FILE.as_deref())
}

#[cfg(feature = "fault")]
fn seconds_in(file: Option<&std::ffi::OsStr>) -> Duration {
    let text = file.and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| text.trim().parse().ok()).map_or(Duration::ZERO, Duration::from_secs)
}

/// Passes a fail point.
#[inline]
pub fn point(name: &str) {
    point_of(name, "");
}

/// Passes a fail point with a subject that a test can name.
#[cfg(not(feature = "fault"))]
#[inline]
pub fn point_of(_name: &str, _subject: &str) {}

/// Passes a fail point with a subject that a test can name.
#[cfg(feature = "fault")]
pub fn point_of(name: &str, subject: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    struct Fault {
        point: String,
        subject: String,
        at: u64,
        passed: AtomicU64,
        /// The signal to send; `None` if it panics.
        signal: Option<Signal>,
        /// A file without which the fault is ignored.
        file: Option<std::path::PathBuf>,
    }

    fn fault(text: &str) -> Option<Fault> {
        let mut parts = text.split(':');
        let place = parts.next()?;
        let (point, subject) = place.split_once('/').unwrap_or((place, ""));
        let at = parts.next()?.parse().ok()?;
        let (signal, file) = match parts.next()? {
            "kill" => (Some(Signal::KILL), None),
            "stop" => (Some(Signal::STOP), None),
            "panic" => (None, None),
            other => match other.strip_prefix("kill-while=") {
                Some(file) => (Some(Signal::KILL), Some(file.into())),
                None => (None, Some(other.strip_prefix("panic-while=")?.into())),
            },
        };
        let (point, subject) = (point.to_owned(), subject.to_owned());
        Some(Fault { point, subject, at, passed: AtomicU64::new(0), signal, file })
    }

    static FAULTS: LazyLock<Vec<Fault>> = LazyLock::new(|| {
        let text = std::env::var("PLATFORM_FAULT").unwrap_or_default();
        text.split(',').filter_map(fault).collect()
    });

    let is_here = |fault: &&Fault| fault.point == name && [subject, "*"].contains(&fault.subject.as_str());
    let Some(fault) = FAULTS.iter().find(is_here) else {
        return;
    };
    if fault.file.as_ref().is_some_and(|file| !file.exists()) {
        return;
    }
    let passed = fault.passed.fetch_add(1, Ordering::SeqCst) + 1;
    let Some(signal) = fault.signal else {
        assert!(passed < fault.at, "the fail point {name} was passed for the {passed}th time");
        return;
    };
    if passed == fault.at {
        let _ = kill_process(getpid(), signal);
        // Another thread may take the signal, so this one waits: nothing after the point may happen before the signal
        // came.
        let seconds = if signal == Signal::KILL { 60 } else { 1 };
        std::thread::sleep(Duration::from_secs(seconds));
    }
}
