//! What was switched off or removed, and when: instances, organizations, users, projects, apps, personal access tokens,
//! the keys of users, apps and instances, roles of projects and who was granted them, which ends also when it gives
//! other roles from now on. It is in memory, loaded once and then updated from the log alone, so that whether a token
//! is still good needs no database.
//!
//! A token names the sequence that its issuer had seen. It is dead when anything that it depends on ended later than
//! that. A grant that ended is ignored until the read model has something newer of it.
//!
//! Which tokens were revoked is known beside it, from the other log. A node that hears from neither NATS nor Postgres
//! for too long does not know what is dead, and reports that.

mod kinds;
mod lately;
mod loaded;

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base::{
    clock::{self, since_start},
    explain::explain,
};
use domain::{
    context::{Owner, OwnerType},
    log_class::OfEach,
    resource::{instance::Instance, organization::Organization},
    standard::Resource,
};
use eventlog::{
    log::{self, Follower, Log, Reached},
    record::{Record, Recorded},
};
use jiff::Timestamp;

use self::{
    kinds::{ENDS, is_grant, since},
    lately::Lately,
    loaded::{Loaded, load},
};
use crate::{
    completeness::{Completeness, FollowsLog, watch_log_end},
    database::Database,
    failed_event::Baseline,
    projection::ENDED,
    revoked::Revoked,
    table::{Effect, Table},
};

/// How long tokens are accepted by default while it is unknown what has ended.
pub const SILENCE: Duration = Duration::from_mins(5);
/// The error when it is forgotten which grants have ended since a sequence, because that is too long ago.
#[derive(Debug, PartialEq, Eq)]
pub struct Forgotten;

/// What has ended.
#[derive(Clone)]
pub struct Ended(Arc<State>);

struct State {
    ends: RwLock<Ends>,
    /// The events that the rows lacked when they were loaded.
    baseline: Baseline,
    lately: Lately,
    reached: Reached,
    /// The sequence up to which some of what ended may be forgotten.
    forgotten: AtomicU64,
    /// The sequence up to which some of the grants that ended may be forgotten.
    forgotten_grants: AtomicU64,
    completeness: Completeness,
    /// The tokens that were revoked.
    revoked: Revoked,
}

/// What has ended, by instance, then by kind and id.
type Ends = HashMap<String, HashMap<(&'static str, String), End>>;

/// The last time that something ended.
#[derive(Debug, Clone, Copy)]
struct End {
    sequence: u64,
    at: Timestamp,
    /// Whether it was removed.
    is_removed: bool,
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ended").finish_non_exhaustive()
    }
}

impl Ended {
    /// Loads what has ended so far, and follows the logs from there. It counts as known unless both NATS and Postgres
    /// are silent for longer than `silence`.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub async fn open(
        logs: OfEach<Log>,
        database: &Database,
        shard: u16,
        silence: Duration,
    ) -> Result<Self, log::LogFailure> {
        let OfEach { events: log, sessions } = logs;
        let revoked = Revoked::open(sessions, database, shard, silence).await?;
        let (ends, baseline) = match load(database, shard).await {
            Ok(Loaded { ends, baseline, .. }) if log.has(baseline.position).await? => (ends, baseline),
            Ok(_) => (Ends::new(), Baseline::default()),
            Err(error) => {
                tracing::warn!(
                    error = explain(&error),
                    "the read models cannot be read; what has ended is read from the log"
                );
                (Ends::new(), Baseline::default())
            }
        };
        let at = baseline.position;
        let ended = Self::new(ends, baseline, silence, revoked);
        tokio::spawn(log::keep_updated(log.clone(), ended.clone(), at).await?);
        tokio::spawn(watch_log_end(ended.clone(), log, database.clone(), shard));
        Ok(ended)
    }

    fn new(ends: Ends, baseline: Baseline, silence: Duration, revoked: Revoked) -> Self {
        // More grants are loaded than are remembered.
        let [forgotten, forgotten_grants] = [baseline.processed, 0].map(AtomicU64::new);
        let at = baseline.position;
        let (reached, completeness) = (Reached::new(at.sequence), Completeness::new(at, silence));
        let lately = Lately::default();
        lately.add_all(&ends);
        Self(Arc::new(State {
            ends: RwLock::new(ends),
            baseline,
            lately,
            reached,
            forgotten,
            forgotten_grants,
            completeness,
            revoked,
        }))
    }

    /// Whether it is known what has ended. Nothing may be taken for alive otherwise.
    pub fn is_known(&self) -> bool {
        self.0.completeness.is_known() && self.0.revoked.is_known()
    }

    /// The tokens that were revoked.
    pub fn revoked(&self) -> &Revoked {
        &self.0.revoked
    }

    /// Whether everything is known that ended after a sequence. Older tokens have expired; what does not expire with
    /// them, such as a key, must have been read as of a later sequence.
    pub fn knows_since(&self, sequence: u64) -> bool {
        self.0.forgotten.load(Ordering::Acquire) <= sequence
    }

    /// How far the log was followed.
    pub fn position(&self) -> &Reached {
        &self.0.reached
    }

    /// Whether aggregates of this type are among those that can end.
    pub fn follows(aggregate_type: &str) -> bool {
        ENDS.iter().any(|(kind, _)| *kind == aggregate_type)
    }

    /// Adapts rows that were loaded again, unless the log was read as far and it is known what the rows lack.
    fn adapt(&self, loaded: Loaded) -> Loaded {
        let has_all = self.0.reached.sequence() >= loaded.baseline.processed;
        if has_all { loaded } else { loaded.without_log() }
    }

    /// Notes that something has ended. Ends may arrive out of order.
    fn has_ended(&self, instance_id: &str, kind: &'static str, id: String, end: End) {
        let mut ends = self.0.ends.write().unwrap_or_else(PoisonError::into_inner);
        note(&mut ends, instance_id.to_owned(), kind, id, end);
    }

    /// Applies a record. `has_ended` returns whether an event removed its aggregate; `None` where it has not ended.
    fn take_up(&self, record: &Record, has_ended: impl Fn(&Table, &Recorded) -> Option<bool>) {
        for recorded in record.events.iter().filter(|recorded| self.0.baseline.lacks(recorded)) {
            let table = ENDED.table(&recorded.event.aggregate_type);
            let Some((table, is_removed)) = table.and_then(|table| Some((table, has_ended(table, recorded)?))) else {
                continue;
            };
            let end = End { sequence: recorded.sequence, at: recorded.committed_at, is_removed };
            let (kind, id) = (table.aggregate_type, &recorded.event.aggregate_id);
            if recorded.event.unswept {
                self.0.lately.add(&recorded.event.instance_id, kind, id, end.at);
            }
            self.has_ended(&recorded.event.instance_id, kind, id.clone(), end);
        }
        self.0.completeness.set_reached(record.stream_sequence);
        self.0.reached.advance(record.position().sequence);
    }

    /// Whether something is dead that belongs to an owner and depends on these objects, each a kind and an id, when
    /// they were looked at as of a sequence.
    pub fn is_dead(&self, instance_id: &str, owner: &Owner, on: &[(&'static str, &str)], sequence: u64) -> bool {
        self.last(instance_id, owner, on, |end| end.sequence > sequence || end.is_removed).is_some()
    }

    /// The sequence of the last end that meets a condition, of any of these objects or their owner's contexts.
    fn last(
        &self,
        instance_id: &str,
        owner: &Owner,
        on: &[(&'static str, &str)],
        is_meant: impl Fn(&End) -> bool,
    ) -> Option<u64> {
        let ended = self.0.ends.read().unwrap_or_else(PoisonError::into_inner);
        let ended = ended.get(instance_id)?;
        let contexts = [(Instance::NAME, instance_id), (Organization::NAME, owner.id.as_str())];
        let stands_on = contexts.iter().chain(on);
        let found = stands_on.filter_map(|(kind, id)| ended.get(&(*kind, (*id).to_owned())));
        found.filter(|end| is_meant(end)).map(|end| end.sequence).max()
    }

    /// The sequence at which grants and roles, or what they depend on, last ended or changed after they were read as of
    /// `processed`. What was removed may exist again: a role has the same id each time it is created.
    ///
    /// # Errors
    /// When that is so long ago that it is forgotten.
    pub fn withdrawn(
        &self,
        instance_id: &str,
        owner: &Owner,
        on: &[(&'static str, &str)],
        processed: u64,
    ) -> Result<Option<u64>, Forgotten> {
        if processed < self.0.forgotten_grants.load(Ordering::Acquire) {
            return Err(Forgotten);
        }
        Ok(self.last(instance_id, owner, on, |end| end.sequence > processed))
    }

    /// Whether an instance ended after a sequence.
    pub fn is_off(&self, instance_id: &str, sequence: u64) -> bool {
        self.is_dead(instance_id, &Owner::system(), &[], sequence)
    }

    /// Whether a context is an organization that was removed, with everything that belonged to it.
    pub fn is_removed(&self, instance_id: &str, context: &Owner) -> bool {
        context.kind == OwnerType::Organization && self.was_removed(instance_id, Organization::NAME, &context.id)
    }

    /// Whether something of this kind and id was removed: what it holds goes with it, even if a sweep is still to come.
    pub fn was_removed(&self, instance_id: &str, kind: &'static str, id: &str) -> bool {
        let ended = self.0.ends.read().unwrap_or_else(PoisonError::into_inner);
        let Some(ended) = ended.get(instance_id) else { return false };
        ended.get(&(kind, id.to_owned())).is_some_and(|end| end.is_removed)
    }

    /// The ids of objects of a kind that were removed within the last hour and are swept, in these or in all instances.
    pub fn removed_lately(&self, instances: Option<&[String]>, kind: &str) -> Vec<String> {
        self.0.lately.of(instances, kind)
    }

    /// The organizations of an instance that were removed.
    pub fn removed(&self, instance_id: &str) -> Vec<Owner> {
        let ended = self.0.ends.read().unwrap_or_else(PoisonError::into_inner);
        removed(ended.get(instance_id))
    }

    /// The organizations of all instances that were removed.
    pub fn removed_anywhere(&self) -> Vec<Owner> {
        removed(self.0.ends.read().unwrap_or_else(PoisonError::into_inner).values())
    }
}

/// Notes an end. The last one counts, but what was removed stays so: rows of a parked aggregate may end it again.
fn note(ends: &mut Ends, instance_id: String, kind: &'static str, id: String, end: End) {
    let newest = ends.entry(instance_id).or_default().entry((kind, id)).or_insert(end);
    let is_removed = newest.is_removed || end.is_removed;
    if newest.sequence < end.sequence {
        *newest = end;
    }
    newest.is_removed = is_removed;
}

fn removed<'a>(of: impl IntoIterator<Item = &'a HashMap<(&'static str, String), End>>) -> Vec<Owner> {
    let removed = of.into_iter().flatten();
    let removed = removed.filter(|((kind, _), end)| end.is_removed && *kind == Organization::NAME);
    removed.map(|((_, id), _)| Owner::organization(id)).collect()
}

impl FollowsLog for Ended {
    fn completeness(&self) -> &Completeness {
        &self.0.completeness
    }

    async fn look_up(&self, database: &Database, shard: u16) {
        let asked = since_start();
        match load(database, shard).await.map(|loaded| self.adapt(loaded)) {
            Ok(Loaded { ends: found, age, .. }) => {
                self.0.lately.add_all(&found);
                for (instance_id, of_instance) in found {
                    for ((kind, id), end) in of_instance {
                        self.has_ended(&instance_id, kind, id, end);
                    }
                }
                if let Some(at) = age.and_then(|age| asked.checked_sub(age)) {
                    self.0.completeness.set_complete_at(at);
                }
            }
            Err(error) => {
                let error = explain(&error);
                tracing::warn!(error, "what has ended is unknown: neither the log nor the read models can be read");
            }
        }
    }

    /// Forgets what ended too long ago for any token. Removed contexts stay, since they are still looked up.
    fn forget(&self) {
        let now = clock::now();
        self.0.lately.forget(now);
        let mut ends = self.0.ends.write().unwrap_or_else(PoisonError::into_inner);
        for of_instance in ends.values_mut() {
            of_instance.retain(|(kind, _), end| {
                let stays = end.at > since(kind, now);
                if !stays {
                    let forgotten = if is_grant(kind) { &self.0.forgotten_grants } else { &self.0.forgotten };
                    forgotten.fetch_max(end.sequence, Ordering::AcqRel);
                }
                stays
            });
        }
        ends.retain(|_, of_instance| !of_instance.is_empty());
    }
}

impl Follower for Ended {
    const WHAT: &'static str = "what has ended";

    fn apply(&mut self, record: &Record) {
        self.take_up(record, |table, recorded| match (table.apply)(recorded) {
            Ok(Effect::Keep | Effect::End) => None,
            // What cannot be read may have ended.
            Ok(Effect::Set(_)) | Err(_) => Some(is_removal(recorded)),
        });
    }

    fn skip(&mut self, record: &Record) {
        self.take_up(record, |_, recorded| Some(is_removal(recorded)));
    }
}

/// Whether an event removes its aggregate: its type says so, even where the payload cannot be read.
fn is_removal(recorded: &Recorded) -> bool {
    recorded.event.r#type.ends_with(".removed")
}

#[cfg(test)]
mod tests;
