//! What has changed of what the directory reads. As long as nothing changes that an answer depends on, it stays right,
//! however old it is: a tenant at rest costs no queries.
//!
//! The log says what changes, and NATS is asked where it ends, so that silence is not taken for rest. The scrubber and an
//! exchange of generations change rows without a new event; Postgres is asked once a second whether that has happened,
//! for all of them together.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base::{clock::since_start, explain::explain};
use deadpool_postgres::GenericClient;
use eventlog::{
    log::{self, Follower, Log, LogFailure, Reached},
    record::{Position, Record},
};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    completeness::{Completeness, LogEnd},
    database::{Database, DatabaseFailure},
    projection::ACCESS,
    read_model::ReadModel,
};

/// How many changes are remembered at least.
const MOST: usize = 50_000;
/// How long ago it may be that everything was known.
const TOLERANCE: Duration = Duration::from_secs(1);
/// How often NATS is asked where the log ends: some of these are within the tolerance.
const BEAT: Duration = Duration::from_millis(250);
/// How often Postgres is asked whether rows were amended.
const AMENDED_EVERY: Duration = Duration::from_secs(1);

/// How long ago Postgres may have been asked for the last time: as long as old answers are used while it is down.
const AMENDED_KNOWN_FOR: Duration = Duration::from_mins(5);

/// Is another text, which never was before, when the scrubber has repaired rows or another generation answers.
const AMENDED: &str = "\
select concat_ws('|', \
(select concat_ws(' ', repaired, repaired_at) from platform.scrubs where projection = $1 and version = $2 and shard = $3), \
(select string_agg(concat_ws(' ', place, since), ' ' order by place) from platform.generations \
where projection = $1 and version = $2))";

/// What has changed lately.
#[derive(Clone)]
pub(super) struct Changes(Arc<State>);

struct State {
    hasher: RandomState,
    recent: RwLock<Recent>,
    /// The sequence of the last change.
    last: AtomicU64,
    /// The sequence up to which the log was read.
    position: AtomicU64,
    /// How far it is known what has ended.
    ended: Reached,
    completeness: Completeness,
    traces: Mutex<Traces>,
    /// When Postgres told of amended rows, in milliseconds by [`since_start`].
    amended_at: AtomicU64,
    /// How often rows were amended.
    amendments: AtomicU64,
}

/// The traces of amended rows.
#[derive(Default)]
struct Traces {
    /// What [`AMENDED`] returned.
    last: Option<String>,
    is_failing: bool,
}

/// The sequences of the last changes, by what changed.
#[derive(Default)]
struct Recent {
    newer: HashMap<u64, u64>,
    older: HashMap<u64, u64>,
    /// The sequence of the last change in `older`.
    older_until: u64,
    /// The sequence up to which changes are forgotten.
    forgotten: u64,
}

/// What something depends on, as hashes: two that are equal by chance cost a query.
pub(super) type Dependencies = Box<[u64]>;

/// Whether an answer is still right.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing that it depends on has changed.
    None,
    /// Something changed at this sequence.
    At(u64),
    /// That is forgotten.
    Unknown,
}

impl Changes {
    /// Follows the log, from where the read model is on: what it lacks has changed. Nothing counts as seen that is not
    /// known to those who know what has ended.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) async fn follow(log: Log, database: Database, shard: u16, ended: Reached) -> Result<Self, LogFailure> {
        let processed = database.within(processed(&database, shard)).await.ok().flatten();
        let at = match processed {
            Some(at) if log.has(at).await? => at,
            _ => log.last().await?.map(|record| record.position()).unwrap_or_default(),
        };
        let changes = Self::new(at, TOLERANCE, ended);
        changes.0.look_for_amended(&database, shard).await;
        let state = Arc::downgrade(&changes.0);
        tokio::spawn(log::keep_updated(log.clone(), Following(state.clone()), at).await?);
        tokio::spawn(watch_end(state.clone(), log));
        tokio::spawn(watch_rows(state, database, shard));
        Ok(changes)
    }

    fn new(at: Position, tolerance: Duration, ended: Reached) -> Self {
        let recent = Recent { older_until: at.sequence, forgotten: at.sequence, ..Recent::default() };
        Self(Arc::new(State {
            hasher: RandomState::new(),
            recent: RwLock::new(recent),
            last: at.sequence.into(),
            position: at.sequence.into(),
            ended,
            completeness: Completeness::new(at, tolerance),
            traces: Mutex::default(),
            amended_at: milliseconds().into(),
            amendments: AtomicU64::new(0),
        }))
    }

    /// What an answer depends on that comes from rows of these kinds, in an instance or in any: for a kind of which
    /// objects are given, only these.
    pub(super) fn dependencies(
        &self,
        instance_id: Option<&str>,
        kinds: &[&'static str],
        objects: &[(&'static str, &str)],
    ) -> Dependencies {
        debug_assert!(objects.iter().all(|(kind, _)| kinds.contains(kind)), "{objects:?} of {kinds:?}");
        let keys = kinds.iter().flat_map(|kind| {
            let of_kind = objects.iter().filter(|(of, _)| of == kind);
            let mut keys: Vec<_> = of_kind.map(|(_, id)| self.0.key(instance_id, kind, Some(id))).collect();
            if keys.is_empty() {
                keys.push(self.0.key(instance_id, kind, None));
            }
            keys
        });
        keys.collect()
    }

    /// The sequence up to which the log was read, also by those who know what has ended: tokens take their position in
    /// the log from answers, and must not be newer than what would end them.
    pub(super) fn position(&self) -> u64 {
        self.0.position.load(Ordering::Acquire).min(self.0.ended.sequence())
    }

    /// What has changed after a sequence of what something depends on.
    pub(super) fn since(&self, dependencies: &Dependencies, sequence: u64) -> Change {
        if self.0.last.load(Ordering::Acquire) <= sequence {
            return Change::None;
        }
        let recent = self.0.recent.read().unwrap_or_else(PoisonError::into_inner);
        if sequence < recent.forgotten {
            return Change::Unknown;
        }
        let changed = dependencies.iter().filter_map(|key| recent.of(*key));
        changed.max().filter(|at| *at > sequence).map_or(Change::None, Change::At)
    }

    /// The last change of an object after a sequence; if changes since then are forgotten, the last of those.
    pub(super) fn of_object(&self, instance_id: &str, kind: &'static str, id: &str, sequence: u64) -> Option<u64> {
        let recent = self.0.recent.read().unwrap_or_else(PoisonError::into_inner);
        let changed = recent.of(self.0.key(Some(instance_id), kind, Some(id))).unwrap_or_default();
        Some(changed.max(recent.forgotten)).filter(|at| *at > sequence)
    }

    /// Whether everything is known that was in the log a second ago, and that has become of rows meanwhile.
    pub(super) fn is_known(&self) -> bool {
        let amended_at = self.0.amended_at.load(Ordering::Acquire);
        let is_amended_known = Duration::from_millis(milliseconds().saturating_sub(amended_at)) <= AMENDED_KNOWN_FOR;
        is_amended_known && self.0.completeness.is_known()
    }

    /// How often rows were found to be written without a new event.
    pub(super) fn amendments(&self) -> u64 {
        self.0.amendments.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(super) fn amend(&self, traces: &str) {
        self.0.note_amended(Ok(traces.to_owned()));
    }
}

impl State {
    fn key(&self, instance_id: Option<&str>, kind: &str, id: Option<&str>) -> u64 {
        self.hasher.hash_one((instance_id, kind, id))
    }

    /// Notes the changes of a record, and then that it was read.
    fn take_up(&self, record: &Record, note: impl FnOnce(&mut Recent)) {
        let position = record.position();
        if record.events.iter().any(|recorded| ACCESS.table(&recorded.event.aggregate_type).is_some()) {
            note(&mut self.recent.write().unwrap_or_else(PoisonError::into_inner));
            self.last.fetch_max(position.sequence, Ordering::AcqRel);
        }
        self.position.fetch_max(position.sequence, Ordering::AcqRel);
        self.completeness.set_reached(record.stream_sequence);
    }

    async fn look_for_amended(&self, database: &Database, shard: u16) {
        self.note_amended(database.within(amended(database, shard)).await);
    }

    fn note_amended(&self, found: Result<String, DatabaseFailure>) {
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(found) => {
                traces.is_failing = false;
                self.amended_at.store(milliseconds(), Ordering::Release);
                if traces.last.replace(found.clone()).is_none_or(|last| last != found) {
                    self.amendments.fetch_add(1, Ordering::AcqRel);
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut traces.is_failing, true) {
                    tracing::warn!(
                        error = explain(&error),
                        "it is unknown whether rows of the directory were repaired"
                    );
                }
            }
        }
    }
}

impl Recent {
    fn of(&self, key: u64) -> Option<u64> {
        self.newer.get(&key).or_else(|| self.older.get(&key)).copied()
    }

    fn note(&mut self, keys: [u64; 3], sequence: u64) {
        self.newer.extend(keys.map(|key| (key, sequence)));
        if self.newer.len() >= MOST {
            self.older = std::mem::take(&mut self.newer);
            self.forgotten = std::mem::replace(&mut self.older_until, sequence);
        }
    }
}

/// Updates the state, and ignores records once nobody uses it.
struct Following(Weak<State>);

impl Follower for Following {
    const WHAT: &'static str = "what has changed in the directory";

    fn apply(&mut self, record: &Record) {
        let Some(state) = self.0.upgrade() else { return };
        state.take_up(record, |recent| {
            for recorded in &record.events {
                let event = &recorded.event;
                if let Some(table) = ACCESS.table(&event.aggregate_type) {
                    let kind = table.aggregate_type;
                    let within = Some(event.instance_id.as_str());
                    let keys = [(within, Some(event.aggregate_id.as_str())), (within, None), (None, None)];
                    recent.note(keys.map(|(within, id)| state.key(within, kind, id)), recorded.sequence);
                }
            }
        });
    }

    /// Forgets everything, since anything may have changed.
    fn skip(&mut self, record: &Record) {
        let Some(state) = self.0.upgrade() else { return };
        let sequence = record.position().sequence;
        state.take_up(record, |recent| {
            *recent = Recent { older_until: sequence, forgotten: sequence, ..Recent::default() }
        });
    }
}

/// The time by [`since_start`] in milliseconds.
pub(super) fn milliseconds() -> u64 {
    u64::try_from(since_start().as_millis()).unwrap_or(u64::MAX)
}

/// Checks at every beat that nothing is missing, for as long as somebody uses the state.
async fn watch_end(state: Weak<State>, log: Log) {
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut end = LogEnd::default();
    loop {
        beats.tick().await;
        let Some(state) = state.upgrade() else { return };
        end.check(&state.completeness, &log, BEAT).await;
    }
}

/// Looks for amended rows, for as long as somebody uses the state.
async fn watch_rows(state: Weak<State>, database: Database, shard: u16) {
    let mut ticks = interval(AMENDED_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(state) = state.upgrade() else { return };
        state.look_for_amended(&database, shard).await;
    }
}

/// How far the read model is.
async fn processed(database: &Database, shard: u16) -> Result<Option<Position>, DatabaseFailure> {
    let connection = database.connection().await?;
    Ok(ReadModel::new(&ACCESS, shard).checkpoint(&*connection).await?.map(|checkpoint| checkpoint.position))
}

async fn amended(database: &Database, shard: u16) -> Result<String, DatabaseFailure> {
    let connection = database.connection().await?;
    let statement = connection.prepare_cached(AMENDED).await?;
    let row = connection.query_one(&statement, &[&ACCESS.name, &ACCESS.version, &i32::from(shard)]).await?;
    Ok(row.get(0))
}

#[cfg(test)]
pub(super) mod tests;
