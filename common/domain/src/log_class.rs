//! The logs of a shard: which facts are in which, and a container with one value for each.

use std::ops::{Index, IndexMut};

/// Names one of the logs of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LogClass {
    /// Facts that are retained for ever.
    #[default]
    Events,
    /// Facts that age out: sessions, and revocations.
    Sessions,
}

impl LogClass {
    /// All log classes, in the order in which a writer begins them.
    pub const ALL: [Self; 2] = [Self::Events, Self::Sessions];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "EVENTS",
            Self::Sessions => "SESSIONS",
        }
    }

    /// Returns the other log class.
    pub const fn other(self) -> Self {
        match self {
            Self::Events => Self::Sessions,
            Self::Sessions => Self::Events,
        }
    }
}

/// A value for each log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfEach<T> {
    /// The value for the log that is retained for ever.
    pub events: T,
    /// The value for the log that ages out.
    pub sessions: T,
}

impl<T> OfEach<T> {
    /// Applies a function to each value.
    pub fn map<U>(self, mut make: impl FnMut(T) -> U) -> OfEach<U> {
        OfEach { events: make(self.events), sessions: make(self.sessions) }
    }

    /// Borrows each value.
    pub const fn as_ref(&self) -> OfEach<&T> {
        OfEach { events: &self.events, sessions: &self.sessions }
    }

    /// Pairs each value with the value of another for the same log.
    pub fn zip<U>(self, other: OfEach<U>) -> OfEach<(T, U)> {
        OfEach { events: (self.events, other.events), sessions: (self.sessions, other.sessions) }
    }
}

impl<T> OfEach<Option<T>> {
    /// Returns both values, if both exist.
    pub fn both(self) -> Option<OfEach<T>> {
        Some(OfEach { events: self.events?, sessions: self.sessions? })
    }
}

impl<T> Index<LogClass> for OfEach<T> {
    type Output = T;

    fn index(&self, class: LogClass) -> &T {
        match class {
            LogClass::Events => &self.events,
            LogClass::Sessions => &self.sessions,
        }
    }
}

impl<T> IndexMut<LogClass> for OfEach<T> {
    fn index_mut(&mut self, class: LogClass) -> &mut T {
        match class {
            LogClass::Events => &mut self.events,
            LogClass::Sessions => &mut self.sessions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_have_names() {
        assert_eq!(LogClass::ALL.map(LogClass::name), ["EVENTS", "SESSIONS"]);
    }

    #[test]
    fn both_values_are_there_only_if_each_is() {
        let of = |events, sessions| OfEach { events, sessions };
        assert_eq!(of(Some(1), Some(2)).both(), Some(OfEach { events: 1, sessions: 2 }));
        for missing in [of(None, Some(2)), of(Some(1), None), of(None, None)] {
            assert_eq!(missing.both(), None);
        }
    }
}
