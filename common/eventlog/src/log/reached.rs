//! How far a state in memory is that is kept by the log.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};

/// How long a change is waited for that this node has written itself.
const OWN_WAIT: Duration = Duration::from_secs(2);

/// The sequence of the last event that such a state has.
#[derive(Debug, Clone)]
pub struct Reached(Arc<watch::Sender<u64>>);

impl Reached {
    /// Of a state that has this event and all before it.
    pub fn new(sequence: u64) -> Self {
        Self(Arc::new(watch::Sender::new(sequence)))
    }

    /// It has this event now, and all before it.
    pub fn advance(&self, sequence: u64) {
        self.0.send_replace(sequence);
    }

    /// Hears of every advance.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    /// How far the state is when it has an event, or when the time is over.
    pub async fn processed_by(&self, sequence: u64, wait: Duration) -> u64 {
        let known = *self.0.borrow();
        if known >= sequence {
            return known;
        }
        let _ = timeout(wait, self.wait_for(sequence)).await;
        *self.0.borrow()
    }

    /// Waits until the state has an event, however long that takes.
    pub async fn wait_for(&self, sequence: u64) {
        // Its sender is this one's own.
        let _ = self.changes().wait_for(|reached| *reached >= sequence).await;
    }

    /// Waits until the state has an event that this node has written, and returns how far it is then; not for ever, because others
    /// need not wait at all.
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
