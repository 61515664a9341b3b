//! What was switched off or removed, and when: instances, organizations, users, projects, apps, personal access tokens, and the
//! keys of users, apps and instances. It is in memory, loaded once and then updated from the log alone, so that whether a token
//! is still good needs no database.
//!
//! A token says which sequence its issuer had seen. It is dead when anything that it stands on ended later than that.
//!
//! Beside it stands which tokens were revoked, by the other log. A node that hears neither from NATS nor from Postgres for too long
//! does not know what is dead, and says so.

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
    log_class::{LogClass, OfEach},
    resource::{
        app::App, instance::Instance, key::Key, organization::Organization, personal_access_token::PersonalAccessToken,
        project::Project, signing_key::SigningKey, user::User,
    },
    standard::Resource,
};
use eventlog::{
    log::{self, Follower, Log, Reached},
    record::{Position, Record, Recorded},
};
use jiff::Timestamp;

use crate::{
    database::{Database, DatabaseFailure, snapshot},
    hearing::{Hearing, Hears, REMEMBERED, hear},
    heartbeat,
    projection::{ENDED, Kind},
    read_model::{ReadModel, Select},
    revoked::Revoked,
    rows::Stored,
    table::{Effect, HowEnded, Table},
};

/// How long tokens are accepted when it is not known what has ended, unless told otherwise.
pub const SILENCE: Duration = Duration::from_mins(5);

/// What has ended.
#[derive(Clone)]
pub struct Ended(Arc<State>);

struct State {
    ends: RwLock<Ends>,
    reached: Reached,
    /// Up to which sequence some of what ended may not be known any more.
    forgotten: AtomicU64,
    hearing: Hearing,
    /// Which tokens were revoked.
    revoked: Revoked,
}

/// By instance, then by kind and id.
type Ends = HashMap<String, HashMap<(&'static str, String), End>>;

/// The last time that it ended.
#[derive(Debug, Clone, Copy)]
struct End {
    sequence: u64,
    at: Timestamp,
    /// Whether it will never be again.
    is_removed: bool,
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ended").finish_non_exhaustive()
    }
}

impl Ended {
    /// What has ended up to now, and follows the logs from here. It is known as long as neither NATS nor Postgres is silent
    /// for longer than `silence`.
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
        let (ends, at) = match load(database, shard).await {
            Ok(Loaded { ends, at, .. }) if log.has(at).await? => (ends, at),
            Ok(_) => (Ends::new(), Position::default()),
            Err(error) => {
                tracing::warn!(
                    error = explain(&error),
                    "the read models cannot be read; what has ended is read from the log"
                );
                (Ends::new(), Position::default())
            }
        };
        let ended = Self::new(ends, at, (silence, revoked));
        tokio::spawn(log::keep_updated(log.clone(), ended.clone(), at).await?);
        tokio::spawn(hear(ended.clone(), log, database.clone(), shard));
        Ok(ended)
    }

    fn new(ends: Ends, at: Position, (silence, revoked): (Duration, Revoked)) -> Self {
        let (reached, forgotten) = (Reached::new(at.sequence), AtomicU64::new(at.sequence));
        let hearing = Hearing::new(at, silence);
        Self(Arc::new(State { ends: RwLock::new(ends), reached, forgotten, hearing, revoked }))
    }

    /// Whether it is known what has ended. Nothing may be taken for alive otherwise.
    pub fn is_known(&self) -> bool {
        self.0.hearing.is_known() && self.0.revoked.is_known()
    }

    /// Which tokens were revoked.
    pub fn revoked(&self) -> &Revoked {
        &self.0.revoked
    }

    /// Whether all is known that ended after a sequence. Tokens that are older have expired; what does not expire with them, such as
    /// a key, must be known as of a later one.
    pub fn knows_since(&self, sequence: u64) -> bool {
        self.0.forgotten.load(Ordering::Acquire) <= sequence
    }

    /// How far it is by the log.
    pub fn reached(&self) -> &Reached {
        &self.0.reached
    }

    /// Whether it is updated from what happens to aggregates of this type.
    pub fn follows(aggregate_type: &str) -> bool {
        ENDS.iter().any(|(kind, _)| *kind == aggregate_type)
    }

    /// The last time counts, whichever is heard of first.
    fn has_ended(&self, instance_id: &str, what: (&'static str, String), end: End) {
        let mut ends = self.0.ends.write().unwrap_or_else(PoisonError::into_inner);
        let newest = ends.entry(instance_id.to_owned()).or_default().entry(what).or_insert(end);
        if newest.sequence < end.sequence {
            *newest = end;
        }
    }

    /// Takes up what has ended by a record, as is said of each event: whether it was removed, where it has ended.
    fn take_up(&self, record: &Record, has_ended: impl Fn(&Table, &Recorded) -> Option<bool>) {
        let Kind::Rows(tables) = &ENDED.kind else { return };
        for recorded in &record.events {
            let table = tables.iter().find(|table| table.aggregate_type == recorded.event.aggregate_type);
            let Some((table, is_removed)) = table.and_then(|table| Some((table, has_ended(table, recorded)?))) else {
                continue;
            };
            let end = End { sequence: recorded.sequence, at: recorded.committed_at, is_removed };
            let what = (table.aggregate_type, recorded.event.aggregate_id.clone());
            self.has_ended(&recorded.event.instance_id, what, end);
        }
        self.0.hearing.reach(record.stream_sequence);
        self.0.reached.advance(record.position().sequence);
    }

    /// Whether something is dead that belongs to an owner and stands on these, each a kind and an id, where whoever looked at
    /// them had seen a sequence.
    pub fn is_dead(&self, instance_id: &str, owner: &Owner, on: &[(&'static str, &str)], sequence: u64) -> bool {
        let ended = self.0.ends.read().unwrap_or_else(PoisonError::into_inner);
        let Some(ended) = ended.get(instance_id) else { return false };
        let contexts = [(Instance::NAME, instance_id), (Organization::NAME, owner.id.as_str())];
        let stands_on = contexts.iter().chain(on);
        let mut ends = stands_on.filter_map(|(kind, id)| ended.get(&(*kind, (*id).to_owned())));
        ends.any(|end| end.sequence > sequence || end.is_removed)
    }

    /// Whether an instance ended after a sequence.
    pub fn is_off(&self, instance_id: &str, sequence: u64) -> bool {
        self.is_dead(instance_id, &Owner::system(), &[], sequence)
    }

    /// Whether an organization was removed: what belonged to it is there no more.
    pub fn is_removed(&self, instance_id: &str, context: &Owner) -> bool {
        context.kind == OwnerType::Organization && self.was_removed(instance_id, (Organization::NAME, &context.id))
    }

    /// Whether something of this kind and id was removed lately: what it holds goes with it, though a sweep may come to that later.
    pub fn was_removed(&self, instance_id: &str, (kind, id): (&'static str, &str)) -> bool {
        let ended = self.0.ends.read().unwrap_or_else(PoisonError::into_inner);
        let Some(ended) = ended.get(instance_id) else { return false };
        ended.get(&(kind, id.to_owned())).is_some_and(|end| end.is_removed)
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

fn removed<'a>(of: impl IntoIterator<Item = &'a HashMap<(&'static str, String), End>>) -> Vec<Owner> {
    let removed = of.into_iter().flatten();
    let removed = removed.filter(|((kind, _), end)| end.is_removed && *kind == Organization::NAME);
    removed.map(|((_, id), _)| Owner::organization(id)).collect()
}

impl Hears for Ended {
    fn hearing(&self) -> &Hearing {
        &self.0.hearing
    }

    async fn look_up(&self, database: &Database, shard: u16) {
        let asked = since_start();
        match load(database, shard).await {
            Ok(Loaded { ends: found, age, .. }) => {
                for (instance_id, of_instance) in found {
                    for (what, end) in of_instance {
                        self.has_ended(&instance_id, what, end);
                    }
                }
                if let Some(at) = age.and_then(|age| asked.checked_sub(age)) {
                    self.0.hearing.heard(at);
                }
            }
            Err(error) => {
                let error = explain(&error);
                tracing::warn!(error, "neither the log nor the read models tell what has ended");
            }
        }
    }

    /// What was switched off too long ago for any token, and what is still asked for: removed contexts.
    fn forget(&self) {
        let since = clock::now() - REMEMBERED;
        let mut ends = self.0.ends.write().unwrap_or_else(PoisonError::into_inner);
        let mut forgotten = 0;
        for of_instance in ends.values_mut() {
            of_instance.retain(|(kind, _), end| {
                let stays = end.at > since || is_context(kind);
                forgotten = if stays { forgotten } else { end.sequence.max(forgotten) };
                stays
            });
        }
        self.0.forgotten.fetch_max(forgotten, Ordering::AcqRel);
        ends.retain(|_, of_instance| !of_instance.is_empty());
    }
}

impl Follower for Ended {
    const WHAT: &'static str = "what has ended";

    fn apply(&mut self, record: &Record) {
        self.take_up(record, |table, recorded| match (table.apply)(recorded) {
            Ok(Effect::Set(_)) => Some(recorded.event.r#type.ends_with(".removed")),
            Ok(Effect::Keep | Effect::End) => None,
            // Of what cannot be read it is not known that it has not ended.
            Err(_) => Some(false),
        });
    }

    fn skip(&mut self, record: &Record) {
        self.take_up(record, |_, _| Some(false));
    }
}

/// What ended after a time, by kind.
static ENDS: [(&str, Select<HowEnded>); 9] = [
    (Instance::NAME, Select::new(&ENDED, Instance::NAME, SINCE)),
    (Organization::NAME, Select::new(&ENDED, Organization::NAME, SINCE)),
    (User::NAME, Select::new(&ENDED, User::NAME, SINCE)),
    (Project::NAME, Select::new(&ENDED, Project::NAME, SINCE)),
    (App::NAME, Select::new(&ENDED, App::NAME, SINCE)),
    (Key::<User>::NAME, Select::new(&ENDED, Key::<User>::NAME, SINCE)),
    (Key::<App>::NAME, Select::new(&ENDED, Key::<App>::NAME, SINCE)),
    (PersonalAccessToken::NAME, Select::new(&ENDED, PersonalAccessToken::NAME, SINCE)),
    (SigningKey::NAME, Select::new(&ENDED, SigningKey::NAME, SINCE)),
];
const SINCE: &str = "where changed_at > $1";

/// Whether others belong to what is of this kind: of one that was removed it is asked as long as something of it is there.
fn is_context(kind: &str) -> bool {
    [Instance::NAME, Organization::NAME].contains(&kind)
}

/// What the read model has.
struct Loaded {
    ends: Ends,
    at: Position,
    /// How long ago that was all that was in the log.
    age: Option<Duration>,
}

async fn load(database: &Database, shard: u16) -> Result<Loaded, DatabaseFailure> {
    database.within(read(database, shard)).await
}

async fn read(database: &Database, shard: u16) -> Result<Loaded, DatabaseFailure> {
    let mut connection = database.connection().await?;
    let transaction = snapshot(&mut connection).await?;
    let checkpoint = ReadModel::new(&ENDED, shard).checkpoint(&transaction).await?;
    let at = checkpoint.map(|checkpoint| checkpoint.position).unwrap_or_default();
    let age = heartbeat::age(&transaction, (LogClass::Events, shard), at).await?;
    let mut ends = Ends::new();
    for (kind, select) in &ENDS {
        let since = if is_context(kind) { Timestamp::UNIX_EPOCH } else { clock::now() - REMEMBERED };
        for Stored { instance_id, found } in select.rows(&transaction, &[&since]).await? {
            let end = End { sequence: found.sequence, at: found.changed_at, is_removed: found.state.is_removed };
            ends.entry(instance_id).or_default().insert((*kind, found.id), end);
        }
    }
    transaction.commit().await?;
    Ok(Loaded { ends, at, age })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(kind: &'static str, id: &str, is_removed: bool) -> Ended {
        let end = End { sequence: 10, at: Timestamp::UNIX_EPOCH, is_removed };
        let ends = HashMap::from([((kind, id.to_owned()), end)]);
        let revoked = Revoked::new(Position::default(), SILENCE);
        Ended::new(HashMap::from([("1".to_owned(), ends)]), Position::default(), (SILENCE, revoked))
    }

    #[test]
    fn users_are_forgotten_when_no_token_of_theirs_is_left() {
        let home = Owner::organization("2");
        for (kind, id, is_forgotten) in [("user", "3", true), ("organization", "2", false), ("instance", "1", false)] {
            let ended = ended(kind, id, true);
            ended.forget();
            assert_eq!(!ended.is_dead("1", &home, &[(User::NAME, "3")], 9), is_forgotten, "{kind}");
            assert_eq!((ended.knows_since(9), ended.knows_since(10)), (!is_forgotten, true), "{kind}");
        }
    }

    #[test]
    fn a_token_is_dead_when_something_ended_after_its_issuer_had_looked() {
        let is_dead = |ended: &Ended, instance_id: &str, sequence| {
            let on = [(User::NAME, "3"), (App::NAME, "4"), (Project::NAME, "5")];
            ended.is_dead(instance_id, &Owner::organization("2"), &on, sequence)
        };
        for (kind, id) in [("instance", "1"), ("organization", "2"), ("user", "3"), ("app", "4"), ("project", "5")] {
            let ended = ended(kind, id, false);
            assert!(is_dead(&ended, "1", 9), "{kind}");
            assert!(!is_dead(&ended, "1", 10), "{kind}: it was switched on again");
        }
        assert!(is_dead(&ended("user", "3", true), "1", 11), "what is removed never comes back");
        assert!(!is_dead(&ended("user", "3", true), "7", 0), "another instance");
        assert!(!is_dead(&ended("user", "4", true), "1", 0), "another user");
        assert!(!is_dead(&ended("app", "3", true), "1", 0), "another kind");
    }
}
