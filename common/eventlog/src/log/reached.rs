//! The position of a state in memory that follows the log.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};

/// How long to wait for a change that this node has written itself.
const OWN_WAIT: Duration = Duration::from_secs(2);

/// The sequence of the last event that was applied to such a state.
#[derive(Debug, Clone)]
pub struct Reached(Arc<watch::Sender<u64>>);

impl Reached {
    /// Creates the position of a state that has this event and all before it.
    pub fn new(sequence: u64) -> Self {
        Self(Arc::new(watch::Sender::new(sequence)))
    }

    /// Notes that the state has this event and all before it.
    pub fn advance(&self, sequence: u64) {
        self.0.send_replace(sequence);
    }

    /// Returns the position.
    pub fn sequence(&self) -> u64 {
        *self.0.borrow()
    }

    /// Watches the position.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    /// Returns the position once the state has an event, or when the time is over.
    pub async fn processed_by(&self, sequence: u64, wait: Duration) -> u64 {
        let known = self.sequence();
        if known >= sequence {
            return known;
        }
        let _ = timeout(wait, self.wait_for(sequence)).await;
        self.sequence()
    }

    /// Waits until the state has an event, without a time limit.
    pub async fn wait_for(&self, sequence: u64) {
        // The sender is owned by this value, so the channel stays open.
        let _ = self.changes().wait_for(|reached| *reached >= sequence).await;
    }

    /// Waits until the state has an event that this node has written, and returns its position then. The wait is
    /// limited, because others need not wait at all.
    pub async fn wait_briefly_for(&self, sequence: u64) -> u64 {
        self.processed_by(sequence, OWN_WAIT).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_event_is_waited_for_until_it_is_there_or_the_time_is_over() {
        let reached = Reached::new(5);
        assert_eq!(reached.processed_by(5, Duration::ZERO).await, 5);
        assert_eq!(reached.processed_by(6, Duration::from_millis(1)).await, 5);
        let (processed, ()) =
            tokio::join!(reached.processed_by(6, Duration::from_mins(1)), async { reached.advance(7) });
        assert_eq!(processed, 7);
    }
}
