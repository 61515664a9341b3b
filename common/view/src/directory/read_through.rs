//! What Postgres said, kept for a moment, and for longer where it says nothing more.

use std::{hash::Hash, sync::Arc, time::Duration};

use base::explain::explain;
use moka::future::Cache;

use crate::database::DatabaseFailure;

/// How old an answer may be.
const TIME_TO_LIVE: Duration = Duration::from_secs(1);
/// For how long an answer goes on while Postgres does not answer.
const KNOWN_FOR: Duration = Duration::from_mins(5);

/// Answers of Postgres: the fresh ones, and those that stand in for it.
pub(super) struct ReadThrough<K, V> {
    fresh: Cache<K, Cached<V>>,
    last: Cache<K, Cached<V>>,
}

/// What the read model said when it had processed some sequence, at least.
pub(super) struct Cached<V> {
    pub(super) processed: u64,
    pub(super) found: Option<Arc<V>>,
}

impl<V> Clone for Cached<V> {
    fn clone(&self) -> Self {
        Self { processed: self.processed, found: self.found.clone() }
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static, V: Send + Sync + 'static> ReadThrough<K, V> {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            fresh: Cache::builder().max_capacity(capacity).time_to_live(TIME_TO_LIVE).build(),
            last: Cache::builder().max_capacity(capacity).time_to_live(KNOWN_FOR).build(),
        }
    }

    /// What is known under a key, as of a sequence or later if that is among what the read model has processed.
    pub(super) async fn get<L: Future<Output = Result<Cached<V>, DatabaseFailure>>>(
        &self,
        key: &K,
        (sequence, processed): (u64, u64),
        load: impl Fn() -> L,
    ) -> Result<Option<Arc<V>>, Arc<DatabaseFailure>> {
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
    async fn learn(
        &self,
        key: &K,
        load: impl Future<Output = Result<Cached<V>, DatabaseFailure>>,
    ) -> Result<Cached<V>, Arc<DatabaseFailure>> {
        Box::pin(self.fresh.try_get_with_by_ref(key, self.load(key, load))).await
    }

    async fn load(
        &self,
        key: &K,
        load: impl Future<Output = Result<Cached<V>, DatabaseFailure>>,
    ) -> Result<Cached<V>, DatabaseFailure> {
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
