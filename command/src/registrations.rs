//! Limits how many people register: each takes a hash, a key and a name for good, and whoever asks for a name learns
//! whether somebody has it. The node that writes counts for all nodes.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use governor::{
    DefaultKeyedRateLimiter, Quota,
    clock::{Clock, DefaultClock},
};

/// The most registrations in a minute from one address in one instance.
const OF_ADDRESS: NonZeroU32 = NonZeroU32::new(10).unwrap();
/// The most registrations in a minute in one instance.
const OF_INSTANCE: NonZeroU32 = NonZeroU32::new(300).unwrap();
/// After how many registrations addresses that were not seen lately are removed.
const FORGET_AFTER: u32 = 256;

/// The counters of recent registrations.
pub struct Registrations {
    of_address: DefaultKeyedRateLimiter<(String, String)>,
    of_instance: DefaultKeyedRateLimiter<String>,
    since_forgotten: AtomicU32,
}

impl Default for Registrations {
    fn default() -> Self {
        Self {
            of_address: DefaultKeyedRateLimiter::keyed(Quota::per_minute(OF_ADDRESS)),
            of_instance: DefaultKeyedRateLimiter::keyed(Quota::per_minute(OF_INSTANCE)),
            since_forgotten: AtomicU32::new(0),
        }
    }
}

impl Registrations {
    /// Counts a registration; fails with the time that its sender has to wait if there were too many.
    pub(crate) fn count(&self, instance_id: &str, origin: &str) -> Result<(), Duration> {
        if self.since_forgotten.fetch_add(1, Ordering::Relaxed) >= FORGET_AFTER {
            self.since_forgotten.store(0, Ordering::Relaxed);
            self.of_address.retain_recent();
            self.of_instance.retain_recent();
        }
        let now = DefaultClock::default().now();
        let of_address = self.of_address.check_key(&(instance_id.to_owned(), origin.to_owned()));
        of_address.map_err(|early| early.wait_time_from(now))?;
        self.of_instance.check_key(&instance_id.to_owned()).map_err(|early| early.wait_time_from(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_in_an_instance_and_takes_nothing_from_others() {
        let registrations = Registrations::default();
        let count = |instance: &str, origin: &str| registrations.count(instance, origin).is_ok();
        assert!((0..10).all(|_| count("1", "a")));
        assert!(!count("1", "a"));
        assert!(count("1", "b") && count("2", "a"));
        assert!((0..280).all(|number| count("1", &number.to_string())), "as many as an instance may have");
        // Some places become free while others are taken.
        assert!((0..1000).any(|number| !count("1", &format!("c{number}"))) && count("2", "c"));
    }
}
