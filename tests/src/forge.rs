//! Writes records to a log as its writer could have: large ones, quickly.

use async_nats::jetstream::{
    self,
    stream::{Config, DiscardPolicy},
};
use base::{clock, secret};
use bytes::Bytes;
use domain::{
    aggregate::Aggregate,
    context::OwnerType,
    failed_event::{self, FailedEvent, Retried},
    log_class::LogClass,
    resource::target::{DEFAULT_TIMEOUT_MS, Mode, SignatureKey, Target, TargetKind},
    secret::Sealed,
    standard::{self, Standard},
    token_revocation::{self, Revoked, TokenRevocation},
};
use eventlog::{
    log::Log,
    record::{AggregateKey, CommitRecord, Event, Record, encode, owner_type},
};
use jiff::SignedDuration;
use prost::Message;

use crate::eventually;

/// A log that a test writes as it likes, without any fence.
#[derive(Debug)]
pub struct Forged {
    context: jetstream::Context,
    last: Record,
}

impl Forged {
    /// Creates a stream whose messages can be deleted, with a barrier record in it.
    pub async fn begin(client: async_nats::Client) -> Self {
        let context = jetstream::new(client);
        let config = Config { discard: DiscardPolicy::New, ..stream() };
        // NATS may still be removing the files of a former stream.
        eventually("NATS takes it", || async { context.create_stream(config.clone()).await.ok() }).await;
        let barrier = CommitRecord {
            log_id: secret::random::<16>().to_vec().into(),
            incarnation: 1,
            epoch: 1,
            record_id: secret::random::<16>().to_vec().into(),
            first_sequence: 1,
            committed_at: clock::now().as_microsecond(),
            ..CommitRecord::default()
        };
        let last = Self::send(&context, barrier).await;
        Self { context, last }
    }

    /// Appends a record with these events after `spoil` has changed it, and returns its stream sequence.
    pub async fn put(&mut self, events: Vec<Event>, spoil: impl FnOnce(&mut CommitRecord)) -> u64 {
        let mut record = next(&self.last, self.last.commit.epoch, events);
        spoil(&mut record);
        self.last = Self::send(&self.context, record).await;
        self.last.stream_sequence
    }

    async fn send(context: &jetstream::Context, record: CommitRecord) -> Record {
        let bytes = record.encode_to_vec();
        let digest = secret::sha256(&bytes);
        let sent = context.publish("events.0", bytes.into()).await.expect("NATS is there");
        Record::new(sent.await.expect("the stream takes it").sequence, digest, record)
    }
}

/// Returns the configuration of a log's stream as the platform makes it, except that messages can be deleted.
fn stream() -> Config {
    Config { name: "EVENTS_0".into(), subjects: vec!["events.0".into()], ..Config::default() }
}

/// Returns an event that changes a target.
pub fn changed(id: &str, version: u64) -> Event {
    Event {
        id: secret::random_text(22),
        instance_id: "1".into(),
        owner_type: owner_type(OwnerType::Instance),
        aggregate_type: "target".into(),
        aggregate_id: id.into(),
        version,
        r#type: "target.changed".into(),
        payload: "{}".into(),
        actor: "a test".into(),
        ..Event::default()
    }
}

/// The number of events of a record.
const EVENTS: u64 = 16;
/// The approximate size of a record in bytes, near the limit.
const BYTES: usize = 500_000;

/// Appends records that create targets, until they have this many bytes, and returns the ids of the targets.
///
/// No other node may write meanwhile. Like every writer, it begins with a barrier record of an epoch of its own.
pub async fn append(client: async_nats::Client, instance_id: &str, bytes: usize) -> Vec<String> {
    let log = Log::open(client, LogClass::Events, 0, 1).await.expect("the log can be opened");
    let mut last = log.last().await.expect("the log can be read").expect("the log was set up");
    let epoch = last.commit.epoch + 1;
    last = publish(&log, &last, next(&last, epoch, vec![])).await;
    let (mut appended, mut ids) = (0, vec![]);
    while appended < bytes {
        let events: Vec<Event> = (0..EVENTS).map(|number| created(instance_id, ids.len() as u64 + number)).collect();
        ids.extend(events.iter().map(|event| event.aggregate_id.clone()));
        let record = next(&last, epoch, events);
        appended += record.encoded_len();
        last = publish(&log, &last, record).await;
    }
    println!("{appended} bytes in {} targets were appended", ids.len());
    ids
}

/// Appends an empty record that was committed some time in the future. So is every record after it.
pub async fn append_later(client: async_nats::Client, by: SignedDuration) {
    let log = Log::open(client, LogClass::Events, 0, 1).await.expect("the log can be opened");
    let last = log.last().await.expect("the log can be read").expect("the log was set up");
    let committed_at = (clock::now() + by).as_microsecond();
    publish(&log, &last, CommitRecord { committed_at, ..next(&last, last.commit.epoch + 1, vec![]) }).await;
}

/// Appends an event of a type that only the next version of the platform has, to a target that has one event.
pub async fn append_newer(client: async_nats::Client, instance_id: &str, id: &str) {
    let log = Log::open(client, LogClass::Events, 0, 1).await.expect("the log can be opened");
    let last = log.last().await.expect("the log can be read").expect("the log was set up");
    let newer = Event {
        aggregate_id: id.to_owned(),
        version: 2,
        r#type: "target.archived".to_owned(),
        payload: r#"{"reason":"old"}"#.into(),
        ..created(instance_id, 0)
    };
    let epoch = last.commit.epoch + 1;
    let barrier = publish(&log, &last, next(&last, epoch, vec![])).await;
    publish(&log, &barrier, next(&barrier, epoch, vec![newer])).await;
}

/// Appends a record that revokes a token for the first time, committed some time in the future.
pub async fn append_revocation(client: async_nats::Client, instance_id: &str, token_id: &str, by: SignedDuration) {
    let log = Log::open(client, LogClass::Sessions, 0, 1).await.expect("the log can be opened");
    let last = log.last().await.expect("the log can be read").expect("the log was set up");
    let key = AggregateKey::of::<TokenRevocation>(instance_id, token_id);
    let revoked = Revoked { user_id: "7".into(), client_id: "8".into(), expires_at: 0, is_all: false };
    let (r#type, payload) = encode::<TokenRevocation>(&token_revocation::Event::Revoked(revoked));
    let event = Event {
        owner_id: instance_id.to_owned(),
        aggregate_type: key.aggregate_type,
        aggregate_id: key.id,
        r#type,
        payload,
        restores: true,
        ..created(instance_id, 0)
    };
    let committed_at = (clock::now() + by).as_microsecond();
    publish(&log, &last, CommitRecord { committed_at, ..next(&last, last.commit.epoch, vec![event]) }).await;
}

/// A writer that appends records to a log, and is the only one.
#[derive(Debug)]
pub struct Appending {
    log: Log,
    last: Record,
}

impl Appending {
    /// Begins with a barrier record of an epoch of its own, as every writer does. No other node may write from then on.
    pub async fn begin(client: async_nats::Client) -> Self {
        let log = Log::open(client, LogClass::Events, 0, 1).await.expect("the log can be opened");
        let last = log.last().await.expect("the log can be read").expect("the log was set up");
        let last = publish(&log, &last, next(&last, last.commit.epoch + 1, vec![])).await;
        Self { log, last }
    }

    /// Appends a record with these events, committed some time ago.
    pub async fn put(&mut self, events: Vec<Event>, ago: SignedDuration) {
        let record = next(&self.last, self.last.commit.epoch, events);
        let committed_at = (clock::now() - ago).as_microsecond();
        self.last = publish(&self.log, &self.last, CommitRecord { committed_at, ..record }).await;
    }

    /// Returns the sequence of the last event.
    pub fn end(&self) -> u64 {
        self.last.position().sequence
    }
}

/// Returns an event that gives a target a name. The first one creates it.
pub fn named(instance_id: &str, (id, version): (&str, u64), name: &str) -> Event {
    let target = Target {
        name: name.to_owned(),
        kind: TargetKind::RestWebhook,
        url: "https://example.com/hook".into(),
        timeout_ms: DEFAULT_TIMEOUT_MS,
        mode: Mode::Continue,
        signing_keys: vec![],
    };
    let event = match version {
        1 => standard::Event::Added(target.into()),
        _ => standard::Event::Changed { to: target.into(), fields: vec!["name".into()] },
    };
    of_target(instance_id, (id, version), &event)
}

/// Returns the event of an operator who retries all failed events up to a sequence.
pub fn retried(until: u64) -> Event {
    let retried = Retried { until, ..Retried::of(vec![]) };
    let (r#type, payload) = encode::<FailedEvent>(&failed_event::Event::Retried(retried));
    of_failed_events(r#type, payload)
}

/// Returns the event that discards a failed event, with a payload that may be damaged.
pub fn discarded(payload: &'static [u8]) -> Event {
    of_failed_events(format!("{}.discarded", FailedEvent::NAME), Bytes::from_static(payload))
}

fn of_failed_events(r#type: String, payload: Bytes) -> Event {
    Event {
        owner_type: owner_type(OwnerType::System),
        aggregate_type: FailedEvent::NAME.to_owned(),
        aggregate_id: secret::random_text(22),
        version: 1,
        r#type,
        payload,
        ..by_a_test()
    }
}

/// Appends one record with many small events of one aggregate, committed some time ago.
pub async fn append_small(client: async_nats::Client, count: u64, ago: SignedDuration) {
    let log = Log::open(client, LogClass::Events, 0, 1).await.expect("the log can be opened");
    let last = log.last().await.expect("the log can be read").expect("the log was set up");
    let epoch = last.commit.epoch + 1;
    let barrier = publish(&log, &last, next(&last, epoch, vec![])).await;
    let events = (1..=count).map(|version| changed("small", version)).collect();
    let committed_at = (clock::now() - ago).as_microsecond();
    publish(&log, &barrier, CommitRecord { committed_at, ..next(&barrier, epoch, events) }).await;
}

/// Appends a record that creates a target with a name that no writer would accept, and returns the id of the target.
pub async fn append_named(client: async_nats::Client, instance_id: &str, name: &str) -> String {
    let log = Log::open(client, LogClass::Events, 0, 1).await.expect("the log can be opened");
    let last = log.last().await.expect("the log can be read").expect("the log was set up");
    let epoch = last.commit.epoch + 1;
    let barrier = publish(&log, &last, next(&last, epoch, vec![])).await;
    let mut event = created(instance_id, 1_000_000);
    let mut payload: serde_json::Value = serde_json::from_slice(&event.payload).expect("it is JSON");
    payload["name"] = name.into();
    event.payload = payload.to_string().into();
    let id = event.aggregate_id.clone();
    publish(&log, &barrier, next(&barrier, epoch, vec![event])).await;
    id
}

/// Returns the record with these events that continues the last one.
pub fn next(last: &Record, epoch: u64, events: Vec<Event>) -> CommitRecord {
    CommitRecord {
        log_id: last.commit.log_id.clone(),
        incarnation: last.commit.incarnation,
        epoch,
        record_id: secret::random::<16>().to_vec().into(),
        first_sequence: last.position().sequence + 1,
        committed_at: clock::now().as_microsecond().max(last.commit.committed_at),
        previous_digest: last.digest.to_vec().into(),
        purged_to: last.commit.purged_to,
        events,
        answers: vec![],
    }
}

async fn publish(log: &Log, behind: &Record, record: CommitRecord) -> Record {
    let bytes = record.encode_to_vec();
    let digest = secret::sha256(&bytes);
    let place = log.publish(bytes.into(), behind.stream_sequence).await.expect("nobody else writes");
    Record::new(place, digest, record)
}

fn created(instance_id: &str, number: u64) -> Event {
    let id = format!("9{number:017}");
    // A sealed key is only copied, so that the size of the record is its only cost.
    let sealed = secret::random_text(BYTES / usize::try_from(EVENTS).expect("there are few") - 600);
    let target = Target {
        name: format!("large {number}"),
        kind: TargetKind::RestWebhook,
        url: "https://example.com/hook".into(),
        timeout_ms: DEFAULT_TIMEOUT_MS,
        mode: Mode::Continue,
        signing_keys: vec![SignatureKey { sealed: Sealed::new(sealed), valid_until: None }],
    };
    of_target(instance_id, (&id, 1), &standard::Event::Added(target.into()))
}

fn of_target(instance_id: &str, (id, version): (&str, u64), event: &standard::Event<Target>) -> Event {
    let key = AggregateKey::of::<Standard<Target>>(instance_id, id);
    let (r#type, payload) = encode::<Standard<Target>>(event);
    Event {
        instance_id: key.instance_id,
        owner_type: owner_type(OwnerType::Instance),
        owner_id: instance_id.to_owned(),
        aggregate_type: key.aggregate_type,
        aggregate_id: key.id,
        version,
        r#type,
        revision: Standard::<Target>::REVISION,
        payload,
        ..by_a_test()
    }
}

/// Returns the common fields of all events of tests.
fn by_a_test() -> Event {
    Event {
        id: secret::random_text(22),
        restores: true,
        actor: "a test".into(),
        command_id: secret::random::<16>().to_vec().into(),
        created_at: clock::now().as_microsecond(),
        ..Event::default()
    }
}
