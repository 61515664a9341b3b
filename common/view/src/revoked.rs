//! Which access tokens were revoked, in memory, until they would have expired: single ones by their ids, and all that a client got
//! for a user until then. It is loaded from history once and then updated from the log.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use base::{
    clock::{self, since_start},
    explain::explain,
};
use domain::{
    aggregate::Aggregate,
    log_class::LogClass,
    token_revocation::{Event, TokenRevocation},
};
use eventlog::{
    log::{self, Follower, Log, Reached},
    record::{Position, Record, Recorded, decode},
};

use crate::{
    checkpoint::Checkpoint,
    database::{Database, DatabaseFailure, snapshot},
    hearing::{Hearing, Hears, REMEMBERED, hear},
    heartbeat, history,
    projection::{SESSION_HISTORY, Sql},
};

/// How many revocations of single tokens an instance may have that have not expired. Beyond them all tokens of a user and a client
/// are revoked together, which takes one entry.
pub const MOST_SINGLE: usize = 10_000;

/// What is known of revoked tokens.
#[derive(Clone)]
pub struct Revoked(Arc<State>);

struct State {
    known: RwLock<HashMap<String, OfInstance>>,
    reached: Reached,
    hearing: Hearing,
}

/// The revocations of an instance, each until when it is remembered, in milliseconds since the Unix epoch.
#[derive(Debug, Default)]
struct OfInstance {
    /// By the id of the token.
    single: HashMap<String, i64>,
    /// By user and client, with the sequence of the last one.
    all: HashMap<(String, String), (u64, i64)>,
}

/// What a token says of itself that may be revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenId {
    /// Its id.
    pub id: String,
    /// The user whose it is.
    pub user_id: String,
    /// The client that it was issued to.
    pub client_id: String,
    /// The sequence of the log that its issuer had seen.
    pub sequence: u64,
}

impl std::fmt::Debug for Revoked {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Revoked").finish_non_exhaustive()
    }
}

impl Revoked {
    /// What was revoked up to now, and follows the log from here.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(crate) async fn open(
        log: Log,
        database: &Database,
        shard: u16,
        silence: Duration,
    ) -> Result<Self, log::LogFailure> {
        let loaded = match load(database, shard).await {
            Ok(loaded) if log.has(loaded.at).await? => loaded,
            Ok(_) => Loaded::default(),
            Err(error) => {
                let error = explain(&error);
                tracing::warn!(error, "the read models cannot be read; what was revoked is read from the log");
                Loaded::default()
            }
        };
        let revoked = Self::new(loaded.at, silence);
        revoked.take_all_up(&loaded.events);
        tokio::spawn(log::keep_updated(log.clone(), revoked.clone(), loaded.at).await?);
        tokio::spawn(hear(revoked.clone(), log, database.clone(), shard));
        Ok(revoked)
    }

    pub(crate) fn new(at: Position, silence: Duration) -> Self {
        let (reached, hearing) = (Reached::new(at.sequence), Hearing::new(at, silence));
        Self(Arc::new(State { known: RwLock::default(), reached, hearing }))
    }

    /// Whether it is known what was revoked.
    pub(crate) fn is_known(&self) -> bool {
        self.0.hearing.is_known()
    }

    /// How far it is by the log.
    pub fn reached(&self) -> &Reached {
        &self.0.reached
    }

    /// The sequence that tokens carry that are issued now.
    pub fn sequence(&self) -> u64 {
        *self.0.reached.changes().borrow()
    }

    /// Whether a token was revoked.
    pub fn has(&self, instance_id: &str, token: &TokenId) -> bool {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        let Some(OfInstance { single, all }) = known.get(instance_id) else { return false };
        let of_all = || all.get(&(token.user_id.clone(), token.client_id.clone()));
        single.contains_key(&token.id) || of_all().is_some_and(|(sequence, _)| *sequence > token.sequence)
    }

    /// Whether an instance has as many revocations of single tokens as it may have.
    pub fn is_full(&self, instance_id: &str) -> bool {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(instance_id).is_some_and(|of_instance| of_instance.single.len() >= MOST_SINGLE)
    }

    fn take_all_up(&self, events: &[Recorded]) {
        for recorded in events {
            self.take_up(recorded);
        }
    }

    fn take_up(&self, recorded: &Recorded) {
        let event = &recorded.event;
        if event.aggregate_type != TokenRevocation::NAME {
            return;
        }
        let longest = (recorded.committed_at + REMEMBERED).as_millisecond();
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        let of_instance = known.entry(event.instance_id.clone()).or_default();
        match decode::<TokenRevocation>(recorded) {
            Ok(Event::Revoked(revoked)) if revoked.is_all => {
                let end = of_instance.all.entry((revoked.user_id, revoked.client_id)).or_default();
                *end = (*end).max((recorded.sequence, longest));
            }
            // A little later, for clocks that differ.
            Ok(Event::Revoked(revoked)) => {
                let until = revoked.expires_at.saturating_add(CLOCKS).min(longest);
                of_instance.single.insert(event.aggregate_id.clone(), until);
            }
            // What cannot be read is about this token at least.
            Err(_) => {
                of_instance.single.insert(event.aggregate_id.clone(), longest);
            }
        }
    }
}

/// By how many milliseconds the clocks of nodes may differ.
const CLOCKS: i64 = 60_000;

impl Follower for Revoked {
    const WHAT: &'static str = "what was revoked";

    fn apply(&mut self, record: &Record) {
        for recorded in &record.events {
            self.take_up(recorded);
        }
        self.0.hearing.reach(record.stream_sequence);
        self.0.reached.advance(record.position().sequence);
    }
}

impl Hears for Revoked {
    fn hearing(&self) -> &Hearing {
        &self.0.hearing
    }

    async fn look_up(&self, database: &Database, shard: u16) {
        let asked = since_start();
        match load(database, shard).await {
            Ok(Loaded { events, age, .. }) => {
                self.take_all_up(&events);
                if let Some(at) = age.and_then(|age| asked.checked_sub(age)) {
                    self.0.hearing.heard(at);
                }
            }
            Err(error) => {
                let error = explain(&error);
                tracing::warn!(error, "neither the log nor the read models tell what was revoked");
            }
        }
    }

    fn forget(&self) {
        let now = clock::now().as_millisecond();
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        for OfInstance { single, all } in known.values_mut() {
            single.retain(|_, until| *until > now);
            all.retain(|_, (_, until)| *until > now);
        }
        known.retain(|_, OfInstance { single, all }| !single.is_empty() || !all.is_empty());
    }
}

/// What history has.
#[derive(Default)]
struct Loaded {
    events: Vec<Recorded>,
    at: Position,
    /// How long ago that was all that was in the log.
    age: Option<Duration>,
}

async fn load(database: &Database, shard: u16) -> Result<Loaded, DatabaseFailure> {
    database.within(read(database, shard)).await
}

async fn read(database: &Database, shard: u16) -> Result<Loaded, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        SESSION_HISTORY
            .sql("select * from {schema}.events where aggregate_type = $1 and committed_at > $2 order by sequence")
    });
    let mut connection = database.connection().await?;
    let transaction = snapshot(&mut connection).await?;
    let checkpoint = Checkpoint::read(&transaction, &SESSION_HISTORY, shard).await?;
    let at = checkpoint.map(|checkpoint| checkpoint.position).unwrap_or_default();
    let age = heartbeat::age(&transaction, (LogClass::Sessions, shard), at).await?;
    let since = clock::now() - REMEMBERED;
    let rows = transaction.query(&**SELECT, &[&TokenRevocation::NAME, &since]).await?;
    let events = rows.iter().map(history::recorded).collect::<Result<_, _>>()?;
    transaction.commit().await?;
    Ok(Loaded { events, at, age })
}

#[cfg(test)]
mod tests {
    use domain::token_revocation::id_of_all;
    use eventlog::record::{CommitRecord, Event as Recording};

    use super::*;

    const SILENCE: Duration = Duration::from_mins(5);

    /// A token of a user and a client, whose issuer had seen this sequence.
    fn token(id: &str, sequence: u64) -> TokenId {
        TokenId { id: id.into(), user_id: "7".into(), client_id: "8".into(), sequence }
    }

    /// A record that revokes a token, or all of a user and a client.
    fn record(sequence: u64, id: &str, payload: &serde_json::Value) -> Record {
        let event = Recording {
            instance_id: "1".into(),
            aggregate_type: TokenRevocation::NAME.into(),
            aggregate_id: id.into(),
            r#type: "token_revocation.revoked".into(),
            revision: 1,
            payload: payload.to_string().into(),
            ..Recording::default()
        };
        let committed_at = clock::now().as_microsecond();
        let commit =
            CommitRecord { first_sequence: sequence, committed_at, events: vec![event], ..CommitRecord::default() };
        Record::new(sequence, [0; 32], commit)
    }

    fn payload(expires_at: i64, is_all: bool) -> serde_json::Value {
        serde_json::json!({ "user_id": "7", "client_id": "8", "expires_at": expires_at, "is_all": is_all })
    }

    fn in_an_hour() -> i64 {
        clock::now().as_millisecond() + 3_600_000
    }

    #[test]
    fn a_token_is_revoked_alone_and_until_it_would_have_expired() {
        let mut revoked = Revoked::new(Position::default(), SILENCE);
        revoked.apply(&record(1, "a", &payload(in_an_hour(), false)));
        revoked.apply(&record(2, "b", &payload(0, false)));
        let has = |id| revoked.has("1", &token(id, 9));
        assert_eq!((has("a"), has("b"), has("c"), revoked.has("2", &token("a", 0))), (true, true, false, false));
        revoked.forget();
        assert_eq!((revoked.has("1", &token("a", 9)), revoked.has("1", &token("b", 9))), (true, false));
        assert_eq!(revoked.sequence(), 2);
    }

    #[test]
    fn all_tokens_are_revoked_that_were_issued_before() {
        let mut revoked = Revoked::new(Position::default(), SILENCE);
        revoked.apply(&record(5, &id_of_all("7", "8"), &payload(in_an_hour(), true)));
        assert_eq!([4, 5].map(|sequence| revoked.has("1", &token("a", sequence))), [true, false]);
        let of_another = TokenId { client_id: "9".into(), ..token("a", 4) };
        assert!(!revoked.has("1", &of_another));
        assert!(!revoked.is_full("1"), "they take no room of single ones");
    }

    #[test]
    fn what_cannot_be_read_revokes_the_token_that_it_is_about() {
        let mut revoked = Revoked::new(Position::default(), SILENCE);
        revoked.apply(&record(1, "a", &serde_json::json!({})));
        assert_eq!(["a", "b"].map(|id| revoked.has("1", &token(id, 9))), [true, false]);
    }

    #[test]
    fn an_instance_has_room_for_so_many() {
        let mut revoked = Revoked::new(Position::default(), SILENCE);
        for sequence in 1..=MOST_SINGLE as u64 {
            assert!(!revoked.is_full("1"));
            revoked.apply(&record(sequence, &sequence.to_string(), &payload(in_an_hour(), false)));
        }
        assert!(revoked.is_full("1") && !revoked.is_full("2"));
    }
}
