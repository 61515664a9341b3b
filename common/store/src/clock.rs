//! The only place that reads the wall clock.

use jiff::Timestamp;

/// The time now, by the system's clock.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
