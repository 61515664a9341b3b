//! Lanes: the deliveries of one target each. A target that fails holds up itself alone, and of its deliveries only those
//! of the same aggregate.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use store::{clock, explain::explain, metric::catalog::DELIVERIES};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    Deliveries, Failure,
    queue::{Failed, Queue, Waiting},
};
use crate::client::Call;

/// How many deliveries of a lane are in memory.
const WINDOW: usize = 64;
/// How long a lane without deliveries stays.
const IDLE: Duration = Duration::from_secs(30);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The pause before a lane that failed begins again.
const PAUSE: Duration = Duration::from_millis(500);
/// How many wakes may wait.
const WAKES: usize = 1024;

/// All lanes of a node.
pub(super) struct Lanes {
    deliveries: Arc<Deliveries>,
    queue: Queue,
    woken: mpsc::Receiver<String>,
    open: HashSet<String>,
    running: JoinSet<(String, Result<(), Failure>)>,
}

impl Lanes {
    pub(super) fn new(deliveries: Arc<Deliveries>, queue: Queue) -> (Self, mpsc::Sender<String>) {
        let (wake, woken) = mpsc::channel(WAKES);
        (Self { deliveries, queue, woken, open: HashSet::new(), running: JoinSet::new() }, wake)
    }

    /// Opens a lane where there is something to deliver. One that has ended is opened again when something came in the
    /// meantime.
    pub(super) async fn run(mut self) -> Result<Infallible, Failure> {
        loop {
            tokio::select! {
                Some(subject) = self.woken.recv() => self.open(subject),
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => {
                    let (subject, ended) = ended.map_err(Failure::nats)?;
                    if let Err(failure) = ended {
                        tracing::warn!(error = explain(&failure), "the deliveries of a target begin again");
                        sleep(PAUSE).await;
                    }
                    self.open.remove(&subject);
                    if self.queue.has(&subject).await? {
                        self.open(subject);
                    }
                }
            }
        }
    }

    fn open(&mut self, subject: String) {
        if self.open.insert(subject.clone()) {
            let (deliveries, queue) = (self.deliveries.clone(), self.queue.clone());
            self.running.spawn(async move {
                let ended =
                    Lane { deliveries, queue, queues: HashMap::new(), running: JoinSet::new() }.run(&subject).await;
                (subject, ended)
            });
        }
    }
}

/// The deliveries of one target.
struct Lane {
    deliveries: Arc<Deliveries>,
    queue: Queue,
    /// What waits behind the delivery of an aggregate that is under way.
    queues: HashMap<String, VecDeque<Waiting>>,
    running: JoinSet<Result<String, Failure>>,
}

impl Lane {
    async fn run(mut self, subject: &str) -> Result<(), Failure> {
        let mut waiting = self.queue.follow(subject).await?;
        loop {
            let in_memory = self.running.len() + self.queues.values().map(VecDeque::len).sum::<usize>();
            tokio::select! {
                next = timeout(IDLE, waiting.next()), if in_memory < WINDOW => match next {
                    Ok(Some(next)) => self.take(next?),
                    Ok(None) => return Ok(()),
                    Err(_) if in_memory == 0 => return Ok(()),
                    Err(_) => {}
                },
                Some(done) = self.running.join_next(), if !self.running.is_empty() => {
                    let aggregate = done.map_err(Failure::nats)??;
                    self.next(&aggregate);
                }
            }
        }
    }

    fn take(&mut self, waiting: Waiting) {
        match self.queues.get_mut(&waiting.delivery.aggregate) {
            Some(behind) => behind.push_back(waiting),
            None => {
                self.queues.insert(waiting.delivery.aggregate.clone(), VecDeque::new());
                self.begin(waiting);
            }
        }
    }

    fn next(&mut self, aggregate: &str) {
        match self.queues.get_mut(aggregate).and_then(VecDeque::pop_front) {
            Some(next) => self.begin(next),
            None => drop(self.queues.remove(aggregate)),
        }
    }

    fn begin(&mut self, waiting: Waiting) {
        let (deliveries, queue) = (self.deliveries.clone(), self.queue.clone());
        self.running.spawn(async move {
            let aggregate = waiting.delivery.aggregate.clone();
            deliveries.deliver(&queue, waiting).await?;
            Ok(aggregate)
        });
    }
}

impl Deliveries {
    /// Tries until the delivery succeeds or is given up.
    async fn deliver(&self, queue: &Queue, waiting: Waiting) -> Result<(), Failure> {
        let Waiting { place, delivery } = waiting;
        let call = Call {
            delivery_id: delivery.id.clone(),
            depth: delivery.depth,
            trace_context: delivery.trace_context.clone(),
            body: delivery.body.get().to_owned().into(),
        };
        // A target that is not there then is gone.
        self.actions.book.reaches(delivery.sequence).await;
        let mut tries = 0;
        loop {
            let Some(called) = self.actions.book.target(&delivery.instance_id, &delivery.target_id) else {
                DELIVERIES.with(&["dropped"]).count();
                return queue.done(place).await;
            };
            tries += 1;
            let Err(failure) = self.actions.client.call(&called, &call).await else {
                store::fault::point("deliveries.delivered");
                DELIVERIES.with(&["ok"]).count();
                return queue.done(place).await;
            };
            let (instance, target, error) = (&delivery.instance_id, &delivery.target_id, explain(&failure));
            if tries >= self.patience.tries {
                tracing::error!(instance, target, delivery = delivery.id, error, "an event was not delivered");
                DELIVERIES.with(&["failed"]).count();
                let failed = Failed { delivery, tries, error, failed_at: clock::now() };
                return queue.give_up(place, &failed).await;
            }
            tracing::debug!(instance, target, delivery = delivery.id, error, "an event will be delivered again");
            DELIVERIES.with(&["retried"]).count();
            sleep(pause(self.patience.pause, tries)).await;
        }
    }
}

/// The pause after so many tries, from half to all of what is due, so that what failed together does not come back
/// together.
fn pause(first: Duration, tries: u32) -> Duration {
    let due = first.saturating_mul(2_u32.saturating_pow(tries.saturating_sub(1))).min(LONGEST_PAUSE);
    due.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let first = Duration::from_secs(1);
        for (tries, due) in [(1, 1), (2, 2), (5, 16), (9, 256), (10, 300), (u32::MAX, 300)] {
            let pause = pause(first, tries);
            let due = Duration::from_secs(due);
            assert!(pause <= due && pause >= due / 2, "{tries}: {pause:?}");
        }
    }
}
