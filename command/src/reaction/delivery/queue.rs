//! The queue of deliveries: a stream from which a delivery is deleted when it is done, and which also has those that
//! were given up; and the checkpoint of the relay.

use std::{borrow::Cow, collections::HashSet, time::Duration};

use async_nats::jetstream::{
    self, ErrorCode,
    consumer::{DeliverPolicy, pull::OrderedConfig},
    message::PublishMessage,
    response::Response,
    stream::{self, DiscardPolicy, RawMessageErrorKind, RetentionPolicy, StorageType},
};
use base::explain::explain;
use bytes::Bytes;
use eventlog::streams;
use futures::{Stream, StreamExt, TryStreamExt, future::try_join_all};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::timeout;
use view::failed_event::given_up::GivenUp;

use super::{super::checkpoint::CheckpointStore, DeliveryFailure, payload::Delivery, room::Used};

/// How long a delivery that is put in twice counts as one.
const DUPLICATES: Duration = Duration::from_mins(2);
/// How many deliveries are on their way to the worker of a target at most.
const MOST_IN_FLIGHT: i64 = 64;
/// How many deliveries are put in at a time.
const MOST_AT_ONCE: usize = 256;
/// How long a list waits for the next delivery.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// The queue of a shard.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    context: jetstream::Context,
    stream: stream::Stream,
    /// The checkpoint of the relay.
    pub(super) checkpoint: CheckpointStore,
    shard: u16,
}

/// A delivery that is in the queue.
#[derive(Debug)]
pub struct QueuedDelivery {
    /// The place in the queue.
    pub place: u64,
    /// The delivery.
    pub delivery: Delivery,
}

/// A delivery that was given up.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// The delivery.
    pub delivery: Delivery,
    /// How often it was tried.
    pub tries: u32,
    /// Why the last try failed.
    pub error: String,
    /// When the first of these tries failed; absent in deliveries that earlier builds gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failed_at: Option<Timestamp>,
    /// When the last try failed.
    pub failed_at: Timestamp,
}

/// How many deliveries there are.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// How many wait.
    pub(super) waiting: u64,
    /// Since when the first of them waits.
    pub(super) waits_since: Option<Timestamp>,
    /// How many were given up.
    pub(super) given_up: u64,
    /// What they use of the queue.
    pub(super) used: Used,
}

/// A delivery that was given up, as it is listed.
pub(super) struct Listed {
    /// The place in the queue.
    pub(super) place: u64,
    /// The delivery, if it can be read.
    pub(super) given_up: Option<GivenUp>,
    /// The number of deliveries after it in the list.
    pub(super) behind: u64,
}

fn name(shard: u16) -> String {
    format!("ACTIONS_{shard}")
}

fn subject(shard: u16, state: &str, delivery: &Delivery) -> String {
    format!("actions.{shard}.{state}.{}.{}", delivery.instance_id, delivery.target_id)
}

impl Queue {
    pub(super) async fn open(client: async_nats::Client, shard: u16, replicas: usize) -> Result<Self, DeliveryFailure> {
        // A context of its own: publishes that wait for answers here must not keep the log from writing.
        let context = jetstream::new(client);
        let config = stream::Config {
            name: name(shard),
            subjects: vec![format!("actions.{shard}.>")],
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            num_replicas: replicas,
            allow_direct: false,
            duplicate_window: DUPLICATES,
            ..stream::Config::default()
        };
        let stream = streams::open(&context, config).await?;
        let checkpoint = CheckpointStore::open(&context, replicas, "actions").await?;
        Ok(Self { context, stream, checkpoint, shard })
    }

    /// Returns the subjects that have deliveries.
    pub(super) async fn subjects(&self) -> Result<Vec<String>, DeliveryFailure> {
        let filter = format!("actions.{}.todo.>", self.shard);
        let mut found = self.stream.info_with_subjects(filter).await.map_err(DeliveryFailure::nats)?;
        let mut subjects = vec![];
        while let Some((subject, _)) = found.try_next().await.map_err(DeliveryFailure::nats)? {
            subjects.push(subject);
        }
        Ok(subjects)
    }

    /// Whether a subject has deliveries.
    pub(super) async fn has(&self, subject: &str) -> Result<bool, DeliveryFailure> {
        let mut found = self.stream.info_with_subjects(subject).await.map_err(DeliveryFailure::nats)?;
        Ok(found.try_next().await.map_err(DeliveryFailure::nats)?.is_some())
    }

    /// Puts deliveries in, each once under its name, and returns their subjects. Deliveries of one aggregate to one
    /// target are put in one after another: of two on their way, the first may be lost and be put in again after the
    /// second.
    pub(super) async fn put(
        &self,
        deliveries: Vec<(Cow<'_, str>, &Delivery)>,
    ) -> Result<HashSet<String>, DeliveryFailure> {
        let (mut subjects, mut rest) = (HashSet::new(), deliveries);
        while !rest.is_empty() {
            let (mut under_way, mut answers, mut later) = (HashSet::new(), vec![], vec![]);
            for (name, delivery) in rest {
                let is_first = under_way.insert((&delivery.target_id, &delivery.aggregate));
                if !is_first || answers.len() >= MOST_AT_ONCE {
                    later.push((name, delivery));
                    continue;
                }
                let subject = subject(self.shard, "todo", delivery);
                answers.push(self.publish(subject.clone(), &name, delivery).await?);
                subjects.insert(subject);
            }
            try_join_all(answers.into_iter().map(IntoFuture::into_future)).await.map_err(DeliveryFailure::nats)?;
            rest = later;
        }
        Ok(subjects)
    }

    async fn publish(
        &self,
        subject: String,
        id: &str,
        content: &impl Serialize,
    ) -> Result<jetstream::context::PublishAckFuture, DeliveryFailure> {
        let content = serde_json::to_vec(content).map_err(DeliveryFailure::nats)?;
        let message = PublishMessage::build().payload(content.into()).message_id(id);
        self.context.send_publish(subject, message).await.map_err(DeliveryFailure::nats)
    }

    /// Returns the deliveries of a subject, the oldest first, and then new ones. One that cannot be read stays where it
    /// is.
    pub(super) async fn follow(
        &self,
        subject: &str,
    ) -> Result<impl Stream<Item = Result<QueuedDelivery, DeliveryFailure>> + Unpin + use<>, DeliveryFailure> {
        let config = OrderedConfig {
            filter_subject: subject.to_owned(),
            deliver_policy: DeliverPolicy::All,
            max_batch: MOST_IN_FLIGHT,
            ..OrderedConfig::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(DeliveryFailure::nats)?;
        let messages = consumer.messages().await.map_err(DeliveryFailure::nats)?;
        Ok(Box::pin(messages.filter_map(async |message| {
            let read = message.map_err(DeliveryFailure::nats).and_then(|message| {
                let place = message.info().map_err(|error| DeliveryFailure::Nats(error.to_string()))?.stream_sequence;
                Ok(waiting(place, &message.payload))
            });
            read.transpose()
        })))
    }

    /// Returns the delivery at a place; `None` if it is gone.
    pub(super) async fn at(&self, place: u64) -> Result<Option<QueuedDelivery>, DeliveryFailure> {
        Ok(self.message(place).await?.and_then(|payload| waiting(place, &payload)))
    }

    /// Deletes a delivery from the queue, if it is there. It is not overwritten on disk, which would take several times
    /// as long.
    pub(super) async fn done(&self, place: u64) -> Result<(), DeliveryFailure> {
        let asked = json!({ "seq": place, "no_erase": true });
        let subject = format!("STREAM.MSG.DELETE.{}", name(self.shard));
        match self.context.request(subject, &asked).await.map_err(DeliveryFailure::nats)? {
            Response::<Value>::Ok(_) => Ok(()),
            Response::Err { error } if error.error_code() == ErrorCode::SEQUENCE_NOT_FOUND => Ok(()),
            Response::Err { error } => Err(DeliveryFailure::nats(error)),
        }
    }

    /// Adds the delivery at a place to those that were given up. A delivery that is made again has another place.
    pub(super) async fn give_up(&self, place: u64, failed: &Failed) -> Result<(), DeliveryFailure> {
        let subject = subject(self.shard, "failed", &failed.delivery);
        let id = format!("{}.failed.{place}", failed.delivery.id);
        self.publish(subject, &id, failed).await?.await.map_err(DeliveryFailure::nats)?;
        Ok(())
    }

    /// Returns how many deliveries are given up now, and a stream of them, the first one first, and then of new ones.
    pub(super) async fn follow_given_up(
        &self,
    ) -> Result<(u64, impl Stream<Item = Result<Listed, DeliveryFailure>> + Unpin + use<>), DeliveryFailure> {
        let filter_subject = format!("actions.{}.failed.>", self.shard);
        let config = OrderedConfig { filter_subject, deliver_policy: DeliverPolicy::All, ..OrderedConfig::default() };
        let consumer = self.stream.create_consumer(config).await.map_err(DeliveryFailure::nats)?;
        let count = consumer.cached_info().num_pending;
        let messages = consumer.messages().await.map_err(DeliveryFailure::nats)?;
        let listed = messages.map(|message| {
            let message = message.map_err(DeliveryFailure::nats)?;
            let info = message.info().map_err(|error| DeliveryFailure::Nats(error.to_string()))?;
            let failed = read::<Failed>(info.stream_sequence, &message.payload);
            let given_up = failed.map(|failed| failed.given_up(info.stream_sequence));
            Ok(Listed { place: info.stream_sequence, given_up, behind: info.pending })
        });
        Ok((count, Box::pin(listed)))
    }

    /// Returns the delivery that was given up and is at a place; `None` if it is gone or cannot be read.
    pub(super) async fn given_up_at(&self, place: u64) -> Result<Option<Delivery>, DeliveryFailure> {
        let payload = self.message(place).await?;
        Ok(payload.and_then(|payload| read::<Failed>(place, &payload)).map(|failed| failed.delivery))
    }

    /// Counts the deliveries.
    pub(super) async fn counted(&self) -> Result<Counted, DeliveryFailure> {
        let oldest = self.stream.get_first_raw_message_by_subject(format!("actions.{}.todo.>", self.shard), 1).await;
        let since = match oldest {
            Ok(message) => Timestamp::from_nanosecond(message.time.unix_timestamp_nanos()).ok(),
            Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => None,
            Err(error) => return Err(DeliveryFailure::nats(error)),
        };
        let filter = format!("actions.{}.>", self.shard);
        let mut found = self.stream.info_with_subjects(filter).await.map_err(DeliveryFailure::nats)?;
        let mut counted = Counted { waits_since: since, ..Counted::default() };
        counted.used.bytes = found.info.state.bytes;
        while let Some((subject, count)) = found.try_next().await.map_err(DeliveryFailure::nats)? {
            let (mut parts, count) = (subject.split('.').skip(2), count as u64);
            match parts.next() {
                Some("todo") => counted.waiting += count,
                _ => counted.given_up += count,
            }
            if let (Some(instance_id), Some(target_id)) = (parts.next(), parts.next()) {
                counted.used.add(instance_id, target_id, count);
            }
        }
        Ok(counted)
    }

    async fn message(&self, place: u64) -> Result<Option<Bytes>, DeliveryFailure> {
        match self.stream.get_raw_message(place).await {
            Ok(message) => Ok(Some(message.payload)),
            Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(DeliveryFailure::nats(error)),
        }
    }
}

impl Failed {
    /// Returns it as people find it among failed events, with its place in the queue.
    fn given_up(self, place: u64) -> GivenUp {
        let Self { delivery, tries, error, first_failed_at, failed_at } = self;
        let key = delivery.key();
        let Delivery { id: delivery_id, target_id, sequence, .. } = delivery;
        let first_failed_at = first_failed_at.unwrap_or(failed_at);
        GivenUp { place, delivery_id, key, sequence, target_id, tries, error, first_failed_at, failed_at }
    }
}

fn waiting(place: u64, payload: &[u8]) -> Option<QueuedDelivery> {
    read(place, payload).map(|delivery| QueuedDelivery { place, delivery })
}

fn read<T: DeserializeOwned>(place: u64, payload: &[u8]) -> Option<T> {
    let read = serde_json::from_slice(payload);
    read.inspect_err(|error| {
        tracing::error!(place, error = explain(error), "a delivery cannot be read, and stays in the queue");
    })
    .ok()
}

/// Lists the deliveries that wait and those that were given up, without creating or changing anything.
///
/// # Errors
/// When NATS does not answer, or there is no queue.
pub async fn list(
    context: &jetstream::Context,
    shard: u16,
) -> Result<(Vec<QueuedDelivery>, Vec<Failed>), eventlog::log::LogFailure> {
    let failure = |error: DeliveryFailure| eventlog::log::LogFailure::Nats(error.to_string());
    let mut stream = context.get_stream(name(shard)).await.map_err(|error| failure(DeliveryFailure::nats(error)))?;
    let end = stream.info().await.map_err(|error| failure(DeliveryFailure::nats(error)))?.state.clone();
    let (mut waiting, mut failed) = (vec![], vec![]);
    if end.messages == 0 {
        return Ok((waiting, failed));
    }
    let consumer = stream
        .create_consumer(OrderedConfig::default())
        .await
        .map_err(|error| failure(DeliveryFailure::nats(error)))?;
    let mut messages = consumer.messages().await.map_err(|error| failure(DeliveryFailure::nats(error)))?;
    // The delivery that was the last may be done meanwhile.
    while let Ok(Some(message)) = timeout(SILENCE, messages.next()).await {
        let message = message.map_err(|error| failure(DeliveryFailure::nats(error)))?;
        let info = message.info().map_err(|error| eventlog::log::LogFailure::Nats(error.to_string()))?;
        let (place, is_last) = (info.stream_sequence, info.pending == 0);
        if message.subject.contains(".failed.") {
            failed.extend(serde_json::from_slice::<Failed>(&message.payload));
        } else if let Ok(delivery) = serde_json::from_slice(&message.payload) {
            waiting.push(QueuedDelivery { place, delivery });
        }
        if is_last {
            break;
        }
    }
    Ok((waiting, failed))
}
