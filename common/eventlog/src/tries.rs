//! Tries of what may fail only so often, such as a password: counted in JetStream KV before it is known how they end, on all nodes
//! and through restarts, and forgotten a day after the last one.

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
/// After so many tries, and again after as many more, the next one has to wait a second longer.
const FREE: u64 = 5;
/// How long it has to wait at most, in seconds.
const LONGEST: u64 = 10;
/// How often a try is counted again that another one came before.
const ROUNDS: usize = 8;
/// How long the mark stays that tries were forgotten. The broker counts in whole seconds.
const MARKED: Duration = Duration::from_secs(1);

/// The tries of all keys, on all nodes.
#[derive(Debug, Clone)]
pub struct Tries {
    context: jetstream::Context,
    store: Store,
}

/// Whose tries are counted, and how.
#[derive(Debug, Clone)]
pub struct Counting {
    /// Where: it has letters, digits, `-`, `_` and `.` only.
    pub key: String,
    /// Who it is of those that share the key, without `:`. Each begins at one again where another was counted meanwhile.
    pub of: String,
    /// Since when they count: a number that is greater after something which lets somebody begin anew.
    pub since: u64,
    /// Whether this one begins anew where it is greater; else the tries go on.
    pub begins: bool,
}

/// What becomes of a try.
#[derive(Debug)]
pub enum Counted {
    /// It may be made.
    Try(Try),
    /// It must not be made before so long, and does not count.
    TooEarly(Duration),
    /// It must not be made, and does not count: somebody has begun anew since it was known since when to count.
    Late,
}

/// A try that counts as failed until something else is said of it.
#[derive(Debug)]
pub struct Try {
    key: String,
    revision: u64,
    before: Option<Made>,
    /// How many there were, with this one, since the last that did not fail.
    pub count: u64,
}

/// The tries that were made: whose, since when they count, how many, and when the last one was, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Made {
    of: String,
    since: u64,
    count: u64,
    at: i64,
}

impl Tries {
    /// Opens the bucket, which is made where there is none.
    ///
    /// # Errors
    /// When NATS does not answer, and when there is a bucket that does not work.
    pub async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, LogFailure> {
        let store = streams::forgetful_bucket(context, BUCKET, (streams::TRIES_FORGOTTEN_AFTER, replicas)).await?;
        Ok(Self { context: context.clone(), store })
    }

    /// Counts a try. Of many at once each one counts.
    ///
    /// # Errors
    /// When NATS does not answer or has no place: then the try must not be made, and may have been counted.
    pub async fn count(&self, counting: &Counting) -> Result<Counted, LogFailure> {
        let Counting { key, of, .. } = counting;
        for _ in 0..ROUNDS {
            let entry = self.store.entry(key).await.map_err(nats)?;
            let revision = entry.as_ref().map_or(0, |entry| entry.revision);
            let before = entry.filter(|entry| entry.operation == Operation::Put);
            let before = before.map(|entry| Made::read(&entry.value)).transpose()?.filter(|made| made.of == *of);
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
            let made = Made { of: of.clone(), since, count, at: now };
            if let Some(revision) = self.write(key, &made, revision).await? {
                return Ok(Counted::Try(Try { key: key.clone(), revision, before, count }));
            }
        }
        Ok(Counted::TooEarly(Duration::from_secs(1)))
    }

    /// Forgets the tries under a key, of which one did not fail.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn forget(&self, key: &str) -> Result<(), LogFailure> {
        self.store.purge_with_ttl(key, MARKED).await.map_err(nats)
    }

    /// Takes back a try that was not made. It stays where there was another one meanwhile.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn take_back(&self, made: Try) -> Result<(), LogFailure> {
        let Try { key, revision, before, .. } = made;
        let before = before.unwrap_or_default();
        self.write(&key, &before, revision).await.map(drop)
    }

    async fn write(&self, key: &str, made: &Made, revision: u64) -> Result<Option<u64>, LogFailure> {
        let message = PublishMessage::build().payload(made.text().into()).expected_last_subject_sequence(revision);
        cas::publish(&self.context, format!("$KV.{BUCKET}.{key}"), message).await
    }
}

impl Made {
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

    /// How long the next try has to wait at a time.
    fn wait_at(&self, now: i64) -> Duration {
        let since = Duration::from_millis(u64::try_from(now.saturating_sub(self.at)).unwrap_or_default());
        Duration::from_secs((self.count / FREE).min(LONGEST)).saturating_sub(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(count: u64) -> Made {
        Made { of: "a".to_owned(), since: 7, count, at: 1000 }
    }

    #[test]
    fn the_first_tries_are_free_and_later_ones_wait_longer_up_to_a_bound() {
        let seconds = [0, 1, 4, 5, 9, 10, 49, 50, 54, 5000, u64::MAX].map(|count| made(count).wait_at(1000).as_secs());
        assert_eq!(seconds, [0, 0, 0, 1, 1, 2, 9, 10, 10, 10, 10]);
        let millis = [0, 1000, 1001, 1999, 2000, i64::MAX].map(|now| made(5).wait_at(now).as_millis());
        assert_eq!(millis, [1000, 1000, 999, 1, 0, 0], "a clock that goes back lets nobody wait longer");
    }

    #[test]
    fn a_count_is_read_as_it_was_written_and_nothing_else_is_one() {
        for written in [made(12), Made::default()] {
            assert_eq!(Made::read(written.text().as_bytes()).unwrap(), written);
        }
        for value in ["", "12", "a:1:1", "a:1:-1:0", "a:1:x:0", "a:1:1:0:0", "a:1:1.5:0", "a:-1:1:0"] {
            assert!(Made::read(value.as_bytes()).is_err(), "{value}");
        }
    }
}
