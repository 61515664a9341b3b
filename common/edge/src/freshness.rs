//! The rule of freshness: what the caller requires is insisted on; its own last write is waited for only a moment.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use crate::error::{Error, Reason};

/// How long a request waits for the caller's own last write on this node, if the caller did not require it.
pub const OWN_WAIT: Duration = Duration::from_secs(1);

/// How fresh an answer must be, in sequences of one log.
#[derive(Debug, Clone, Copy)]
pub struct Consistency {
    /// The sequence that the read models must have; 0 for any.
    pub required: u64,
    /// The caller's own last write on this node, as far as the node remembers; it is waited for, not insisted on.
    pub own: u64,
    /// How long to wait for what is required.
    pub wait: Duration,
    /// When the request began to wait.
    pub begun: Instant,
}

/// How the freshness of a read model compares with what is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The read model has everything that the caller has seen.
    Enough,
    /// The read model lacks the caller's own last write, and may answer if that does not come in a moment.
    WithoutOwn,
    /// The read model must not answer.
    TooOld,
}

impl Consistency {
    /// The remaining time to wait for what is required.
    pub fn left(self) -> Duration {
        self.wait.saturating_sub(self.begun.elapsed())
    }

    /// The newest sequence that the caller has seen, as far as it is known.
    pub fn newest_seen(self) -> u64 {
        self.required.max(self.own)
    }

    /// Rates a read model that has processed this sequence; `None` stands for one that does not exist yet.
    pub fn rate(self, processed: Option<u64>) -> Freshness {
        match processed {
            Some(processed) if processed >= self.newest_seen() => Freshness::Enough,
            Some(processed) if processed >= self.required => Freshness::WithoutOwn,
            _ => Freshness::TooOld,
        }
    }

    /// Refuses an answer that is older than what is required.
    ///
    /// # Errors
    /// When it is older; the error names both sequences.
    pub fn accept(self, processed: u64) -> Result<(), Error> {
        match self.rate(Some(processed)) {
            Freshness::TooOld => Err(not_reached(self.required, processed)),
            Freshness::Enough | Freshness::WithoutOwn => Ok(()),
        }
    }

    /// Refuses an answer of a parked resource that is older than what is required. It does not get fresher by itself.
    ///
    /// # Errors
    /// When it is older; the error names both sequences.
    pub fn accept_parked(self, processed: u64) -> Result<(), Error> {
        if processed >= self.required {
            return Ok(());
        }
        let message = "an event of the resource could not be processed, and later events wait for it";
        Err(Error::new(Reason::AggregateParked, message)
            .with("required", self.required.to_string())
            .with("processed", processed.to_string()))
    }

    /// Repeats a read until it is fresh enough or the time is over. In between it waits for `changes`, which may get
    /// lost: the last read does not rely on them. How old the answer may be is for the caller to
    /// [`accept`](Self::accept).
    ///
    /// # Errors
    /// Those of the read.
    pub async fn look_until_fresh<T, C, E, F: Future<Output = Result<T, E>>>(
        self,
        mut changes: watch::Receiver<C>,
        look: impl Fn() -> F,
        processed: impl Fn(&T) -> Option<u64>,
    ) -> Result<T, E> {
        let (start, left) = (Instant::now(), self.left());
        let mut is_last = false;
        loop {
            changes.mark_unchanged();
            let seen = look().await?;
            let deadline = match self.rate(processed(&seen)) {
                Freshness::Enough => return Ok(seen),
                Freshness::WithoutOwn => start + OWN_WAIT,
                Freshness::TooOld => start + left,
            };
            if is_last {
                return Ok(seen);
            }
            is_last = !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(())));
        }
    }
}

/// The error for a read model that has not processed what is required.
fn not_reached(required: u64, processed: u64) -> Error {
    let message = format!("the read model has processed sequence {processed}, not yet {required}");
    Error::new(Reason::ConsistencyNotReached, message)
        .with("required", required.to_string())
        .with("processed", processed.to_string())
        .retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::{
        Freshness::{Enough, TooOld, WithoutOwn},
        *,
    };

    fn wanting(required: u64, own: u64) -> Consistency {
        Consistency { required, own, wait: Duration::from_secs(2), begun: Instant::now() }
    }

    #[tokio::test]
    async fn what_is_required_is_insisted_on_and_the_own_write_is_not() {
        let rates =
            |required, own| [None, Some(4), Some(5), Some(7)].map(|processed| wanting(required, own).rate(processed));
        assert_eq!(rates(0, 0), [TooOld, Enough, Enough, Enough]);
        assert_eq!(rates(5, 0), [TooOld, TooOld, Enough, Enough]);
        assert_eq!(rates(0, 5), [TooOld, WithoutOwn, Enough, Enough]);
        assert_eq!(rates(5, 7), [TooOld, TooOld, WithoutOwn, Enough]);
        assert_eq!(rates(7, 5), [TooOld, TooOld, TooOld, Enough]);
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_waited_for_as_long_as_it_is_worth() {
        for (required, own, waits) in [(0, 0, 0), (0, 5, 1), (5, 0, 2), (5, 7, 2)] {
            let (_changing, changes) = watch::channel(());
            let (start, consistency) = (Instant::now(), wanting(required, own));
            let seen = consistency.look_until_fresh(changes, || ready(Ok::<_, ()>(4)), |seen| Some(*seen)).await;
            assert_eq!((seen, start.elapsed().as_secs()), (Ok(4), waits), "{required}, {own}");
            assert_eq!(consistency.accept(4).is_ok(), required <= 4);
        }
    }
    #[test]
    fn an_answer_is_accepted_that_is_as_new_as_required_parked_or_not() {
        for (processed, is_accepted) in [(4, false), (5, true), (6, true)] {
            let consistency = wanting(5, 7);
            assert_eq!(consistency.accept(processed).is_ok(), is_accepted, "{processed}");
            assert_eq!(consistency.accept_parked(processed).is_ok(), is_accepted, "{processed}");
        }
    }
}
