//! The kinds of objects without meaning that a process has besides those of the platform; usually none.

use super::Visitor;
use crate::resource::sample::Sample;

/// The environment variable with their number, at most [`MOST`].
const VARIABLE: &str = "PLATFORM_SAMPLE_KINDS";
const MOST: usize = 100;
const PER_ROW: usize = 10;

/// Visits as many of these kinds as the process is asked to have.
pub(crate) fn visit(visitor: &mut impl Visitor) {
    let count = std::env::var(VARIABLE).map_or(0, |count| count.parse().expect("PLATFORM_SAMPLE_KINDS is a number"));
    assert!(count <= MOST, "PLATFORM_SAMPLE_KINDS is at most {MOST}");
    row::<0, _>(visitor, count);
    row::<1, _>(visitor, count);
    row::<2, _>(visitor, count);
    row::<3, _>(visitor, count);
    row::<4, _>(visitor, count);
    row::<5, _>(visitor, count);
    row::<6, _>(visitor, count);
    row::<7, _>(visitor, count);
    row::<8, _>(visitor, count);
    row::<9, _>(visitor, count);
}

fn row<const TENS: usize, V: Visitor>(visitor: &mut V, count: usize) {
    let visits: [fn(&mut V); PER_ROW] = [
        V::resource::<Sample<TENS, 0>>,
        V::resource::<Sample<TENS, 1>>,
        V::resource::<Sample<TENS, 2>>,
        V::resource::<Sample<TENS, 3>>,
        V::resource::<Sample<TENS, 4>>,
        V::resource::<Sample<TENS, 5>>,
        V::resource::<Sample<TENS, 6>>,
        V::resource::<Sample<TENS, 7>>,
        V::resource::<Sample<TENS, 8>>,
        V::resource::<Sample<TENS, 9>>,
    ];
    visits.iter().take(count.saturating_sub(TENS * PER_ROW)).for_each(|visit| visit(visitor));
}
