//! Seats for work that occupies a processor while it runs, such as searches: instances take turns.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base::fair::Turns;
use tokio::{sync::oneshot, time::timeout};

/// How long somebody waits for a seat.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A fixed number of seats.
#[derive(Clone)]
pub struct Seats(Arc<Mutex<Occupancy>>);

struct Occupancy {
    free: usize,
    waiting: Turns<Arc<str>, oneshot::Sender<Seat>>,
}

/// A seat, which passes to the next in turn when it is dropped.
pub struct Seat(Seats);

impl Seats {
    /// Creates a number of free seats.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Occupancy { free: count, waiting: Turns::default() })))
    }

    /// Waits for a seat; `None` when too many others wait.
    pub async fn take(&self, instance_id: &str) -> Option<Seat> {
        let seat = {
            let mut taken = self.lock();
            // While somebody waits, no seat is free.
            if taken.free > 0 {
                taken.free -= 1;
                return Some(Seat(self.clone()));
            }
            let (giver, seat) = oneshot::channel();
            taken.waiting.push(instance_id.into(), giver);
            seat
        };
        timeout(LONGEST_WAIT, seat).await.ok()?.ok()
    }

    fn lock(&self) -> MutexGuard<'_, Occupancy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next task that still waits. If there is none, a seat becomes free.
    fn next(&self) -> Option<oneshot::Sender<Seat>> {
        let mut taken = self.lock();
        while let Some((_, giver)) = taken.waiting.pop() {
            if !giver.is_closed() {
                return Some(giver);
            }
        }
        taken.free += 1;
        None
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(giver) = self.0.next() {
            // If the receiver is gone by now, the seat is dropped, and passes to the next one.
            let _ = giver.send(Self(self.0.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{sync::mpsc, task::yield_now};

    use super::*;

    #[tokio::test]
    async fn instances_take_seats_in_turns_and_whoever_has_gone_keeps_none() {
        let seats = Seats::new(1);
        let first = seats.take("greedy").await.expect("it is free");
        let (served, mut order) = mpsc::unbounded_channel();
        let mut waiting = vec![];
        for (number, instance_id) in ["greedy", "greedy", "greedy", "gone", "quiet"].into_iter().enumerate() {
            let (seats, served) = (seats.clone(), served.clone());
            waiting.push(tokio::spawn(async move {
                let _seat = seats.take(instance_id).await;
                served.send(number).expect("the test goes on");
            }));
            yield_now().await;
        }
        waiting[3].abort();
        yield_now().await;
        drop(first);
        let mut all = vec![];
        for _ in 0..4 {
            all.push(order.recv().await.expect("all are served"));
        }
        assert_eq!(all, [0, 4, 1, 2], "the quiet one does not wait for all of the greedy one");
        yield_now().await;
        assert!(seats.take("other").await.is_some());
        assert_eq!(seats.lock().free, 1);
    }
}
