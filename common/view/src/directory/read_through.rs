//! A cache of answers from Postgres. An answer is right until something changes that it depends on. Where that is
//! unknown it is right for a second, and it is used for longer while Postgres does not answer.

use std::{
    any::Any,
    hash::Hash,
    marker::PhantomData,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base::{
    clock::since_start,
    explain::explain,
    metric::{Counter, catalog::DIRECTORY_LOOKUPS},
};
use futures::{
    TryFutureExt,
    future::{BoxFuture, FutureExt},
};
use quick_cache::{Equivalent, sync::Cache};
use tokio::sync::Mutex;

use super::{
    as_of::AsOf,
    changes::{Change, Changes, Dependencies},
};
use crate::database::DatabaseFailure;

/// How old an answer may be while it is unknown whether something has changed.
const TIME_TO_LIVE: Duration = Duration::from_secs(1);
/// How old an answer may be when something has changed, so that many changes of one tenant are not as many queries.
const SETTLES: Duration = Duration::from_millis(250);
/// For how long after it was right the last answer is used while Postgres does not answer.
const KNOWN_FOR: Duration = Duration::from_mins(5);

/// What is looked up: the kind of the name or of the object, and the ids and names that identify it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Lookup<'a> {
    kind: &'static str,
    parts: &'a [&'a str],
}

impl<'a> Lookup<'a> {
    pub(super) fn of(kind: &'static str, parts: &'a [&'a str]) -> Self {
        Self { kind, parts }
    }
}

/// The key of a cached answer. It has the hash of its lookup.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    kind: &'static str,
    parts: Box<[Box<str>]>,
}

impl Equivalent<Key> for Lookup<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.kind == key.kind && self.parts.iter().copied().eq(key.parts.iter().map(|part| &**part))
    }
}

impl From<&Lookup<'_>> for Key {
    fn from(Lookup { kind, parts }: &Lookup<'_>) -> Self {
        Self { kind, parts: parts.iter().map(|part| (*part).into()).collect() }
    }
}

/// What callers need of an answer.
#[derive(Clone, Copy)]
pub(super) struct Required {
    /// The sequence as of which it must be right, if the read model has come as far.
    pub(super) sequence: u64,
    /// How far the read model is known to have come.
    pub(super) processed: u64,
}

/// An answer of the read model.
pub(super) struct Cached<V> {
    /// The sequence that the read model had processed, at least.
    pub(super) as_of: AsOf,
    pub(super) found: Option<Arc<V>>,
    pub(super) dependencies: Dependencies,
}

/// Cached answers of one type.
pub(super) struct ReadThrough<V> {
    answers: Answers,
    found: PhantomData<fn() -> V>,
}

impl<V: Send + Sync + 'static> ReadThrough<V> {
    /// A cache for so many answers about objects of this kind.
    pub(super) fn new(kind: &str, capacity: usize, changes: &Changes) -> Self {
        let [remembered, loaded] = ["remembered", "loaded"].map(|outcome| DIRECTORY_LOOKUPS.with(&[kind, outcome]));
        let slots = Cache::new(capacity);
        Self { answers: Answers { slots, changes: changes.clone(), remembered, loaded }, found: PhantomData }
    }

    /// Returns an answer, loading it if there is none that will do.
    pub(super) async fn get<'a, L: Future<Output = Result<Cached<V>, DatabaseFailure>> + Send + 'a>(
        &self,
        lookup: Lookup<'_>,
        required: Required,
        load: impl FnOnce() -> L,
    ) -> Result<Option<Arc<V>>, Arc<DatabaseFailure>> {
        let slot = self.answers.slot(&lookup);
        let found = match self.answers.found(&slot, required) {
            Some(answer) => {
                self.answers.remembered.add(1);
                answer.found.clone()
            }
            None => self.answers.renewed(&slot, required, load().map_ok(AnyCached::from).boxed()).await?,
        };
        // The downcast succeeds, because only values of this type are stored here.
        Ok(found.and_then(|found| found.downcast().ok()))
    }
}

/// A [`Cached`] without the type of its value, so that the cache is compiled once.
struct AnyCached {
    as_of: AsOf,
    found: Found,
    dependencies: Dependencies,
}

type Found = Option<Arc<dyn Any + Send + Sync>>;
type Loading<'a> = BoxFuture<'a, Result<AnyCached, DatabaseFailure>>;

impl<V: Send + Sync + 'static> From<Cached<V>> for AnyCached {
    fn from(Cached { as_of, found, dependencies }: Cached<V>) -> Self {
        Self { as_of, found: found.map(|found| found as _), dependencies }
    }
}

struct Answers {
    slots: Cache<Key, Arc<Slot>>,
    changes: Changes,
    remembered: &'static Counter,
    loaded: &'static Counter,
}

/// The place of an answer.
#[derive(Default)]
struct Slot {
    answer: RwLock<Option<Arc<Answer>>>,
    /// How often a load has begun, and how often one has ended.
    begun: AtomicU64,
    ended: AtomicU64,
    loading: Mutex<LastLoad>,
}

/// The last load of an answer that has ended.
#[derive(Default)]
struct LastLoad {
    number: u64,
    failure: Option<Arc<DatabaseFailure>>,
}

struct Answer {
    as_of: AsOf,
    found: Found,
    dependencies: Dependencies,
    /// What [`Changes::amended`] was before it was loaded.
    amended: u64,
    /// When it was loaded, or could not be, in milliseconds by [`since_start`].
    loaded_at: AtomicU64,
    /// When it was last known to be right.
    right_at: AtomicU64,
}

impl Answers {
    fn slot(&self, lookup: &Lookup<'_>) -> Arc<Slot> {
        if let Some(slot) = self.slots.get(lookup) {
            return slot;
        }
        let slot = Arc::<Slot>::default();
        // Another task may have put one there meanwhile.
        self.slots.get_or_insert_with::<_, ()>(&Key::from(lookup), || Ok(slot.clone())).unwrap_or(slot)
    }

    /// The answer in a slot, if it will do.
    fn found(&self, slot: &Slot, Required { sequence, processed }: Required) -> Option<Arc<Answer>> {
        let answer = slot.answer()?;
        let now = milliseconds();
        let age = Duration::from_millis(now.saturating_sub(answer.loaded_at.load(Ordering::Relaxed)));
        // Read first: what was changed up to here is known below.
        let position = self.changes.position();
        let sequence = match self.changes.since(&answer.dependencies, answer.as_of.get()) {
            Change::None if self.changes.is_known() && answer.amended == self.changes.amended() => {
                answer.as_of.advance(position);
                answer.right_at.store(now, Ordering::Relaxed);
                sequence
            }
            _ if age >= TIME_TO_LIVE => return None,
            Change::At(changed) if age >= SETTLES => sequence.max(changed),
            _ => sequence,
        };
        (answer.as_of.get() >= sequence || processed < sequence).then_some(answer)
    }

    /// Loads an answer, once for all tasks that need it.
    async fn renewed(&self, slot: &Slot, required: Required, load: Loading<'_>) -> Result<Found, Arc<DatabaseFailure>> {
        let [begun, ended] = [&slot.begun, &slot.ended].map(|count| count.load(Ordering::Acquire));
        let mut last = slot.loading.lock().await;
        // A failure is that of all who waited, but an answer may be too old for who came after its load had begun.
        if let Some(failure) = last.failure.as_ref().filter(|_| last.number > ended) {
            return Err(failure.clone());
        }
        let answer = if last.number > begun { slot.answer() } else { self.found(slot, required) };
        if let Some(answer) = answer {
            return Ok(answer.found.clone());
        }
        let number = slot.begun.fetch_add(1, Ordering::AcqRel) + 1;
        self.loaded.add(1);
        let (amended, loaded_at) = (self.changes.amended(), milliseconds());
        let loaded = settle(load.await, slot.answer(), amended, loaded_at).map_err(Arc::new);
        if let Ok(answer) = &loaded {
            *slot.answer.write().unwrap_or_else(PoisonError::into_inner) = Some(answer.clone());
        }
        *last = LastLoad { number, failure: loaded.as_ref().err().cloned() };
        slot.ended.store(number, Ordering::Release);
        loaded.map(|answer| answer.found.clone())
    }
}

impl Slot {
    fn answer(&self) -> Option<Arc<Answer>> {
        self.answer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the answer after a load that began at this time.
fn settle(
    loaded: Result<AnyCached, DatabaseFailure>,
    last: Option<Arc<Answer>>,
    amended: u64,
    at: u64,
) -> Result<Arc<Answer>, DatabaseFailure> {
    let is_lately = |last: &Answer| {
        let since = Duration::from_millis(at.saturating_sub(last.right_at.load(Ordering::Relaxed)));
        since <= KNOWN_FOR
    };
    let last = last.filter(|last| is_lately(last));
    let again = |last: Arc<Answer>| {
        last.loaded_at.store(at, Ordering::Relaxed);
        Ok(last)
    };
    match (loaded, last) {
        (Err(failure @ DatabaseFailure::Inconsistent { .. }), _) => Err(failure),
        (Err(failure), Some(last)) if last.found.is_some() => {
            tracing::debug!(error = explain(&failure), "the read model cannot be read; its last answer is used");
            again(last)
        }
        (Err(failure), _) => Err(failure),
        // Postgres has lost commits that it has answered by; they come back from the log.
        (Ok(AnyCached { as_of, .. }), Some(last)) if as_of.get() < last.as_of.get() => again(last),
        (Ok(AnyCached { as_of, found, dependencies }), _) => {
            let [loaded_at, right_at] = [at, at].map(AtomicU64::new);
            Ok(Arc::new(Answer { as_of, found, dependencies, amended, loaded_at, right_at }))
        }
    }
}

fn milliseconds() -> u64 {
    u64::try_from(since_start().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
