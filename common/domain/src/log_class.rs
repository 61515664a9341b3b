//! The logs of a shard: which facts are in which, and what there is once for each.

use std::ops::{Index, IndexMut};

/// Which of the logs of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LogClass {
    /// What is kept for ever.
    #[default]
    Events,
    /// What ages out: sessions, and what was revoked.
    Sessions,
}

impl LogClass {
    /// Both, in the order in which a writer begins them.
    pub const ALL: [Self; 2] = [Self::Events, Self::Sessions];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "EVENTS",
            Self::Sessions => "SESSIONS",
        }
    }

    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Events => Self::Sessions,
            Self::Sessions => Self::Events,
        }
    }
}

/// Something of each log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfEach<T> {
    /// That of the one that is kept for ever.
    pub events: T,
    /// That of the one that ages out.
    pub sessions: T,
}

impl<T> OfEach<T> {
    /// Makes something of each.
    pub fn map<U>(self, mut make: impl FnMut(T) -> U) -> OfEach<U> {
        OfEach { events: make(self.events), sessions: make(self.sessions) }
    }

    /// Borrows each.
    pub const fn as_ref(&self) -> OfEach<&T> {
        OfEach { events: &self.events, sessions: &self.sessions }
    }

    /// Each of one with the same of another.
    pub fn zip<U>(self, other: OfEach<U>) -> OfEach<(T, U)> {
        OfEach { events: (self.events, other.events), sessions: (self.sessions, other.sessions) }
    }
}

impl<T> OfEach<Option<T>> {
    /// Both, if both are there.
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
