//! Flow state: the state of logins and authorizations in progress. It is in the memory of NATS and expires soon; if it
//! is lost, the user has to start again, and missing state never counts as success.
//!
//! A **request** waits for a person. It is a message that is found by its sequence and a random part, so none is
//! confused with another if the stream starts again. A **code** is an entry of its own that is written once and
//! replaced once, by compare-and-set.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_nats::jetstream::{
    self,
    kv::{Operation, Store},
    message::PublishMessage,
    stream::{RawMessageErrorKind, Stream},
};
use base::{clock::since_start, secret};
use bytes::Bytes;
use futures::TryStreamExt;
use jiff::Timestamp;
use quick_cache::sync::Cache;

use crate::{
    cas,
    log::{LogFailure, nats},
    streams,
};

const CODES: &str = "CODES";
/// The header with the random part of a request's name.
const RANDOM: &str = "Random";
/// The length of the random part in characters: 130 bits.
const RANDOM_LENGTH: usize = 22;
/// The most requests of an instance that wait at a time.
pub const MOST_OF_INSTANCE: u64 = 20_000;
/// How long a node uses its count of an instance's waiting requests before it counts again.
const COUNTED: Duration = Duration::from_secs(5);
/// The most instances whose counts a node caches.
const MOST_COUNTED: usize = 10_000;
/// The most digits of the sequence in a name.
const LONGEST_SEQUENCE: usize = 20;

/// Requests and codes of all nodes.
#[derive(Debug, Clone)]
pub struct Flow {
    context: jetstream::Context,
    requests: Stream,
    codes: Store,
    counted: Arc<Cache<String, Counted>>,
}

/// How many requests of an instance wait.
#[derive(Debug, Clone)]
struct Counted {
    waiting: Arc<AtomicU64>,
    /// When they were counted, in milliseconds by [`since_start`].
    at: Arc<AtomicU64>,
}

/// A waiting request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingFlow {
    /// The value that was put.
    pub value: Bytes,
    /// When it was put, by the clock of NATS.
    pub since: Timestamp,
}

/// A code as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// The value that was written.
    pub value: Bytes,
    /// The revision, for compare-and-set.
    revision: u64,
}

impl Flow {
    /// Opens the stream and the bucket, creating them if there are none.
    ///
    /// # Errors
    /// If NATS does not answer, or if an existing one has unusable rules.
    pub async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, LogFailure> {
        let requests = streams::requests(context, replicas).await?;
        let codes = streams::passing_bucket(context, CODES, replicas).await?;
        let counted = Arc::new(Cache::new(MOST_COUNTED));
        Ok(Self { context: context.clone(), requests, codes, counted })
    }

    /// Stores a request of an instance, and returns its name; `None` if the instance has the most that may wait. If one
    /// origin has too many, its oldest is removed. The origin consists of letters and digits.
    ///
    /// # Errors
    /// If NATS does not answer or is full.
    pub async fn put(&self, instance_id: &str, origin: &str, value: Bytes) -> Result<Option<String>, LogFailure> {
        let waiting = self.waiting(instance_id).await?;
        if waiting.fetch_add(1, Relaxed) >= MOST_OF_INSTANCE {
            return Ok(None);
        }
        let random = secret::random_text(RANDOM_LENGTH);
        let message = PublishMessage::build().payload(value).header(RANDOM, random.as_str());
        let sent = self.context.send_publish(streams::request_subject(instance_id, origin), message);
        let sequence = sent.await.map_err(nats)?.await.map_err(nats)?.sequence;
        Ok(Some(format!("{sequence}-{random}")))
    }

    /// Returns the request of an instance with this name, if it still waits.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn find(&self, instance_id: &str, name: &str) -> Result<Option<PendingFlow>, LogFailure> {
        let Some((sequence, random)) = parts(name) else { return Ok(None) };
        let message = match self.requests.get_raw_message(sequence).await {
            Ok(message) => message,
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => return Ok(None),
            Err(error) => return Err(nats(error)),
        };
        let is_it = message.headers.get(RANDOM).is_some_and(|known| known.as_str() == random)
            && message.subject.starts_with(&streams::request_subject(instance_id, ""));
        let since = Timestamp::from_nanosecond(message.time.unix_timestamp_nanos()).unwrap_or_default();
        Ok(is_it.then_some(PendingFlow { value: message.payload, since }))
    }

    /// Removes a request, if it exists.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn remove(&self, instance_id: &str, name: &str) -> Result<(), LogFailure> {
        let Some((sequence, _)) = parts(name) else { return Ok(()) };
        if self.find(instance_id, name).await?.is_none() {
            return Ok(());
        }
        self.requests.delete_message(sequence).await.map_err(nats)?;
        if let Some(Counted { waiting, .. }) = self.counted.get(instance_id) {
            let _ = waiting.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
        }
        Ok(())
    }

    /// Writes a code under a new name. Returns whether the name was new.
    ///
    /// # Errors
    /// If NATS does not answer: then it may have been written.
    pub async fn write(&self, name: &str, value: Bytes) -> Result<bool, LogFailure> {
        self.compare_and_set(name, value, 0).await
    }

    /// Returns the code with this name.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn read(&self, name: &str) -> Result<Option<Code>, LogFailure> {
        if parts(name).is_none() {
            return Ok(None);
        }
        let entry = self.codes.entry(name).await.map_err(nats)?;
        let entry = entry.filter(|entry| entry.operation == Operation::Put);
        Ok(entry.map(|entry| Code { value: entry.value, revision: entry.revision }))
    }

    /// Replaces a code by a value that nobody else writes, if it is unchanged since it was read. If the answer is lost,
    /// the code is read to find out.
    ///
    /// # Errors
    /// If the outcome is unknown.
    pub async fn replace(&self, name: &str, code: &Code, value: Bytes) -> Result<bool, LogFailure> {
        match self.compare_and_set(name, value.clone(), code.revision).await {
            Ok(is_replaced) => Ok(is_replaced),
            Err(_) => Ok(self.read(name).await?.is_some_and(|found| found.value == value)),
        }
    }

    async fn compare_and_set(&self, name: &str, value: Bytes, revision: u64) -> Result<bool, LogFailure> {
        let message = PublishMessage::build().payload(value).expected_last_subject_sequence(revision);
        Ok(cas::publish(&self.context, format!("$KV.{CODES}.{name}"), message).await?.is_some())
    }

    /// Returns the number of waiting requests of an instance, as far as this node knows. While one caller counts again,
    /// others use the last count.
    async fn waiting(&self, instance_id: &str) -> Result<Arc<AtomicU64>, LogFailure> {
        let now = u64::try_from(since_start().as_millis()).unwrap_or(u64::MAX);
        let Some(counted) = self.counted.get(instance_id) else {
            let waiting = Arc::new(AtomicU64::new(self.count(instance_id).await?));
            self.counted.insert(instance_id.to_owned(), Counted { waiting: waiting.clone(), at: Arc::new(now.into()) });
            return Ok(waiting);
        };
        let at = counted.at.load(Relaxed);
        let is_old = Duration::from_millis(now.saturating_sub(at)) > COUNTED;
        if is_old && counted.at.compare_exchange(at, now, Relaxed, Relaxed).is_ok() {
            counted.waiting.store(self.count(instance_id).await?, Relaxed);
        }
        Ok(counted.waiting)
    }

    async fn count(&self, instance_id: &str) -> Result<u64, LogFailure> {
        let filter = streams::request_subject(instance_id, ">");
        let counts = self.requests.info_with_subjects(filter).await.map_err(nats)?;
        let counts: Vec<(String, usize)> = counts.try_collect().await.map_err(nats)?;
        Ok(counts.into_iter().map(|(_, count)| count as u64).sum())
    }
}

/// Splits a name into the sequence and the random part; `None` if it cannot be one.
fn parts(name: &str) -> Option<(u64, &str)> {
    let (sequence, random) = name.split_once('-')?;
    // Each name has only one spelling.
    let is_number = sequence.len() <= LONGEST_SEQUENCE
        && !sequence.starts_with('0')
        && sequence.bytes().all(|byte| byte.is_ascii_digit());
    let is_random = random.len() == RANDOM_LENGTH && random.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_number && is_random).then_some(())?;
    Some((sequence.parse().ok()?, random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_sequence_and_something_random() {
        let random = secret::random_text(RANDOM_LENGTH);
        assert_eq!(parts(&format!("7-{random}")), Some((7, random.as_str())));
        let long = format!("{}-{random}", "9".repeat(21));
        for other in [
            "",
            "7",
            "7-",
            "-abc",
            "0-1234567890123456789012",
            "07-1234567890123456789012",
            "7-12345678901234567890.1",
            &long,
        ] {
            assert_eq!(parts(other), None, "{other}");
        }
    }
}
