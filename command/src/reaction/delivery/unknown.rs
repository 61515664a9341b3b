//! The types of events that this build does not know, as far as deliveries of them were made.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base::clock::since_start;

/// How often a type is reported.
const TOLD_EVERY: Duration = Duration::from_mins(1);

/// The unknown types of events that this process has come across.
#[derive(Debug, Clone, Default)]
pub struct UnknownTypes(Arc<Mutex<HashMap<String, Met>>>);

#[derive(Debug, Default)]
struct Met {
    /// When the type was reported last, on the clock that only goes forward.
    told: Option<Duration>,
    has_waited: bool,
}

impl UnknownTypes {
    /// Whether a type is to be reported now, which then counts as reported.
    pub(super) fn is_told_of(&self, event_type: &str) -> bool {
        self.of(event_type, |met| {
            let is_due = met.told.is_none_or(|told| since_start() >= told + TOLD_EVERY);
            if is_due {
                met.told = Some(since_start());
            }
            is_due
        })
    }

    /// Whether a delivery of a type has waited for a newer build until it was given up. Later ones need not wait, and
    /// so do not hold up others.
    pub(super) fn has_waited(&self, event_type: &str) -> bool {
        self.of(event_type, |met| met.has_waited)
    }

    /// Records that a delivery of a type has waited until it was given up.
    pub(super) fn waited(&self, event_type: &str) {
        self.of(event_type, |met| met.has_waited = true);
    }

    fn of<T>(&self, event_type: &str, of: impl FnOnce(&mut Met) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        of(all.entry(event_type.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_of_each_type_once_in_a_while() {
        let unknown = UnknownTypes::default();
        assert_eq!(["a", "a", "b"].map(|name| unknown.is_told_of(name)), [true, false, true]);
        unknown.waited("a");
        assert_eq!(["a", "b"].map(|name| unknown.has_waited(name)), [true, false]);
    }
}
