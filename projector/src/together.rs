//! Requests of the units of a process that are alike, answered by one statement for all.
//!
//! Whoever comes first asks for all who wait by then; those who come meanwhile are the next to be asked for. So the cost
//! of a record that concerns few projections does not grow with the number of projections.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Mutex as Turn, oneshot},
    task::yield_now,
    time::sleep,
};

/// Requests that wait for their answer, which is whether they succeeded.
pub(crate) struct Together<R> {
    waiting: Mutex<Vec<(R, oneshot::Sender<bool>)>>,
    turn: Turn<()>,
    /// How long it is waited for further requests.
    gathered_for: Duration,
}

impl<R> Together<R> {
    pub(crate) fn new(gathered_for: Duration) -> Self {
        Self { waiting: Mutex::default(), turn: Turn::default(), gathered_for }
    }

    /// Makes a request together with others. Returns `false` if it did not succeed, or nobody knows whether it did: then
    /// it is to be made alone.
    pub(crate) async fn ask<F: Future<Output = Vec<bool>>>(&self, request: R, ask: impl FnOnce(Vec<R>) -> F) -> bool {
        let (answer, mut answered) = oneshot::channel();
        self.with_waiting(|waiting| waiting.push((request, answer)));
        let _turn = tokio::select! {
            biased;
            answered = &mut answered => return answered.unwrap_or(false),
            turn = self.turn.lock() => turn,
        };
        if self.gathered_for.is_zero() {
            yield_now().await;
        } else {
            sleep(self.gathered_for).await;
        }
        let waiting = self.with_waiting(std::mem::take);
        let (requests, answers): (Vec<R>, Vec<_>) =
            waiting.into_iter().filter(|(_, answer)| !answer.is_closed()).unzip();
        for (answer, succeeded) in answers.into_iter().zip(ask(requests).await) {
            // Whoever has gone needs no answer.
            let _ = answer.send(succeeded);
        }
        answered.try_recv().unwrap_or(false)
    }

    fn with_waiting<T>(&self, change: impl FnOnce(&mut Vec<(R, oneshot::Sender<bool>)>) -> T) -> T {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    };

    use futures::{future::join_all, poll};

    use super::*;

    #[tokio::test]
    async fn whoever_comes_meanwhile_is_answered_by_the_next_request() {
        let (together, asked) = (Together::new(Duration::ZERO), AtomicU32::new(0));
        let ask = |number: u32| {
            together.ask(number, async |numbers: Vec<u32>| {
                asked.fetch_add(1, Relaxed);
                yield_now().await;
                numbers.iter().map(|number| number % 3 == 0).collect()
            })
        };
        let answers = join_all((0..100).map(ask)).await;
        assert_eq!(answers, (0..100).map(|number| number % 3 == 0).collect::<Vec<_>>());
        assert_eq!(asked.load(Relaxed), 1, "all came before the first one was asked");
    }

    #[tokio::test]
    async fn what_is_given_up_or_not_answered_has_to_be_asked_alone() {
        let together = Arc::new(Together::new(Duration::ZERO));
        let (hold, end) = oneshot::channel::<()>();
        let mut first = Box::pin(together.ask(1, async |_| {
            let _ = end.await;
            vec![true]
        }));
        for _ in 0..3 {
            assert!(poll!(&mut first).is_pending());
        }
        let mut second = Box::pin(together.ask(2, async |all| vec![true; all.len()]));
        let mut third = Box::pin(together.ask(3, async |_| vec![]));
        assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
        drop(second);
        // The one that asked for others has gone.
        drop((first, hold));
        assert!(!third.await, "an answer is missing");
        assert!(together.ask(4, async |all| vec![true; all.len()]).await, "others go on");
    }
}
