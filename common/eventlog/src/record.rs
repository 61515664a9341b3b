//! Commit records as stored in the log, and the position of a reader in it.

use std::{borrow::Cow, mem, sync::Arc};

use base::{fault, health::Reached, secret::sha256};
use bytes::Bytes;
use domain::{
    aggregate::Aggregate,
    context::{Owner, OwnerType},
    event::short_name,
    resource::instance::Instance,
    standard::Resource,
};
use jiff::Timestamp;
use prost::Message;
use proto::log;
pub use proto::log::{Answer, CommitRecord, Event, Reference};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

/// One JetStream message of the log.
#[derive(Debug, Clone)]
pub struct Record {
    /// The sequence of the message in the stream, from 1 without holes.
    pub stream_sequence: u64,
    /// SHA-256 of the message.
    pub digest: [u8; 32],
    /// The message, without its events.
    pub commit: CommitRecord,
    /// The events, each with its position in the log.
    pub events: Vec<Arc<Recorded>>,
}

/// The position of a reader: the record that it read last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The sequence of the last event; 0 before the first.
    pub sequence: u64,
    /// The stream sequence of the last record; 0 before the first.
    pub stream_sequence: u64,
    /// The digest of the last record; zeros before the first.
    pub digest: [u8; 32],
}

/// One event with its position in the log.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The dense number of the event in the log, from 1.
    pub sequence: u64,
    /// When its record was committed; it never goes back.
    pub committed_at: Timestamp,
    /// The event.
    pub event: Event,
}

/// Why a message cannot follow the record before it. Nothing after it may be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Broken {
    /// The message is not a commit record.
    #[error(
        "message {stream_sequence} of the log is not a commit record: something other than the platform published it. \
         Nothing after it is read or written until the log ends at the message before it; docs/nats-permissions.md tells \
         how to do that, and how to keep others from publishing"
    )]
    NoRecord {
        /// Its sequence in the stream.
        stream_sequence: u64,
    },
    /// Messages are missing.
    #[error("the log has a hole: message {found} follows message {last}")]
    MessageHole {
        /// The stream sequence before.
        last: u64,
        /// The stream sequence that came.
        found: u64,
    },
    /// Messages are gone from the stream.
    #[error(
        "the log has lost messages: {lost} of {end} are missing, the first of them message {at} or later. Nothing is \
         served or written before the log is restored from a backup (docs/operations.md, \"When the log has lost \
         messages\"); do not drop the read models: they may be the last copy of what is missing"
    )]
    Lost {
        /// The last message that the stream has had.
        end: u64,
        /// How many are missing.
        lost: u64,
        /// The first message that may be missing.
        at: u64,
    },
    /// Events are missing.
    #[error("the log has a hole: event {found} follows event {last} in message {stream_sequence}")]
    EventHole {
        /// The sequence before.
        last: u64,
        /// The sequence that came.
        found: u64,
        /// The message.
        stream_sequence: u64,
    },
    /// The record is of another log.
    #[error("message {stream_sequence} is a record of another log than the one before it")]
    OtherLog {
        /// The message.
        stream_sequence: u64,
    },
    /// The record was written by a writer that had been replaced.
    #[error(
        "message {stream_sequence} is of epoch {found}, but the one before it of epoch {last}: its writer was not fenced"
    )]
    OldEpoch {
        /// The epoch before.
        last: u64,
        /// The epoch that came.
        found: u64,
        /// The message.
        stream_sequence: u64,
    },
    /// The record was not written after the record before it.
    #[error("message {stream_sequence} does not continue the record before it: the digests differ")]
    OtherHistory {
        /// The message.
        stream_sequence: u64,
    },
}

impl Record {
    /// Decodes a message of the log.
    pub fn decode(stream_sequence: u64, payload: &Bytes) -> Result<Self, Broken> {
        let broken = || Broken::NoRecord { stream_sequence };
        let commit = CommitRecord::decode(payload.clone()).map_err(|_| broken())?;
        let is_numbered =
            commit.first_sequence > 0 && commit.first_sequence.checked_add(commit.events.len() as u64).is_some();
        if commit.log_id.len() != 16 || commit.record_id.len() != 16 || commit.epoch == 0 || !is_numbered {
            return Err(broken());
        }
        Ok(Self::new(stream_sequence, sha256(payload), commit))
    }

    /// Creates a record from a message whose stream sequence and digest are known.
    pub fn new(stream_sequence: u64, digest: [u8; 32], mut commit: CommitRecord) -> Self {
        let committed_at = commit_time(&commit);
        let events = mem::take(&mut commit.events).into_iter();
        let numbered = (commit.first_sequence..).zip(events);
        let events = numbered.map(|(sequence, event)| Arc::new(Recorded { sequence, committed_at, event })).collect();
        Self { stream_sequence, digest, commit, events }
    }

    /// Returns the position of a reader after this record.
    pub fn position(&self) -> Position {
        let sequence = self.commit.first_sequence + self.events.len() as u64 - 1;
        Position { sequence, stream_sequence: self.stream_sequence, digest: self.digest }
    }

    /// Returns the position of a reader before this record, according to the record.
    pub fn before(&self) -> Position {
        let digest = self.commit.previous_digest.as_ref().try_into().unwrap_or_default();
        Position { sequence: self.commit.first_sequence - 1, stream_sequence: self.stream_sequence - 1, digest }
    }

    /// Returns when it was committed.
    pub fn committed_at(&self) -> Timestamp {
        commit_time(&self.commit)
    }
}

fn commit_time(commit: &CommitRecord) -> Timestamp {
    Timestamp::from_microsecond(commit.committed_at).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl From<Position> for Reached {
    fn from(Position { sequence, stream_sequence, .. }: Position) -> Self {
        Self { sequence, stream_sequence }
    }
}

impl Position {
    /// Returns the position after a record, if the record continues the log from here.
    pub fn advance(&self, record: &Record) -> Result<Self, Broken> {
        let stream_sequence = record.stream_sequence;
        if stream_sequence != self.stream_sequence + 1 {
            return Err(Broken::MessageHole { last: self.stream_sequence, found: stream_sequence });
        }
        if record.commit.first_sequence != self.sequence + 1 {
            let found = record.commit.first_sequence;
            return Err(Broken::EventHole { last: self.sequence, found, stream_sequence });
        }
        let continues = if self.stream_sequence == 0 {
            record.commit.previous_digest.is_empty()
        } else {
            *record.commit.previous_digest == self.digest
        };
        if continues { Ok(record.position()) } else { Err(Broken::OtherHistory { stream_sequence }) }
    }
}

/// The log and the writer that a record is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    log_id: Bytes,
    incarnation: u32,
    epoch: u64,
}

impl Lineage {
    /// Returns the lineage of a record.
    pub fn of(record: &Record) -> Self {
        let CommitRecord { log_id, incarnation, epoch, .. } = &record.commit;
        Self { log_id: log_id.clone(), incarnation: *incarnation, epoch: *epoch }
    }

    /// Returns the lineage of the next record, if it is of the same log, and of the same writer or a later one.
    pub fn advance(&self, record: &Record) -> Result<Self, Broken> {
        let (next, stream_sequence) = (Self::of(record), record.stream_sequence);
        if next.log_id != self.log_id || next.incarnation < self.incarnation {
            return Err(Broken::OtherLog { stream_sequence });
        }
        if next.epoch < self.epoch {
            return Err(Broken::OldEpoch { last: self.epoch, found: next.epoch, stream_sequence });
        }
        Ok(next)
    }
}

/// Names an aggregate across instances.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AggregateKey {
    /// The instance; empty for what belongs to the system.
    pub instance_id: String,
    /// [`Aggregate::NAME`].
    pub aggregate_type: String,
    /// The id, unique within instance and type.
    pub id: String,
}

impl AggregateKey {
    /// Creates the key of an aggregate of this type with this id.
    pub fn of<A: Aggregate>(instance_id: impl Into<String>, id: impl Into<String>) -> Self {
        Self { instance_id: instance_id.into(), aggregate_type: A::NAME.to_owned(), id: id.into() }
    }
}

impl Recorded {
    /// Returns the aggregate that the event belongs to.
    pub fn key(&self) -> AggregateKey {
        let Event { instance_id, aggregate_type, aggregate_id, .. } = &self.event;
        AggregateKey {
            instance_id: instance_id.clone(),
            aggregate_type: aggregate_type.clone(),
            id: aggregate_id.clone(),
        }
    }

    /// Returns when the aggregate began to exist.
    pub fn created_at(&self) -> Timestamp {
        Timestamp::from_microsecond(self.event.created_at).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Returns the context that the aggregate belongs to.
    pub fn owner(&self) -> Owner {
        owner_of(self.event.owner_type, self.event.owner_id.clone())
    }

    /// Whether the instance may see the event: events of the system are hidden, except for those of the instance
    /// itself.
    pub fn is_for_instance(&self) -> bool {
        self.event.owner_type != owner_type(OwnerType::System) || self.event.aggregate_type == Instance::NAME
    }
}

/// Returns the number of a level in the log.
pub fn owner_type(kind: OwnerType) -> i32 {
    let kind = match kind {
        OwnerType::System => log::OwnerType::System,
        OwnerType::Instance => log::OwnerType::Instance,
        OwnerType::Organization => log::OwnerType::Org,
    };
    kind.into()
}

/// Returns the context of a level, by the level's number in the log.
pub fn owner_of(number: i32, id: String) -> Owner {
    let kind = match log::OwnerType::try_from(number) {
        Ok(log::OwnerType::Org) => OwnerType::Organization,
        Ok(log::OwnerType::Instance) => OwnerType::Instance,
        Ok(log::OwnerType::System | log::OwnerType::Unspecified) | Err(_) => OwnerType::System,
    };
    Owner { kind, id }
}

/// The error for an event that this build cannot read.
#[derive(Debug, thiserror::Error)]
#[error("cannot decode event {sequence} ({event_type}, revision {revision})")]
pub struct Undecodable {
    /// The event.
    pub sequence: u64,
    /// Its type.
    pub event_type: String,
    /// Its revision.
    pub revision: u32,
    /// The error of the decoder.
    #[source]
    pub source: Option<serde_json::Error>,
}

impl Undecodable {
    /// Whether a newer build wrote the event, so that this one is outdated: the event has a type, a revision or a kind
    /// of value that this build does not know.
    pub fn is_newer(&self) -> bool {
        // serde has no other way to distinguish this from a broken payload.
        self.source.as_ref().is_none_or(|error| error.to_string().starts_with("unknown variant"))
    }
}

/// Decodes an event of an aggregate type.
pub fn decode<A: Aggregate>(recorded: &Recorded) -> Result<A::Event, Undecodable> {
    let Event { r#type, revision, payload, .. } = &recorded.event;
    let undecodable =
        |source| Undecodable { sequence: recorded.sequence, event_type: r#type.clone(), revision: *revision, source };
    let name = short_name(A::NAME, r#type).filter(|_| *revision <= A::REVISION).ok_or_else(|| undecodable(None))?;
    let data = std::str::from_utf8(payload).unwrap_or_default();
    let data = match *revision {
        // Events without a revision are of the first one.
        earlier if earlier.max(1) < A::REVISION => {
            Cow::Owned(upcast::<A>(earlier.max(1), name, data).map_err(|error| undecodable(Some(error)))?)
        }
        _ => Cow::Borrowed(data),
    };
    let tagged = if data.is_empty() {
        format!(r#"{{"type":"{name}"}}"#)
    } else {
        format!(r#"{{"type":"{name}","data":{data}}}"#)
    };
    serde_json::from_str(&tagged).map_err(|error| undecodable(Some(error)))
}

/// Brings the payload of an event to the current shape, one revision after the other.
fn upcast<A: Aggregate>(revision: u32, event: &str, payload: &str) -> Result<String, serde_json::Error> {
    let payload = if payload.is_empty() { Value::Null } else { serde_json::from_str(payload)? };
    let current = (revision..A::REVISION).fold(payload, |payload, revision| A::upcast(revision, event, payload));
    Ok(if current.is_null() { String::new() } else { current.to_string() })
}

/// Encodes an event as its type and payload.
pub fn encode<A: Aggregate>(event: &A::Event) -> (String, Bytes) {
    #[derive(Serialize, Deserialize)]
    struct Tagged<'a> {
        r#type: &'a str,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let text = serde_json::to_string(event).expect("events are plain data");
    let tagged: Tagged = serde_json::from_str(&text).expect("events are tagged with type and data");
    let payload = match tagged.data {
        Some(data) if tagged.r#type == "added" && fault::is_next_version() => as_of_the_next_version(data),
        Some(data) => Bytes::copy_from_slice(data.get().as_bytes()),
        None => Bytes::new(),
    };
    (format!("{}.{}", A::NAME, tagged.r#type), payload)
}

/// Simulates the next version, whose resources, and the items of their lists, have an additional member that nodes of
/// this version must not lose.
fn as_of_the_next_version(payload: &RawValue) -> Bytes {
    fn add(members: &mut Map<String, Value>) {
        members.insert("of_the_next_version".to_owned(), json!({ "kept": true }));
    }
    let mut members: Map<String, Value> = serde_json::from_str(payload.get()).unwrap_or_default();
    let lists = members.values_mut().filter_map(Value::as_array_mut);
    lists.flatten().filter_map(Value::as_object_mut).for_each(add);
    add(&mut members);
    Value::Object(members).to_string().into()
}

#[cfg(test)]
mod tests;
