//! The resources of a node that one search may take.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tantivy::TantivyError;

/// Why a search was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SearchInterrupted {
    /// Its caller is gone.
    #[error("nobody waits for the search any more")]
    Gone,
    /// It took too long.
    #[error("the search took too long")]
    Late,
    /// It matches too much.
    #[error("the search matches too much")]
    TooMany,
}

/// The bounds of one search. By default there are none.
#[derive(Debug, Default)]
pub struct Bounds {
    until: Option<Instant>,
    most: Option<usize>,
    gone: Arc<AtomicBool>,
    seen: AtomicUsize,
}

/// The caller of a search, which ends when this is dropped.
#[derive(Debug)]
pub struct Caller(Arc<AtomicBool>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Bounds {
    /// Creates the bounds of a search that begins now: how long it may take, and how many documents it may visit.
    pub fn new(time: Duration, most: usize) -> Self {
        Self { until: Instant::now().checked_add(time), most: Some(most), ..Self::default() }
    }

    /// Returns a guard for the caller: the search ends when it is dropped.
    pub fn caller(&self) -> Caller {
        Caller(self.gone.clone())
    }

    /// Counts visited documents.
    pub(crate) fn count(&self, documents: usize) -> tantivy::Result<()> {
        self.seen.fetch_add(documents, Ordering::Relaxed);
        match self.stopped() {
            Some(why) => Err(TantivyError::SystemError(why.to_string())),
            None => Ok(()),
        }
    }

    /// Returns why the search must not go on, if so.
    pub(crate) fn stopped(&self) -> Option<SearchInterrupted> {
        if self.gone.load(Ordering::Relaxed) {
            Some(SearchInterrupted::Gone)
        } else if self.most.is_some_and(|most| self.seen.load(Ordering::Relaxed) > most) {
            Some(SearchInterrupted::TooMany)
        } else if self.until.is_some_and(|until| Instant::now() >= until) {
            Some(SearchInterrupted::Late)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_stopped_by_time_by_number_and_when_nobody_waits() {
        let bounds = Bounds::new(Duration::from_hours(1), 3);
        assert!(bounds.count(3).is_ok());
        assert!(bounds.count(1).is_err());
        assert_eq!(bounds.stopped(), Some(SearchInterrupted::TooMany));
        assert_eq!(Bounds::new(Duration::ZERO, 3).stopped(), Some(SearchInterrupted::Late));
        let bounds = Bounds::default();
        let caller = bounds.caller();
        assert_eq!(bounds.stopped(), None);
        drop(caller);
        assert_eq!(bounds.stopped(), Some(SearchInterrupted::Gone));
    }
}
