//! Detects that so much fails that the build is at fault, and not the events.

use std::collections::{HashMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use view::failed_event::ParkedAt;

use crate::failure::{Flood, MOST};

/// How many aggregates, and of how many instances, may not fail at events that were committed [`WITHIN`] this time: so
/// many mean a bad build, not bad events.
const SUDDEN: (usize, usize) = (100, 10);
const WITHIN: SignedDuration = SignedDuration::from_mins(1);

/// Refuses to park new aggregates in addition to others if they are too many.
///
/// # Errors
/// [`Flood`].
pub(super) fn insist_on_few(before: &[&ParkedAt], new: &[&ParkedAt]) -> Result<(), Flood> {
    if !new.is_empty() && before.len() + new.len() > MOST {
        return Err(Flood::Full);
    }
    if are_sudden(before, new) { Err(Flood::Sudden) } else { Ok(()) }
}

/// Whether new ones failed, together with others, at events of one minute, in numbers that suggest a bad build. The
/// times are those of the log: a rebuild meets the failures of a year within a second.
fn are_sudden<'a>(before: &[&'a ParkedAt], new: &[&'a ParkedAt]) -> bool {
    let before = before.iter().map(|parked| (parked, false));
    let all = before.chain(new.iter().map(|parked| (parked, true)));
    let known =
        |(parked, is_new): (&&'a ParkedAt, bool)| Some((parked.committed_at?, is_new, &*parked.key.instance_id));
    let mut all: Vec<(Timestamp, bool, &str)> = all.filter_map(known).collect();
    all.sort_unstable();
    let (mut near, mut instances, mut new) = (VecDeque::new(), HashMap::<_, usize>::new(), 0);
    for (at, is_new, instance) in all {
        near.push_back((at, is_new, instance));
        *instances.entry(instance).or_default() += 1;
        new += usize::from(is_new);
        while let Some((_, was_new, gone)) = near.pop_front_if(|(first, ..)| at.duration_since(*first) >= WITHIN) {
            new -= usize::from(was_new);
            let left = instances.get_mut(gone).map(|count| {
                *count -= 1;
                *count
            });
            if left == Some(0) {
                instances.remove(gone);
            }
        }
        if new > 0 && (near.len() >= SUDDEN.0 || instances.len() >= SUDDEN.1) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use eventlog::record::AggregateKey;

    use super::*;

    /// Aggregates of an instance, each of which failed so many milliseconds after the one before.
    fn failed(instance: &str, count: usize, from: i64, step: i64) -> Vec<ParkedAt> {
        let one = |number: i64| ParkedAt {
            key: AggregateKey {
                instance_id: instance.to_owned(),
                aggregate_type: "target".into(),
                id: number.to_string(),
            },
            sequence: 1,
            committed_at: Timestamp::from_millisecond(from + number * step).ok(),
            error: String::new(),
            last_failed: None,
        };
        (0..).take(count).map(one).collect()
    }

    fn is_refused(before: &[ParkedAt], new: &[ParkedAt]) -> Option<bool> {
        let (before, new): (Vec<_>, Vec<_>) = (before.iter().collect(), new.iter().collect());
        insist_on_few(&before, &new).err().map(|flood| matches!(flood, Flood::Sudden))
    }

    const SUDDENLY: Option<bool> = Some(true);
    const FULL: Option<bool> = Some(false);

    #[test]
    fn a_hundred_aggregates_of_one_minute_are_a_flood_and_99_are_none() {
        assert_eq!(is_refused(&[], &failed("1", 99, 0, 1)), None);
        assert_eq!(is_refused(&[], &failed("1", 100, 0, 1)), SUDDENLY);
        assert_eq!(is_refused(&failed("1", 99, 0, 1), &failed("1", 1, 59_000, 0)), SUDDENLY, "those before count");
        assert_eq!(is_refused(&failed("1", 99, 59_000, 1), &failed("1", 1, 0, 0)), SUDDENLY, "later ones, too");
    }

    #[test]
    fn ten_instances_of_one_minute_are_a_flood_and_nine_are_none() {
        let instances = |count: i64| -> Vec<_> {
            (0..count).flat_map(|number| failed(&number.to_string(), 2, number, 0)).collect()
        };
        assert_eq!(is_refused(&[], &instances(9)), None);
        assert_eq!(is_refused(&[], &instances(10)), SUDDENLY);
        assert_eq!(is_refused(&instances(9), &failed("10", 1, 59_999, 0)), SUDDENLY);
        assert_eq!(is_refused(&instances(9), &failed("10", 1, 60_009, 0)), None, "that is another minute");
    }

    #[test]
    fn what_failed_at_different_times_is_no_flood() {
        // One failure every 0.6 s and a bit makes 99 in any minute.
        assert_eq!(is_refused(&[], &failed("1", 1999, 0, 607)), None);
        assert_eq!(is_refused(&[], &failed("1", 1999, 0, 605)), SUDDENLY);
        // Half of them a minute before the new one and half of them after that are not of one minute.
        let around = [failed("1", 60, 0, 1), failed("1", 60, 110_000, 1)].concat();
        assert_eq!(is_refused(&around, &failed("1", 1, 55_000, 0)), None);
    }

    #[test]
    fn what_was_parked_before_is_no_reason_alone() {
        let flood = failed("1", 500, 0, 1);
        assert_eq!(is_refused(&flood, &[]), None);
        assert_eq!(is_refused(&flood, &failed("1", 1, 70_000, 0)), None);
        assert_eq!(is_refused(&flood, &failed("1", 1, 30_000, 0)), SUDDENLY);
    }

    #[test]
    fn two_thousand_are_all_that_can_be_parked() {
        let slowly = |count| failed("1", count, 0, 1_000);
        let new = failed("1", 1, 100_000_000, 0);
        assert_eq!(is_refused(&slowly(MOST - 1), &new), None);
        assert_eq!(is_refused(&slowly(MOST), &new), FULL);
        assert_eq!(is_refused(&slowly(MOST), &[]), None, "what fails once more is parked already");
        assert_eq!(is_refused(&[], &slowly(MOST + 1)), FULL);
    }
}
