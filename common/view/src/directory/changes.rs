//! What has changed of what the directory reads. As long as nothing changes that an answer depends on, it stays right,
//! however old it is: a tenant at rest costs no queries.
//!
//! The log says what changes, and NATS is asked where it ends, so that silence is not taken for rest. Rows can also be
//! written without a new event, for example when a failed event is tried again; Postgres is asked once a second
//! whether that has happened, for all of them together.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base::explain::explain;
use deadpool_postgres::GenericClient;
use eventlog::{
    log::{self, Follower, Log, LogFailure},
    record::{Position, Record},
};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    completeness::{Completeness, LogEnd},
    database::{Database, DatabaseFailure},
    projection::ACCESS,
};

/// How many changes are remembered at least.
const MOST: usize = 50_000;
/// How long ago it may be that everything was known.
const TOLERANCE: Duration = Duration::from_secs(1);
/// How often NATS is asked where the log ends: two of these are within the tolerance.
const BEAT: Duration = Duration::from_millis(400);
/// How often Postgres is asked whether rows were amended.
const AMENDED_EVERY: Duration = Duration::from_secs(1);

/// Changes when rows of the directory were written without a new event: by a failed event that was processed after
/// all, by the scrubber, or because another generation answers now.
const AMENDED: &str = "\
select hashtextextended(concat_ws('|', \
(select concat_ws(' ', count(*), sum(hashint8extended(sequence, 0)::numeric)) from platform.failed_events \
where projection = $1 and version = $2 and shard = $3), \
(select concat_ws(' ', repaired, repaired_at) from platform.scrubs where projection = $1 and version = $2 and shard = $3), \
(select string_agg(concat_ws(' ', place, since), ' ' order by place) from platform.generations \
where projection = $1 and version = $2)), 0)";

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
    completeness: Completeness,
    /// What [`AMENDED`] returned.
    amended: AtomicU64,
}

/// The sequences of the last changes, by what changed.
#[derive(Default)]
struct Recent {
    newer: HashMap<u64, u64>,
    /// Those up to `turned`.
    older: HashMap<u64, u64>,
    turned: u64,
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
    /// Follows the log from its end on.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) async fn follow(log: Log, database: Database, shard: u16) -> Result<Self, LogFailure> {
        let at = log.last().await?.map(|record| record.position()).unwrap_or_default();
        let changes = Self::new(at);
        changes.0.look_for_amended(&database, shard).await;
        let state = Arc::downgrade(&changes.0);
        tokio::spawn(log::keep_updated(log.clone(), Following(state.clone()), at).await?);
        tokio::spawn(watch_end(state.clone(), log));
        tokio::spawn(watch_rows(state, database, shard));
        Ok(changes)
    }

    fn new(at: Position) -> Self {
        let recent = Recent { turned: at.sequence, forgotten: at.sequence, ..Recent::default() };
        Self(Arc::new(State {
            hasher: RandomState::new(),
            recent: RwLock::new(recent),
            last: at.sequence.into(),
            position: at.sequence.into(),
            completeness: Completeness::new(at, TOLERANCE),
            amended: AtomicU64::new(0),
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

    /// The sequence up to which the log was read.
    pub(super) fn position(&self) -> u64 {
        self.0.position.load(Ordering::Acquire)
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
        let changed = dependencies.iter().filter_map(|key| recent.newer.get(key).or_else(|| recent.older.get(key)));
        changed.copied().max().filter(|at| *at > sequence).map_or(Change::None, Change::At)
    }

    /// Whether everything is known that was in the log a second ago.
    pub(super) fn is_known(&self) -> bool {
        self.0.completeness.is_known()
    }

    #[cfg(test)]
    pub(super) fn amend(&self, amended: u64) {
        self.0.amended.store(amended, Ordering::Release);
    }

    /// Differs from what it was when rows have been written without a new event.
    pub(super) fn amended(&self) -> u64 {
        self.0.amended.load(Ordering::Acquire)
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
        match database.within(amended(database, shard)).await {
            Ok(amended) => self.amended.store(amended, Ordering::Release),
            Err(error) => tracing::debug!(error = explain(&error), "it is unknown whether rows were amended"),
        }
    }
}

impl Recent {
    fn note(&mut self, keys: [u64; 3], sequence: u64) {
        self.newer.extend(keys.map(|key| (key, sequence)));
        if self.newer.len() >= MOST {
            self.older = std::mem::take(&mut self.newer);
            self.forgotten = std::mem::replace(&mut self.turned, sequence);
        }
    }
}

/// Updates the state for as long as somebody uses it.
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
        state.take_up(record, |recent| *recent = Recent { turned: sequence, forgotten: sequence, ..Recent::default() });
    }
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

async fn amended(database: &Database, shard: u16) -> Result<u64, DatabaseFailure> {
    let connection = database.connection().await?;
    let statement = connection.prepare_cached(AMENDED).await?;
    let row = connection.query_one(&statement, &[&ACCESS.name, &ACCESS.version, &i32::from(shard)]).await?;
    Ok(row.get::<_, i64>(0).cast_unsigned())
}

#[cfg(test)]
pub(super) mod tests;
