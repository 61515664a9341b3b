//! Target workers: each makes the deliveries of one target. A target that fails holds up itself alone, and of its
//! deliveries only those of the same aggregate.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use action::{client::Call, executions::CallableTarget};
use base::{clock, explain::explain, metric::catalog::DELIVERIES};
use bytes::Bytes;
use futures::StreamExt;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};
use view::attempts::Outcome;

use super::{
    Deliveries, DeliveryFailure,
    payload::{BodyFailure, Delivery},
    queue::{Failed, Queue, QueuedDelivery},
};

/// How many deliveries of a worker are under way at most.
const WINDOW: usize = 64;
/// How many more deliveries a worker knows of, which wait for one of the same aggregate.
const KNOWN: usize = 64 * 1024;
/// How long a worker without deliveries stays.
const IDLE: Duration = Duration::from_secs(30);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The pause before a worker that failed begins again.
const PAUSE: Duration = Duration::from_millis(500);
/// How many wakes may wait.
const WAKES: usize = 1024;

/// All target workers of a node.
pub(super) struct TargetWorkers {
    deliveries: Arc<Deliveries>,
    queue: Queue,
    woken: mpsc::Receiver<String>,
    open: HashSet<String>,
    running: JoinSet<String>,
}

impl TargetWorkers {
    /// Creates workers for these subjects, and for those that are sent to the channel.
    pub(super) fn new(
        deliveries: Arc<Deliveries>,
        queue: Queue,
        subjects: Vec<String>,
    ) -> (Self, mpsc::Sender<String>) {
        let (wake, woken) = mpsc::channel(WAKES);
        let mut workers = Self { deliveries, queue, woken, open: HashSet::new(), running: JoinSet::new() };
        for subject in subjects {
            workers.open(subject);
        }
        (workers, wake)
    }

    /// Starts a worker for each subject with deliveries. A worker that has ended is started again if something arrived
    /// in the meantime.
    pub(super) async fn run(mut self) -> Result<Infallible, DeliveryFailure> {
        loop {
            tokio::select! {
                Some(subject) = self.woken.recv() => self.open(subject),
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => {
                    let subject = ended.map_err(DeliveryFailure::nats)?;
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
                if let Err(failure) = TargetWorker::new(deliveries, queue).run(&subject).await {
                    tracing::warn!(error = explain(&failure), "the worker of a target is restarted");
                    sleep(PAUSE).await;
                }
                subject
            });
        }
    }
}

/// Makes the deliveries of one target.
struct TargetWorker {
    deliveries: Arc<Deliveries>,
    queue: Queue,
    /// For each aggregate with a delivery under way: the places in the queue of those that wait for it.
    waiting: HashMap<String, VecDeque<u64>>,
    /// How many deliveries wait in all.
    known: usize,
    running: JoinSet<Result<Done, DeliveryFailure>>,
    /// The deletions from the queue, which no delivery waits for.
    ending: JoinSet<Result<(), DeliveryFailure>>,
}

/// A delivery that was made or given up.
struct Done {
    aggregate: String,
    /// The place of the delivery, unless it was gone.
    place: Option<u64>,
}

impl TargetWorker {
    fn new(deliveries: Arc<Deliveries>, queue: Queue) -> Self {
        let (running, ending) = (JoinSet::new(), JoinSet::new());
        Self { deliveries, queue, waiting: HashMap::new(), known: 0, running, ending }
    }

    async fn run(mut self, subject: &str) -> Result<(), DeliveryFailure> {
        let mut waiting = self.queue.follow(subject).await?;
        loop {
            let is_idle = self.running.is_empty() && self.ending.is_empty();
            let has_room = self.running.len() < WINDOW && self.ending.len() < WINDOW && self.known < KNOWN;
            tokio::select! {
                next = timeout(IDLE, waiting.next()), if has_room => match next {
                    Ok(Some(next)) => self.take(next?),
                    Ok(None) => return Ok(()),
                    Err(_) if is_idle => return Ok(()),
                    Err(_) => {}
                },
                Some(done) = self.running.join_next(), if !self.running.is_empty() => {
                    let Done { aggregate, place } = done.map_err(DeliveryFailure::nats)??;
                    if let Some(place) = place {
                        let queue = self.queue.clone();
                        self.ending.spawn(async move { queue.done(place).await });
                    }
                    self.next(aggregate);
                }
                Some(ended) = self.ending.join_next(), if !self.ending.is_empty() => ended.map_err(DeliveryFailure::nats)??,
            }
        }
    }

    fn take(&mut self, waiting: QueuedDelivery) {
        let QueuedDelivery { place, delivery } = waiting;
        if let Some(others) = self.waiting.get_mut(&delivery.aggregate) {
            others.push_back(place);
            self.known += 1;
            return;
        }
        self.waiting.insert(delivery.aggregate.clone(), VecDeque::new());
        self.begin(delivery.aggregate.clone(), place, Some(delivery));
    }

    /// Begins the next delivery of an aggregate, of which one is done.
    fn next(&mut self, aggregate: String) {
        let Some(place) = self.waiting.get_mut(&aggregate).and_then(VecDeque::pop_front) else {
            self.waiting.remove(&aggregate);
            return;
        };
        self.known -= 1;
        self.begin(aggregate, place, None);
    }

    /// Begins a delivery, which is read from the queue if it is not given.
    fn begin(&mut self, aggregate: String, place: u64, delivery: Option<Delivery>) {
        let (deliveries, queue) = (self.deliveries.clone(), self.queue.clone());
        self.running.spawn(async move {
            let delivery = match delivery {
                Some(delivery) => Some(delivery),
                None => queue.at(place).await?.map(|waiting| waiting.delivery),
            };
            let Some(delivery) = delivery else { return Ok(Done { aggregate, place: None }) };
            deliveries.deliver(&queue, place, delivery).await?;
            Ok(Done { aggregate, place: Some(place) })
        });
    }
}

/// The outcome of one attempt.
enum AttemptOutcome {
    /// The target has received it.
    Delivered,
    /// The target is gone, or may not get the event.
    Dropped,
    /// The target has not received it yet.
    NotYet(Wrong),
}

/// Why an attempt failed.
enum Wrong {
    /// The target was called, and this is what went wrong.
    Refused(String),
    /// The target was not called, because there is no body.
    NoBody(BodyFailure),
}

impl Deliveries {
    /// Tries until the delivery at a place succeeds or is given up. Then it can be deleted from the queue.
    async fn deliver(&self, queue: &Queue, place: u64, mut delivery: Delivery) -> Result<(), DeliveryFailure> {
        // A target that does not exist at that sequence is gone.
        self.actions.executions.position().wait_for(delivery.sequence).await;
        let (mut tries, mut first_failed_at, has_body) = (0, None, delivery.body.is_some());
        loop {
            let wrong = match self.try_once(&mut delivery).await {
                AttemptOutcome::Delivered => {
                    base::fault::point("deliveries.delivered");
                    self.attempts.add(&delivery, tries + 1, Outcome::Delivered, "");
                    DELIVERIES.with(&["ok"]).count();
                    return Ok(());
                }
                AttemptOutcome::Dropped => {
                    DELIVERIES.with(&["dropped"]).count();
                    return Ok(());
                }
                // What is unavailable on this side is not the target's fault.
                AttemptOutcome::NotYet(Wrong::NoBody(failure)) if failure.is_outage() => {
                    let error = explain(&failure);
                    // Thousands may wait for history, and an alert tells of it.
                    if !matches!(failure, BodyFailure::HistoryLags) {
                        tracing::warn!(delivery = delivery.id, error, "a delivery cannot be composed yet");
                    }
                    sleep(pause(self.patience.pause, tries + 1)).await;
                    continue;
                }
                AttemptOutcome::NotYet(wrong) => wrong,
            };
            tries += 1;
            let first_failed_at = Some(*first_failed_at.get_or_insert_with(clock::now));
            let is_vain = matches!(&wrong, Wrong::NoBody(BodyFailure::Unknown(name)) if self.unknown.has_waited(name));
            let is_last = tries >= self.patience.tries || is_vain;
            let error = self.failed(&delivery, tries, wrong, is_last);
            if is_last {
                delivery.body.take_if(|_| !has_body);
                let failed = Failed { delivery, tries, error, first_failed_at, failed_at: clock::now() };
                queue.give_up(place, &failed).await?;
                base::fault::point("deliveries.kept");
                return Ok(());
            }
            sleep(pause(self.patience.pause, tries)).await;
        }
    }

    async fn try_once(&self, delivery: &mut Delivery) -> AttemptOutcome {
        let Some(called) = self.actions.executions.target(&delivery.instance_id, &delivery.target_id) else {
            return AttemptOutcome::Dropped;
        };
        match delivery.complete(&self.database, &self.persons, self.shard).await {
            Ok(Some(body)) => match self.call(&called, delivery, body).await {
                Ok(()) => AttemptOutcome::Delivered,
                Err(error) => AttemptOutcome::NotYet(Wrong::Refused(error)),
            },
            Ok(None) => AttemptOutcome::Dropped,
            Err(failure) => AttemptOutcome::NotYet(Wrong::NoBody(failure)),
        }
    }

    /// Reports a try that failed, which may be the last one, and returns the error.
    fn failed(&self, delivery: &Delivery, tries: u32, wrong: Wrong, is_last: bool) -> String {
        let Delivery { id, instance_id: instance, target_id: target, .. } = delivery;
        let (error, is_called) = match wrong {
            Wrong::NoBody(failure @ BodyFailure::Unknown(_)) => {
                let (error, event_type) = (explain(&failure), &delivery.event_type);
                if self.unknown.is_told_of(event_type) {
                    tracing::error!(instance, target, error, "events of a type are not delivered");
                }
                if is_last {
                    self.unknown.waited(event_type);
                    DELIVERIES.with(&["unknown"]).count();
                }
                return error;
            }
            Wrong::NoBody(failure) => (explain(&failure), false),
            Wrong::Refused(error) => (error, true),
        };
        let (counted, noted) = if is_last { ("failed", Outcome::GivenUp) } else { ("retried", Outcome::Failed) };
        DELIVERIES.with(&[counted]).count();
        if is_called {
            self.attempts.add(delivery, tries, noted, &error);
        }
        if is_last {
            tracing::error!(instance, target, delivery = id, error, "an event was not delivered");
        } else {
            tracing::debug!(instance, target, delivery = id, error, "an event will be delivered again");
        }
        error
    }

    /// Calls a target once, and returns what went wrong if it fails.
    async fn call(&self, called: &CallableTarget, delivery: &Delivery, body: Bytes) -> Result<(), String> {
        let call = Call {
            delivery_id: delivery.id.clone(),
            depth: delivery.depth,
            trace_context: delivery.trace_context.clone(),
            body,
        };
        self.actions.client.notify(called, &call).await.map_err(|failure| explain(&failure))
    }
}

/// Returns the pause after so many tries, from half to all of what is due, so that deliveries that failed together are
/// not tried again together.
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
