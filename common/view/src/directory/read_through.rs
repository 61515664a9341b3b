//! A cache of answers from Postgres. An answer is right until something changes that it depends on. Where that is
//! unknown it is right for a second, and it is used for longer while Postgres does not answer.

use std::{
    any::Any,
    hash::Hash,
    marker::PhantomData,
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base::{
    explain::explain,
    metric::{Counter, catalog::DIRECTORY_LOOKUPS},
};
use futures::{
    TryFutureExt,
    future::{BoxFuture, FutureExt},
};
use quick_cache::{Equivalent, sync::Cache};
use tokio::{sync::Mutex, time::interval};
use tokio_postgres::Row;

use super::{
    as_of::AsOf,
    changes::{Change, Changes, Dependencies, milliseconds},
};
use crate::{checkpoint::unsigned, database::DatabaseFailure};

/// How old an answer may be while it is unknown whether something has changed.
const TIME_TO_LIVE: Duration = Duration::from_secs(1);
/// How old an answer may be when something has changed, so that many changes of one tenant are not as many queries.
const SETTLES: Duration = Duration::from_millis(250);
/// For how long after it was right the last answer is used while Postgres does not answer.
const KNOWN_FOR: Duration = Duration::from_mins(5);
/// How often answers are forgotten that nobody has needed for [`KNOWN_FOR`].
const FORGET_EVERY: Duration = Duration::from_mins(1);

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

/// What an answer of the read model is from.
pub(super) struct Source {
    /// The sequence that the read model had processed, at least.
    pub(super) as_of: AsOf,
    /// Whether it may be remembered for longer than a second. Rows that lack events which could not be processed may get
    /// them at any time.
    pub(super) lasts: bool,
}

impl Source {
    pub(super) fn of(row: &Row) -> Self {
        Self { as_of: unsigned(row.get("processed")).into(), lasts: !row.get::<_, bool>("lacks_events") }
    }
}

/// An answer of the read model.
pub(super) struct Cached<V> {
    pub(super) source: Source,
    pub(super) found: Option<Arc<V>>,
    pub(super) dependencies: Dependencies,
}

/// Cached answers of one type.
pub(super) struct ReadThrough<V> {
    answers: Arc<Answers>,
    found: PhantomData<fn() -> V>,
}

impl<V: Send + Sync + 'static> ReadThrough<V> {
    /// A cache for so many answers about objects of this kind.
    pub(super) fn new(kind: &str, capacity: usize, changes: &Changes) -> Self {
        let [remembered, loaded] = ["remembered", "loaded"].map(|outcome| DIRECTORY_LOOKUPS.with(&[kind, outcome]));
        let slots = Cache::new(capacity);
        let answers = Arc::new(Answers { slots, changes: changes.clone(), remembered, loaded });
        Self { answers, found: PhantomData }
    }

    /// The answers, which may be forgotten.
    pub(super) fn answers(&self) -> Weak<Answers> {
        Arc::downgrade(&self.answers)
    }

    /// Returns an answer, loading it if there is none that will do.
    pub(super) async fn get<'a, L: Future<Output = Result<Cached<V>, DatabaseFailure>> + Send + 'a>(
        &self,
        lookup: Lookup<'_>,
        required: Required,
        load: impl FnOnce() -> L,
    ) -> Result<Option<Arc<V>>, Arc<DatabaseFailure>> {
        let slot = self.answers.slot(&lookup);
        let found = match self.answers.sufficient(&slot, required) {
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
    source: Source,
    found: AnyValue,
    dependencies: Dependencies,
}

type AnyValue = Option<Arc<dyn Any + Send + Sync>>;
type Loading<'a> = BoxFuture<'a, Result<AnyCached, DatabaseFailure>>;

impl<V: Send + Sync + 'static> From<Cached<V>> for AnyCached {
    fn from(Cached { source, found, dependencies }: Cached<V>) -> Self {
        Self { source, found: found.map(|found| found as _), dependencies }
    }
}

pub(super) struct Answers {
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

/// The last load of an answer that has ended, and what its callers got.
struct LastLoad {
    number: u64,
    has_failed: bool,
    outcome: Result<AnyValue, Arc<DatabaseFailure>>,
}

impl Default for LastLoad {
    fn default() -> Self {
        Self { number: 0, has_failed: false, outcome: Ok(None) }
    }
}

struct Answer {
    source: Source,
    /// The sequence as of which it was loaded.
    loaded_as_of: u64,
    found: AnyValue,
    dependencies: Dependencies,
    /// What [`Changes::amendments`] was before it was loaded.
    amendments: u64,
    /// When it was loaded, or could not be, in milliseconds.
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
    fn sufficient(&self, slot: &Slot, Required { sequence, processed }: Required) -> Option<Arc<Answer>> {
        let answer = slot.answer()?;
        let now = milliseconds();
        let age = Duration::from_millis(now.saturating_sub(answer.loaded_at.load(Ordering::Relaxed)));
        // Read first: what was changed up to here is known below.
        let position = self.changes.position();
        let as_of = &answer.source.as_of;
        match self.changes.since(&answer.dependencies, as_of.get()) {
            Change::None if self.is_confirmed(&answer) => {
                as_of.advance(position);
                answer.right_at.store(now, Ordering::Relaxed);
            }
            _ if age >= TIME_TO_LIVE => return None,
            Change::At(changed) if age >= SETTLES && processed >= changed => return None,
            _ => {}
        }
        (as_of.get() >= sequence || processed < sequence).then_some(answer)
    }

    /// Whether an answer is right if nothing has changed.
    fn is_confirmed(&self, answer: &Answer) -> bool {
        let is_amended = answer.amendments != self.changes.amendments();
        answer.source.lasts && !is_amended && self.changes.is_known()
    }

    /// Loads an answer, once for all tasks that need it.
    async fn renewed(
        &self,
        slot: &Slot,
        required: Required,
        load: Loading<'_>,
    ) -> Result<AnyValue, Arc<DatabaseFailure>> {
        let [begun, ended] = [&slot.begun, &slot.ended].map(|count| count.load(Ordering::Acquire));
        let mut last = slot.loading.lock().await;
        // A failure is that of all who waited, but an answer may be too old for who came after its load had begun.
        if last.number > if last.has_failed { ended } else { begun } {
            return last.outcome.clone();
        }
        if let Some(answer) = self.sufficient(slot, required) {
            return Ok(answer.found.clone());
        }
        let number = slot.begun.fetch_add(1, Ordering::AcqRel) + 1;
        self.loaded.add(1);
        let (amendments, loaded_at) = (self.changes.amendments(), milliseconds());
        let loaded = load.await.map_err(Arc::new);
        let has_failed = loaded.is_err();
        let outcome = slot.settle(loaded, amendments, loaded_at).map(|answer| answer.found.clone());
        *last = LastLoad { number, has_failed, outcome: outcome.clone() };
        slot.ended.store(number, Ordering::Release);
        outcome
    }

    /// Forgets what nobody has needed for long.
    fn forget_idle(&self) {
        let now = milliseconds();
        let is_loading = |slot: &Slot| slot.loading.try_lock().is_err();
        self.slots.retain(|_, slot| slot.answer().map_or_else(|| is_loading(slot), |answer| !answer.is_idle(now)));
    }
}

/// Forgets what nobody has needed for long, such as users who were removed, for as long as somebody uses the answers.
pub(super) async fn forget_idle(all: Vec<Weak<Answers>>) {
    let mut ticks = interval(FORGET_EVERY);
    loop {
        ticks.tick().await;
        let mut is_used = false;
        for answers in all.iter().filter_map(Weak::upgrade) {
            answers.forget_idle();
            is_used = true;
        }
        if !is_used {
            return;
        }
    }
}

impl Slot {
    fn answer(&self) -> Option<Arc<Answer>> {
        self.answer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over what was loaded from this time on, unless the answer before is better, and returns the answer.
    fn settle(
        &self,
        loaded: Result<AnyCached, Arc<DatabaseFailure>>,
        amendments: u64,
        loaded_at: u64,
    ) -> Result<Arc<Answer>, Arc<DatabaseFailure>> {
        let now = milliseconds();
        let before = self.answer().filter(|before| before.is_usable(now));
        let again = |before: Arc<Answer>| {
            before.loaded_at.store(now, Ordering::Relaxed);
            Ok(before)
        };
        match (loaded, before) {
            (Err(failure), Some(before)) if !matches!(*failure, DatabaseFailure::Inconsistent { .. }) => {
                tracing::debug!(error = explain(&*failure), "the read model cannot be read; its last answer is used");
                again(before)
            }
            (Err(failure), _) => Err(failure),
            // Postgres has lost commits that it has answered by; they come back from the log.
            (Ok(loaded), Some(before)) if loaded.source.as_of.get() < before.loaded_as_of => again(before),
            (Ok(AnyCached { source, found, dependencies }), _) => {
                let loaded_as_of = source.as_of.get();
                let [loaded_at, right_at] = [loaded_at, loaded_at].map(AtomicU64::new);
                let answer = Answer { source, loaded_as_of, found, dependencies, amendments, loaded_at, right_at };
                let answer = Arc::new(answer);
                *self.answer.write().unwrap_or_else(PoisonError::into_inner) = Some(answer.clone());
                Ok(answer)
            }
        }
    }
}

impl Answer {
    /// Whether it may be used although it cannot be loaded again.
    fn is_usable(&self, now: u64) -> bool {
        self.found.is_some() && !self.is_idle(now)
    }

    /// Whether it was right long ago.
    fn is_idle(&self, now: u64) -> bool {
        Duration::from_millis(now.saturating_sub(self.right_at.load(Ordering::Relaxed))) > KNOWN_FOR
    }
}

#[cfg(test)]
mod tests;
