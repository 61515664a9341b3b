//! What operators decide about deliveries that were given up: they are made again, in order, or taken out of the queue.
//!
//! The relay meets a decision in the log and keeps it beside its place before it goes on, so none is lost that was met. It is forgotten
//! when it is done; what is done twice because somebody died meanwhile has the same id.

use std::{convert::Infallible, sync::Arc};

use base::fault;
use domain::{
    aggregate::Aggregate,
    failed_event::{Event as Decision, FailedEvent, Filter, Retried},
};
use eventlog::record::{Recorded, decode};
use tokio::sync::{Notify, mpsc};
use view::failed_event::delivery::{GivenUp, VIEW};

use super::{
    DeliveryFailure,
    decisions::Kept,
    payload::Delivery,
    queue::{Failed, Queue},
};

/// Does what was decided.
pub(super) struct Mender {
    queue: Queue,
    decided: Arc<Notify>,
    wake: mpsc::Sender<String>,
}

/// What a decision is about, where it is about deliveries.
pub(super) fn decision(recorded: &Recorded) -> Option<Decision> {
    if recorded.event.aggregate_type != FailedEvent::NAME {
        return None;
    }
    let decision = decode::<FailedEvent>(recorded).ok()?;
    let other = |filter: &Filter| matches!(filter, Filter::View(name) if name != VIEW);
    match &decision {
        Decision::Retried(retried) if retried.filters.iter().any(other) => None,
        Decision::Discarded(discarded) if discarded.view != VIEW => None,
        _ => Some(decision),
    }
}

impl Mender {
    /// One that does what is kept, and again when it hears that there is more.
    pub(super) fn new(queue: Queue, decided: Arc<Notify>, wake: mpsc::Sender<String>) -> Self {
        Self { queue, decided, wake }
    }

    pub(super) async fn run(self) -> Result<Infallible, DeliveryFailure> {
        loop {
            while let Some(Kept { sequence, id, decision }) = self.queue.decisions.first().await? {
                match decision {
                    Decision::Retried(retried) => self.retry(sequence, &retried).await?,
                    Decision::Discarded(discarded) => self.discard(&id, &discarded.instance_id).await?,
                }
                fault::point("deliveries.mended");
                self.queue.decisions.forget(sequence).await?;
            }
            self.decided.notified().await;
        }
    }

    /// Puts what is meant in again, the oldest event first, and only then takes it from among those that were given up.
    async fn retry(&self, sequence: u64, Retried { filters, until }: &Retried) -> Result<(), DeliveryFailure> {
        let is_meant = |given_up: &GivenUp| {
            given_up.parked.sequence <= *until && filters.iter().all(|filter| given_up.meets(filter))
        };
        let instance_id = filters.iter().find_map(|filter| match filter {
            Filter::InstanceId(id) => Some(id.as_str()),
            _ => None,
        });
        let mut meant = vec![];
        self.queue
            .each_failed(instance_id, |given_up| {
                if is_meant(&given_up) {
                    meant.push((given_up.parked.sequence, given_up.place));
                }
            })
            .await?;
        meant.sort_unstable();
        tracing::info!(count = meant.len(), "deliveries are made again that were given up");
        for (_, place) in meant {
            let Some(Failed { delivery, .. }) = self.queue.failed_at(place).await? else { continue };
            let subject = self.again(&delivery, sequence, place).await?;
            fault::point("deliveries.again");
            self.queue.done(place).await?;
            // The workers live as long as this.
            let _ = self.wake.send(subject).await;
        }
        Ok(())
    }

    /// One that was given up again has another place, so that a decision that is carried out twice does not lose it.
    async fn again(&self, delivery: &Delivery, sequence: u64, place: u64) -> Result<String, DeliveryFailure> {
        self.queue.put_again(delivery, &format!("{}.again.{sequence}.{place}", delivery.id)).await
    }

    async fn discard(&self, id: &str, instance_id: &str) -> Result<(), DeliveryFailure> {
        let id: u64 = id.parse().unwrap_or(u64::MAX);
        let mut meant = vec![];
        let each = |given_up: GivenUp| {
            if given_up.id == id {
                meant.push(given_up.place);
            }
        };
        self.queue.each_failed(Some(instance_id), each).await?;
        for place in meant {
            self.queue.done(place).await?;
        }
        Ok(())
    }
}
