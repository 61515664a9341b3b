//! The activity on a connection: requests in flight, and the time since the last one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// The activity on a connection.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    in_flight: AtomicU32,
    /// When something happened last, in milliseconds since the connection began.
    last: AtomicU64,
}

/// A request whose answer is not written yet.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Activity>);

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), in_flight: AtomicU32::new(0), last: AtomicU64::new(0) })
    }

    /// Counts a request until what is returned is dropped.
    pub(super) fn request(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        InFlight(self.clone())
    }

    /// Notes activity.
    pub(super) fn touch(&self) {
        self.last.store(self.now(), Ordering::Release);
    }

    /// Waits until there was no activity for this long. It checks the clock rather than being notified, so that a
    /// request costs no more than two counts.
    pub(super) async fn idle(&self, limit: Duration) {
        loop {
            let wait = if self.in_flight.load(Ordering::Acquire) > 0 {
                limit
            } else {
                let since = self.now().saturating_sub(self.last.load(Ordering::Acquire));
                limit.saturating_sub(Duration::from_millis(since))
            };
            if wait.is_zero() {
                return;
            }
            sleep(wait).await;
        }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis().try_into().unwrap_or(u64::MAX)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.touch();
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_some_time_after_its_last_request() {
        let activity = Activity::new();
        let (limit, begun) = (Duration::from_secs(30), Instant::now());
        let request = activity.request();
        assert!(timeout(Duration::from_secs(100), activity.idle(limit)).await.is_err());
        drop(request);
        activity.idle(limit).await;
        assert!((130_000..130_010).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    }
}
