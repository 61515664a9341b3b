//! The queue of deliveries: a stream from which a delivery is taken when it is done, with those that were given up
//! beside it, and the place of the reaction in the log.

use std::time::Duration;

use async_nats::jetstream::{
    self,
    consumer::{DeliverPolicy, pull::OrderedConfig},
    kv::{CreateErrorKind, Store, UpdateErrorKind},
    message::PublishMessage,
    stream::{self, DiscardPolicy, RetentionPolicy, StorageType},
};
use futures::{Stream, StreamExt, TryStreamExt, future::try_join_all};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use store::{record::Position, streams};

use super::{Failure, payload::Delivery};

/// For how long a delivery that is put in twice is taken as one.
const DUPLICATES: Duration = Duration::from_mins(2);
/// How many deliveries are on their way to a lane at most.
const MOST_IN_FLIGHT: i64 = 64;
/// The bucket of the places of reactions.
const PLACES: &str = "REACTIONS";
const PLACE: &str = "actions";

/// The queue of a shard.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    context: jetstream::Context,
    stream: stream::Stream,
    places: Store,
    shard: u16,
}

/// A delivery that is in the queue.
#[derive(Debug)]
pub struct Waiting {
    /// Where in the queue.
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
    /// When.
    pub failed_at: Timestamp,
}

/// The place of the reaction in the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Place {
    sequence: u64,
    stream_sequence: u64,
    digest: String,
}

fn name(shard: u16) -> String {
    format!("ACTIONS_{shard}")
}

fn subject(shard: u16, state: &str, delivery: &Delivery) -> String {
    format!("actions.{shard}.{state}.{}.{}", delivery.instance_id, delivery.target_id)
}

impl Queue {
    pub(super) async fn open(context: &jetstream::Context, shard: u16, replicas: usize) -> Result<Self, Failure> {
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
        let stream = streams::open(context, config).await?;
        let places = streams::bucket(context, PLACES, replicas, Duration::ZERO).await?;
        Ok(Self { context: context.clone(), stream, places, shard })
    }

    /// The subjects that have deliveries.
    pub(super) async fn subjects(&self) -> Result<Vec<String>, Failure> {
        let filter = format!("actions.{}.todo.>", self.shard);
        let mut found = self.stream.info_with_subjects(filter).await.map_err(Failure::nats)?;
        let mut subjects = vec![];
        while let Some((subject, _)) = found.try_next().await.map_err(Failure::nats)? {
            subjects.push(subject);
        }
        Ok(subjects)
    }

    /// Whether a subject has deliveries.
    pub(super) async fn has(&self, subject: &str) -> Result<bool, Failure> {
        let mut found = self.stream.info_with_subjects(subject).await.map_err(Failure::nats)?;
        Ok(found.try_next().await.map_err(Failure::nats)?.is_some())
    }

    /// Puts deliveries in, in their order, and tells where.
    pub(super) async fn put(&self, deliveries: &[Delivery]) -> Result<Vec<String>, Failure> {
        let (mut subjects, mut answers) = (vec![], vec![]);
        for delivery in deliveries {
            let subject = subject(self.shard, "todo", delivery);
            answers.push(self.publish(subject.clone(), &delivery.id, delivery).await?);
            subjects.push(subject);
        }
        try_join_all(answers.into_iter().map(IntoFuture::into_future)).await.map_err(Failure::nats)?;
        Ok(subjects)
    }

    async fn publish(
        &self,
        subject: String,
        id: &str,
        content: &impl Serialize,
    ) -> Result<jetstream::context::PublishAckFuture, Failure> {
        let content = serde_json::to_vec(content).map_err(Failure::nats)?;
        let message = PublishMessage::build().payload(content.into()).message_id(id);
        self.context.send_publish(subject, message).await.map_err(Failure::nats)
    }

    /// The deliveries of a subject, the oldest first, and those that come.
    pub(super) async fn follow(
        &self,
        subject: &str,
    ) -> Result<impl Stream<Item = Result<Waiting, Failure>> + Unpin + use<>, Failure> {
        let config = OrderedConfig {
            filter_subject: subject.to_owned(),
            deliver_policy: DeliverPolicy::All,
            max_batch: MOST_IN_FLIGHT,
            ..OrderedConfig::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(Failure::nats)?;
        let messages = consumer.messages().await.map_err(Failure::nats)?;
        Ok(Box::pin(messages.map(|message| {
            let message = message.map_err(Failure::nats)?;
            let place = message.info().map_err(|error| Failure::Nats(error.to_string()))?.stream_sequence;
            let delivery = serde_json::from_slice(&message.payload).map_err(Failure::nats)?;
            Ok(Waiting { place, delivery })
        })))
    }

    /// Takes a delivery out.
    pub(super) async fn done(&self, place: u64) -> Result<(), Failure> {
        self.stream.delete_message(place).await.map_err(Failure::nats)?;
        Ok(())
    }

    /// Keeps a delivery among those that were given up.
    pub(super) async fn give_up(&self, place: u64, failed: &Failed) -> Result<(), Failure> {
        let subject = subject(self.shard, "failed", &failed.delivery);
        let id = format!("{}.failed", failed.delivery.id);
        self.publish(subject, &id, failed).await?.await.map_err(Failure::nats)?;
        self.done(place).await
    }

    /// Where the reaction stands, with the revision that a move must name.
    pub(super) async fn place(&self) -> Result<Option<(Position, u64)>, Failure> {
        let entry = self.places.entry(PLACE).await.map_err(Failure::nats)?;
        Ok(entry.and_then(|entry| Some((position(&entry.value)?, entry.revision))))
    }

    /// Moves the reaction, unless somebody else has.
    pub(super) async fn moved(&self, to: Position, revision: Option<u64>) -> Result<u64, Failure> {
        let Position { sequence, stream_sequence, digest } = to;
        let place = Place { sequence, stream_sequence, digest: hex::encode(digest) };
        let value = serde_json::to_vec(&place).map_err(Failure::nats)?.into();
        match revision {
            Some(revision) => match self.places.update(PLACE, value, revision).await {
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Err(Failure::Fenced),
                moved => moved.map_err(Failure::nats),
            },
            None => match self.places.create(PLACE, value).await {
                Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Err(Failure::Fenced),
                created => created.map_err(Failure::nats),
            },
        }
    }
}

fn position(value: &[u8]) -> Option<Position> {
    let Place { sequence, stream_sequence, digest } = serde_json::from_slice(value).ok()?;
    let mut bytes = [0; 32];
    hex::decode_to_slice(digest, &mut bytes).ok()?;
    Some(Position { sequence, stream_sequence, digest: bytes })
}

/// What is in the queue: what waits, and what was given up. Nothing is created or changed.
///
/// # Errors
/// When NATS does not answer, or there is no queue.
pub async fn list(
    context: &jetstream::Context,
    shard: u16,
) -> Result<(Vec<Waiting>, Vec<Failed>), store::log::Failure> {
    let failure = |error: Failure| store::log::Failure::Nats(error.to_string());
    let mut stream = context.get_stream(name(shard)).await.map_err(|error| failure(Failure::nats(error)))?;
    let end = stream.info().await.map_err(|error| failure(Failure::nats(error)))?.state.clone();
    let (mut waiting, mut failed) = (vec![], vec![]);
    if end.messages == 0 {
        return Ok((waiting, failed));
    }
    let consumer =
        stream.create_consumer(OrderedConfig::default()).await.map_err(|error| failure(Failure::nats(error)))?;
    let mut messages = consumer.messages().await.map_err(|error| failure(Failure::nats(error)))?;
    while let Some(message) = messages.next().await {
        let message = message.map_err(|error| failure(Failure::nats(error)))?;
        let info = message.info().map_err(|error| store::log::Failure::Nats(error.to_string()))?;
        let (place, is_last) = (info.stream_sequence, info.pending == 0);
        if message.subject.contains(".failed.") {
            failed.extend(serde_json::from_slice::<Failed>(&message.payload));
        } else if let Ok(delivery) = serde_json::from_slice(&message.payload) {
            waiting.push(Waiting { place, delivery });
        }
        if is_last {
            break;
        }
    }
    Ok((waiting, failed))
}
