//! A cache of answers from Postgres: they are fresh for a second, and used for longer while Postgres does not answer.

use std::{any::Any, marker::PhantomData, sync::Arc, time::Duration};

use base::explain::explain;
use futures::{
    TryFutureExt,
    future::{BoxFuture, FutureExt},
};
use moka::future::Cache;

use crate::database::DatabaseFailure;

/// How old an answer may be.
const TIME_TO_LIVE: Duration = Duration::from_secs(1);
/// How long the last answer is used while Postgres does not answer.
const KNOWN_FOR: Duration = Duration::from_mins(5);

/// The key of a cached answer: the kind of the name or of the object, and the ids and names that identify it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Lookup {
    kind: &'static str,
    parts: Vec<String>,
}

impl Lookup {
    pub(super) fn of(kind: &'static str, parts: &[&str]) -> Self {
        Self { kind, parts: parts.iter().map(|part| (*part).to_owned()).collect() }
    }
}

/// An answer of the read model, and the sequence that it had processed by then, at least.
pub(super) struct Cached<V> {
    pub(super) processed: u64,
    pub(super) found: Option<Arc<V>>,
}

/// Cached answers of one type.
pub(super) struct ReadThrough<V> {
    answers: Answers,
    found: PhantomData<fn() -> V>,
}

impl<V: Send + Sync + 'static> ReadThrough<V> {
    pub(super) fn new(capacity: u64) -> Self {
        Self { answers: Answers::new(capacity), found: PhantomData }
    }

    /// Returns the answer for a key, as of a sequence or later if the read model, which is known to have come as far as
    /// `processed`, has that.
    pub(super) async fn get<'a, L: Future<Output = Result<Cached<V>, DatabaseFailure>> + Send + 'a>(
        &self,
        key: &Lookup,
        sequence: u64,
        processed: u64,
        load: impl Fn() -> L + Sync,
    ) -> Result<Option<Arc<V>>, Arc<DatabaseFailure>> {
        let load = || load().map_ok(AnyCached::from).boxed();
        let found = self.answers.get(key, sequence, processed, &load).await?;
        // The downcast succeeds, because only values of this type are stored here.
        Ok(found.and_then(|found| found.downcast().ok()))
    }
}

/// A [`Cached`] without the type of its value, so that the cache is compiled once.
#[derive(Clone)]
struct AnyCached {
    processed: u64,
    found: Option<Arc<dyn Any + Send + Sync>>,
}

impl<V: Send + Sync + 'static> From<Cached<V>> for AnyCached {
    fn from(Cached { processed, found }: Cached<V>) -> Self {
        Self { processed, found: found.map(|found| found as _) }
    }
}

type Loading<'a> = BoxFuture<'a, Result<AnyCached, DatabaseFailure>>;

/// Answers of Postgres: the fresh ones, and the last ones, which are used while it does not answer.
struct Answers {
    fresh: Cache<Lookup, AnyCached>,
    last: Cache<Lookup, AnyCached>,
}

impl Answers {
    fn new(capacity: u64) -> Self {
        Self {
            fresh: Cache::builder().max_capacity(capacity).time_to_live(TIME_TO_LIVE).build(),
            last: Cache::builder().max_capacity(capacity).time_to_live(KNOWN_FOR).build(),
        }
    }

    async fn get<'a>(
        &self,
        key: &Lookup,
        sequence: u64,
        processed: u64,
        load: &(dyn Fn() -> Loading<'a> + Sync),
    ) -> Result<Option<Arc<dyn Any + Send + Sync>>, Arc<DatabaseFailure>> {
        let said = match self.fresh.get(key).await {
            Some(said) => said,
            None => self.learn(key, load()).await?,
        };
        if said.processed >= sequence || processed < sequence {
            return Ok(said.found);
        }
        // Another task may have noticed this first and loaded it; a task that notices it later waits for this load.
        if self.fresh.get(key).await.is_some_and(|said| said.processed < sequence) {
            self.fresh.invalidate(key).await;
        }
        Ok(self.learn(key, load()).await?.found)
    }

    /// Loads an answer once for all tasks that wait for it. Boxed, because most calls find an answer in the cache.
    async fn learn(&self, key: &Lookup, load: Loading<'_>) -> Result<AnyCached, Arc<DatabaseFailure>> {
        Box::pin(self.fresh.try_get_with_by_ref(key, self.load(key, load))).await
    }

    async fn load(&self, key: &Lookup, load: Loading<'_>) -> Result<AnyCached, DatabaseFailure> {
        let (said, known) = (load.await, self.last.get(key).await);
        match (said, known) {
            (Err(failure @ DatabaseFailure::Inconsistent { .. }), _) | (Err(failure), None) => Err(failure),
            (Err(failure), Some(known)) => {
                tracing::debug!(error = explain(&failure), "the read model cannot be read; its last answer is used");
                Ok(known)
            }
            // Postgres has lost commits that it has answered by; they come back from the log.
            (Ok(said), Some(known)) if said.processed < known.processed => Ok(known),
            (Ok(said), _) => {
                if said.found.is_some() {
                    self.last.insert(key.clone(), said.clone()).await;
                } else {
                    self.last.remove(key).await;
                }
                Ok(said)
            }
        }
    }
}
