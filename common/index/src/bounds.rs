//! What one search may take of a node.

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
pub enum Stopped {
    /// Nobody waits for it any more.
    #[error("nobody waits for the search any more")]
    Gone,
    /// It took too long.
    #[error("the search took too long")]
    Late,
    /// It matches too much.
    #[error("the search matches too much")]
    TooMany,
}

/// The bounds of one search. Unless told otherwise there are none.
#[derive(Debug, Default)]
pub struct Bounds {
    until: Option<Instant>,
    most: Option<usize>,
    gone: Arc<AtomicBool>,
    seen: AtomicUsize,
}

/// Ends a search when it is dropped.
#[derive(Debug)]
pub struct Caller(Arc<AtomicBool>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Bounds {
    /// The bounds of a search that begins now: how long it may take, and how many documents it may look at.
    pub fn new(time: Duration, most: usize) -> Self {
        Self { until: Instant::now().checked_add(time), most: Some(most), ..Self::default() }
    }

    /// Whom the search is for: it ends when this is dropped.
    pub fn caller(&self) -> Caller {
        Caller(self.gone.clone())
    }

    /// Counts documents that were looked at.
    pub(crate) fn count(&self, documents: usize) -> tantivy::Result<()> {
        self.seen.fetch_add(documents, Ordering::Relaxed);
        match self.stopped() {
            Some(why) => Err(TantivyError::SystemError(why.to_string())),
            None => Ok(()),
        }
    }

    /// Why it must not go on.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        if self.gone.load(Ordering::Relaxed) {
            Some(Stopped::Gone)
        } else if self.most.is_some_and(|most| self.seen.load(Ordering::Relaxed) > most) {
            Some(Stopped::TooMany)
        } else if self.until.is_some_and(|until| Instant::now() >= until) {
            Some(Stopped::Late)
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
        assert_eq!(bounds.stopped(), Some(Stopped::TooMany));
        assert_eq!(Bounds::new(Duration::ZERO, 3).stopped(), Some(Stopped::Late));
        let bounds = Bounds::default();
        let caller = bounds.caller();
        assert_eq!(bounds.stopped(), None);
        drop(caller);
        assert_eq!(bounds.stopped(), Some(Stopped::Gone));
    }
}
