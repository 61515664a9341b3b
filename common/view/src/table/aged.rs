//! When a table deletes rows of resources that have ended by themselves. It goes by the times of the log, so that the
//! table is the same whenever it is built, even from a log that was purged meanwhile.

use jiff::{SignedDuration, Timestamp};

/// How long a row stays after the end of its resource. Together with the longest life of a session it is shorter than
/// the retention of the log, by more than an hour, so that no row outlives its events.
pub const ENDED_KEPT: SignedDuration = SignedDuration::from_hours(6 * 24);

const HOUR: i64 = 60 * 60;

/// Returns the time, in milliseconds since the Unix epoch, before which ended rows are deleted when the log proceeds
/// from one time to another: all at once when an hour begins; `None` within an hour.
pub fn forgotten_before(from: Timestamp, to: Timestamp) -> Option<i64> {
    let hour = |at: Timestamp| at.as_second().div_euclid(HOUR);
    let kept = i64::try_from(ENDED_KEPT.as_millis()).unwrap_or(i64::MAX);
    (hour(to) > hour(from)).then(|| (hour(to) * HOUR * 1000).saturating_sub(kept))
}

#[cfg(test)]
mod tests {
    use domain::resource::session::LONGEST_LIFE_MS;

    use super::*;
    use crate::history::SESSIONS_KEPT;

    #[test]
    fn it_is_forgotten_once_an_hour() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let begins = 500_000 * HOUR;
        let before = (begins - 6 * 24 * HOUR) * 1000;
        assert_eq!(forgotten_before(at(begins - 1), at(begins)), Some(before));
        assert_eq!(forgotten_before(at(begins - 9 * HOUR), at(begins + HOUR - 1)), Some(before));
        assert_eq!(forgotten_before(at(begins), at(begins + HOUR - 1)), None);
    }

    #[test]
    fn no_row_outlives_what_the_log_has_of_it() {
        let longest = SignedDuration::from_millis(LONGEST_LIFE_MS) + ENDED_KEPT + SignedDuration::from_hours(1);
        assert!(longest < SESSIONS_KEPT);
    }
}
