//! What Postgres said, kept for a moment, and for longer where it says nothing more.

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
/// For how long an answer goes on while Postgres does not answer.
const KNOWN_FOR: Duration = Duration::from_mins(5);

/// What something is remembered under: the kind of its name or of itself, and the ids and names that lead to it.
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

/// What the read model said when it had processed some sequence, at least.
pub(super) struct Cached<V> {
    pub(super) processed: u64,
    pub(super) found: Option<Arc<V>>,
}

/// Answers of Postgres of one type.
pub(super) struct ReadThrough<V> {
    answers: Answers,
    found: PhantomData<fn() -> V>,
}

impl<V: Send + Sync + 'static> ReadThrough<V> {
    pub(super) fn new(capacity: u64) -> Self {
        Self { answers: Answers::new(capacity), found: PhantomData }
    }

    /// What is known under a key, as of a sequence or later if that is among what the read model has processed.
    pub(super) async fn get<'a, L: Future<Output = Result<Cached<V>, DatabaseFailure>> + Send + 'a>(
        &self,
        key: &Lookup,
        at: (u64, u64),
        load: impl Fn() -> L + Sync,
    ) -> Result<Option<Arc<V>>, Arc<DatabaseFailure>> {
        let load = || load().map_ok(Erased::from).boxed();
        let found = self.answers.get(key, at, &load).await?;
        // It is of this type, because nothing of another is kept here.
        Ok(found.and_then(|found| found.downcast().ok()))
    }
}

/// What [`Cached`] says, without the type of what was found, so that the caches are compiled once.
#[derive(Clone)]
struct Erased {
    processed: u64,
    found: Option<Arc<dyn Any + Send + Sync>>,
}

impl<V: Send + Sync + 'static> From<Cached<V>> for Erased {
    fn from(Cached { processed, found }: Cached<V>) -> Self {
        Self { processed, found: found.map(|found| found as _) }
    }
}

type Loading<'a> = BoxFuture<'a, Result<Erased, DatabaseFailure>>;

/// Answers of Postgres: the fresh ones, and those that stand in for it.
struct Answers {
    fresh: Cache<Lookup, Erased>,
    last: Cache<Lookup, Erased>,
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
        (sequence, processed): (u64, u64),
        load: &(dyn Fn() -> Loading<'a> + Sync),
    ) -> Result<Option<Arc<dyn Any + Send + Sync>>, Arc<DatabaseFailure>> {
        let said = match self.fresh.get(key).await {
            Some(said) => said,
            None => self.learn(key, load()).await?,
        };
        if said.processed >= sequence || processed < sequence {
            return Ok(said.found);
        }
        // Somebody else may have noticed it first; and who notices it later waits for this load.
        if self.fresh.get(key).await.is_some_and(|said| said.processed < sequence) {
            self.fresh.invalidate(key).await;
        }
        Ok(self.learn(key, load()).await?.found)
    }

    /// Asks the read model, once for all that want to know. Boxed, because most know already.
    async fn learn(&self, key: &Lookup, load: Loading<'_>) -> Result<Erased, Arc<DatabaseFailure>> {
        Box::pin(self.fresh.try_get_with_by_ref(key, self.load(key, load))).await
    }

    async fn load(&self, key: &Lookup, load: Loading<'_>) -> Result<Erased, DatabaseFailure> {
        let (said, known) = (load.await, self.last.get(key).await);
        match (said, known) {
            (Err(failure @ DatabaseFailure::Inconsistent { .. }), _) | (Err(failure), None) => Err(failure),
            (Err(failure), Some(known)) => {
                tracing::debug!(error = explain(&failure), "the read model cannot be read; what it said last goes on");
                Ok(known)
            }
            // Postgres has lost what it said; it comes back from the log.
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
