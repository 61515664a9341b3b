//! Measures how fast something progresses, from samples of its position.

use std::{collections::VecDeque, time::Duration};

/// The number of samples over which the speed is measured.
const MOST: usize = 10;

/// The last samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgressSamples(VecDeque<(Duration, u64)>);

/// The speed of something, and the time that it still takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed {
    /// The progress per second, at least 1.
    pub per_second: u64,
    /// The seconds until the end is reached at that speed, rounded up.
    pub seconds_left: u64,
}

/// Returns the progress in percent: 100 if there is nothing to do.
pub fn percent(reached: u64, end: u64) -> u64 {
    (reached * 100).checked_div(end).unwrap_or(100).min(100)
}

impl ProgressSamples {
    /// Adds a sample: a position, and a time that is counted from one moment for all samples.
    pub fn add(&mut self, at: Duration, reached: u64) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        // It has started again.
        if self.0.back().is_some_and(|(_, before)| *before > reached) {
            self.0.clear();
        }
        self.0.push_back((at, reached));
    }

    /// Returns the speed towards an end; `None` if it is below one a second, the end is reached, or there is only one
    /// sample.
    pub fn speed(&self, end: u64) -> Option<Speed> {
        let ((since, first), (until, last)) = (self.0.front()?, self.0.back()?);
        let millis = u64::try_from(until.checked_sub(*since)?.as_millis()).ok()?;
        let per_second = ((last - first) * 1000).checked_div(millis)?;
        let left = end.checked_sub(*last).filter(|left| *left > 0)?;
        (per_second > 0).then(|| Speed { per_second, seconds_left: left.div_ceil(per_second) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(samples: &[(u64, u64)]) -> ProgressSamples {
        let mut all = ProgressSamples::default();
        for (second, reached) in samples {
            all.add(Duration::from_secs(*second), *reached);
        }
        all
    }

    #[test]
    fn all_of_nothing_is_there_and_never_more_than_all() {
        assert_eq!(
            [(0, 10), (3, 9), (10, 10), (11, 10), (0, 0)].map(|(at, end)| percent(at, end)),
            [0, 33, 100, 100, 100]
        );
    }

    #[test]
    fn a_speed_is_that_of_the_last_looks() {
        let speed = |per_second, seconds_left| Some(Speed { per_second, seconds_left });
        assert_eq!(samples(&[(0, 0), (2, 200)]).speed(1000), speed(100, 8));
        assert_eq!(samples(&[(0, 0), (2, 200)]).speed(201), speed(100, 1));
        let slower: Vec<_> =
            (0..30).map(|second| (second, if second < 15 { second * 100 } else { 1400 + second })).collect();
        assert_eq!(samples(&slower).speed(2000), speed(1, 571));
    }

    #[test]
    fn what_stands_has_arrived_or_has_begun_anew_has_no_speed() {
        for (seen, end) in
            [(&[][..], 10), (&[(0, 1)], 10), (&[(0, 1), (1, 1)], 10), (&[(0, 1), (1, 10)], 10), (&[(0, 9), (1, 3)], 10)]
        {
            assert_eq!(samples(seen).speed(end), None, "{seen:?}");
        }
        assert_eq!(samples(&[(0, 1), (0, 5)]).speed(10), None, "in no time");
        assert_eq!(samples(&[(0, 1), (1, 20)]).speed(10), None, "beyond the end");
    }
}
