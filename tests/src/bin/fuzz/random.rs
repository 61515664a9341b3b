//! Pseudo-random numbers, reproducible by their seed (`SplitMix64`).

/// A source of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.number().to_be_bytes()[0]
    }

    /// Returns a number below a bound; 0 where the bound is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let number = usize::try_from(self.number() >> 32).unwrap_or_default();
        number.checked_rem(bound).unwrap_or_default()
    }

    /// Returns true once in a number of times, on average.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    /// Returns a range within this length, of at most `longest`.
    pub(crate) fn part(&mut self, length: usize, longest: usize) -> std::ops::Range<usize> {
        let begin = self.below(length + 1);
        begin..(begin + self.below(longest + 1)).min(length)
    }
}
