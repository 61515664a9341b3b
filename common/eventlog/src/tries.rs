//! Tries of something that may fail only so often, such as a password: counted in JetStream KV before their outcome is
//! known, on all nodes and across restarts, and forgotten a day after the last one.

use std::time::Duration;

use async_nats::jetstream::{
    self,
    kv::{Operation, Store},
    message::PublishMessage,
};
use base::clock;

use crate::{
    cas,
    log::{LogFailure, nats},
    streams,
};

const BUCKET: &str = "TRIES";
/// After this many tries, and again after as many more, the next one has to wait a second longer.
const FREE: u64 = 5;
/// The longest wait, in seconds.
const LONGEST: u64 = 10;
/// How often counting is repeated when another try was counted first.
const ROUNDS: usize = 8;
/// How long the mark for forgotten tries stays. The broker counts in whole seconds.
const MARKED: Duration = Duration::from_secs(1);

/// The tries of all keys, on all nodes.
#[derive(Debug, Clone)]
pub struct Tries {
    context: jetstream::Context,
    store: Store,
}

/// Identifies the tries that are counted together.
#[derive(Debug, Clone)]
pub struct Counting {
    /// The key: letters, digits, `-`, `_` and `.` only.
    pub key: String,
    /// The subject among those that share the key, without `:`. The count starts again when another subject was counted
    /// meanwhile.
    pub of: String,
    /// The start from which they count: a number that is greater after an event that lets somebody start again.
    pub since: u64,
    /// Whether a greater start resets the count; otherwise the count goes on.
    pub begins: bool,
}

/// The outcome of counting a try.
#[derive(Debug)]
pub enum Counted {
    /// It may be made.
    Try(Try),
    /// It must not be made before this time has passed, and does not count.
    TooEarly(Duration),
    /// It must not be made, and does not count: the count was reset after the caller read the start.
    Late,
}

/// A try that counts as failed until it is forgotten or taken back.
#[derive(Debug)]
pub struct Try {
    key: String,
    revision: u64,
    before: Option<RecordedTries>,
    /// The number of tries, including this one, since the last that did not fail.
    pub count: u64,
}

/// The tries that were made: their subject, start and number, and when the last one was, in milliseconds since the Unix
/// epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RecordedTries {
    of: String,
    since: u64,
    count: u64,
    at: i64,
}

impl Tries {
    /// Opens the bucket, creating it if there is none.
    ///
    /// # Errors
    /// If NATS does not answer, or if the existing bucket has unusable rules.
    pub async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, LogFailure> {
        let store = streams::forgetful_bucket(context, BUCKET, streams::TRIES_FORGOTTEN_AFTER, replicas).await?;
        Ok(Self { context: context.clone(), store })
    }

    /// Counts a try. Concurrent tries are all counted.
    ///
    /// # Errors
    /// If NATS does not answer or is full: then the try must not be made, and may have been counted.
    pub async fn count(&self, counting: &Counting) -> Result<Counted, LogFailure> {
        let Counting { key, of, .. } = counting;
        for _ in 0..ROUNDS {
            let entry = self.store.entry(key).await.map_err(nats)?;
            let revision = entry.as_ref().map_or(0, |entry| entry.revision);
            let before = entry.filter(|entry| entry.operation == Operation::Put);
            let before =
                before.map(|entry| RecordedTries::read(&entry.value)).transpose()?.filter(|made| made.of == *of);
            if before.as_ref().is_some_and(|made| made.since > counting.since) {
                return Ok(Counted::Late);
            }
            let before = before.filter(|made| made.since == counting.since || !counting.begins);
            let now = clock::now().as_millisecond();
            let left = before.as_ref().map_or(Duration::ZERO, |made| made.wait_at(now));
            if !left.is_zero() {
                return Ok(Counted::TooEarly(left));
            }
            let count = before.as_ref().map_or(0, |made| made.count) + 1;
            let since = before.as_ref().map_or(counting.since, |made| made.since);
            let made = RecordedTries { of: of.clone(), since, count, at: now };
            if let Some(revision) = self.write(key, &made, revision).await? {
                return Ok(Counted::Try(Try { key: key.clone(), revision, before, count }));
            }
        }
        Ok(Counted::TooEarly(Duration::from_secs(1)))
    }

    /// Forgets the tries under a key, after one that did not fail.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn forget(&self, key: &str) -> Result<(), LogFailure> {
        self.store.purge_with_ttl(key, MARKED).await.map_err(nats)
    }

    /// Takes back a try that was not made. Nothing is changed if another one was counted meanwhile.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn take_back(&self, made: Try) -> Result<(), LogFailure> {
        let Try { key, revision, before, .. } = made;
        let before = before.unwrap_or_default();
        self.write(&key, &before, revision).await.map(drop)
    }

    async fn write(&self, key: &str, made: &RecordedTries, revision: u64) -> Result<Option<u64>, LogFailure> {
        let message = PublishMessage::build().payload(made.text().into()).expected_last_subject_sequence(revision);
        cas::publish(&self.context, format!("$KV.{BUCKET}.{key}"), message).await
    }
}

impl RecordedTries {
    fn text(&self) -> String {
        format!("{}:{}:{}:{}", self.of, self.since, self.count, self.at)
    }

    fn read(value: &[u8]) -> Result<Self, LogFailure> {
        let read = || {
            let mut parts = str::from_utf8(value).ok()?.split(':');
            let (of, since) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
            let (count, at) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            parts.next().is_none().then_some(Self { of, since, count, at })
        };
        read().ok_or_else(|| LogFailure::Nats(format!("an entry of {BUCKET} is no count")))
    }

    /// Returns how long the next try has to wait at a time.
    fn wait_at(&self, now: i64) -> Duration {
        let since = Duration::from_millis(u64::try_from(now.saturating_sub(self.at)).unwrap_or_default());
        Duration::from_secs((self.count / FREE).min(LONGEST)).saturating_sub(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(count: u64) -> RecordedTries {
        RecordedTries { of: "a".to_owned(), since: 7, count, at: 1000 }
    }

    #[test]
    fn the_first_tries_are_free_and_later_ones_wait_longer_up_to_a_bound() {
        let seconds =
            [0, 1, 4, 5, 9, 10, 49, 50, 54, 5000, u64::MAX].map(|count| recorded(count).wait_at(1000).as_secs());
        assert_eq!(seconds, [0, 0, 0, 1, 1, 2, 9, 10, 10, 10, 10]);
        let millis = [0, 1000, 1001, 1999, 2000, i64::MAX].map(|now| recorded(5).wait_at(now).as_millis());
        assert_eq!(millis, [1000, 1000, 999, 1, 0, 0], "a clock that goes back lets nobody wait longer");
    }

    #[test]
    fn a_count_is_read_as_it_was_written_and_nothing_else_is_one() {
        for written in [recorded(12), RecordedTries::default()] {
            assert_eq!(RecordedTries::read(written.text().as_bytes()).unwrap(), written);
        }
        for value in ["", "12", "a:1:1", "a:1:-1:0", "a:1:x:0", "a:1:1:0:0", "a:1:1.5:0", "a:-1:1:0"] {
            assert!(RecordedTries::read(value.as_bytes()).is_err(), "{value}");
        }
    }
}
