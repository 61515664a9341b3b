//! Revoked access tokens, in memory until they would have expired: single ones by id, all from one code or session, and
//! all that a client got for a user until a time. They are loaded from history once and then updated from the log.

mod of_instance;

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
    aggregate::Aggregate,
    log_class::LogClass,
    resource::session::Session,
    standard::Resource,
    token_revocation::{self, Event, TokenRevocation},
};
use eventlog::{
    log::{self, Follower, Log, Reached},
    record::{Position, Record, Recorded, decode},
};
use tokio_postgres::types::ToSql;

use self::of_instance::{All, CLOCKS, OfInstance, Single};
pub use self::of_instance::{MOST_OF_CLIENT, MOST_SINGLE, TokenId};
pub use crate::completeness::{LONGEST_LIFE, REMEMBERED};
use crate::{
    checkpoint::{Checkpoint, signed},
    completeness::{Completeness, FollowsLog, watch_log_end},
    database::{Database, DatabaseFailure, snapshot},
    heartbeat, history,
    projection::{SESSION_HISTORY, Sql},
};

/// The event that ends a session and all tokens that were issued in it.
const SESSION_ENDED: &str = "session.removed";

/// The revoked tokens that are known.
#[derive(Clone)]
pub struct Revoked(Arc<State>);

struct State {
    known: RwLock<HashMap<String, OfInstance>>,
    reached: Reached,
    completeness: Completeness,
    /// The sequence up to which history was read.
    read: AtomicU64,
}

impl std::fmt::Debug for Revoked {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Revoked").finish_non_exhaustive()
    }
}

impl Revoked {
    /// Loads what was revoked so far, and follows the log from there.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(crate) async fn open(
        log: Log,
        database: &Database,
        shard: u16,
        silence: Duration,
    ) -> Result<Self, log::LogFailure> {
        let loaded = load(database, shard, 0).await.unwrap_or_else(|error| {
            let error = explain(&error);
            tracing::warn!(error, "the read models cannot be read; what was revoked is read from the log");
            Loaded::default()
        });
        // If the log was lost, history may have the only copy: what was revoked by it stays so.
        let at = if log.has(loaded.at).await? { loaded.at } else { Position::default() };
        let revoked = Self::new(at, silence);
        revoked.take_all_up(&loaded.events);
        tokio::spawn(log::keep_updated(log.clone(), revoked.clone(), at).await?);
        tokio::spawn(watch_log_end(revoked.clone(), log, database.clone(), shard));
        Ok(revoked)
    }

    pub(crate) fn new(at: Position, silence: Duration) -> Self {
        let (reached, completeness) = (Reached::new(at.sequence), Completeness::new(at, silence));
        Self(Arc::new(State { known: RwLock::default(), reached, completeness, read: AtomicU64::new(at.sequence) }))
    }

    /// Whether it is known what was revoked.
    pub(crate) fn is_known(&self) -> bool {
        self.0.completeness.is_known()
    }

    /// How far the log was followed.
    pub fn position(&self) -> &Reached {
        &self.0.reached
    }

    /// The sequence that newly issued tokens carry.
    pub fn sequence(&self) -> u64 {
        self.0.reached.sequence()
    }

    /// Whether a token was revoked.
    pub fn has(&self, instance_id: &str, token: &TokenId) -> bool {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(instance_id).is_some_and(|of_instance| of_instance.has(token))
    }

    /// Whether a session has ended, which is remembered as long as there may be tokens that were issued in it.
    pub fn has_session_ended(&self, instance_id: &str, session_id: &str) -> bool {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(instance_id).is_some_and(|of_instance| of_instance.has_session_ended(session_id))
    }

    /// Whether an instance, or this client of it, has as many revocations of single tokens as it may have.
    pub fn is_full(&self, instance_id: &str, client_id: &str) -> bool {
        let (known, now) = (self.0.known.read().unwrap_or_else(PoisonError::into_inner), clock::now().as_millisecond());
        known.get(instance_id).is_some_and(|of_instance| of_instance.is_full(client_id, now))
    }

    fn advance(&self, record: &Record) {
        self.0.completeness.set_reached(record.stream_sequence);
        self.0.reached.advance(record.position().sequence);
    }

    fn take_all_up(&self, events: &[Recorded]) {
        for recorded in events {
            self.take_up(recorded, decode::<TokenRevocation>(recorded).ok());
        }
    }

    /// Applies a revocation, as far as it can be read.
    fn take_up(&self, recorded: &Recorded, read: Option<Event>) {
        let event = &recorded.event;
        let at = recorded.committed_at.as_millisecond();
        let longest = (recorded.committed_at + REMEMBERED).as_millisecond();
        let all = |until| All { sequence: recorded.sequence, at, until };
        if event.aggregate_type == Session::NAME && event.r#type == SESSION_ENDED {
            let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
            let of_instance = known.entry(event.instance_id.clone()).or_default();
            if longest > clock::now().as_millisecond() {
                of_instance.end_session(&event.aggregate_id, &all(longest));
            }
            return;
        }
        if event.aggregate_type != TokenRevocation::NAME {
            return;
        }
        let now = clock::now().as_millisecond();
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        let of_instance = known.entry(event.instance_id.clone()).or_default();
        match read {
            Some(Event::Revoked(revoked)) if revoked.is_all => {
                of_instance.revoke_all(revoked.user_id, revoked.client_id, &all(longest));
            }
            Some(Event::Revoked(revoked)) => {
                // A little later, for clocks that differ.
                let until = revoked.expires_at.saturating_add(CLOCKS).min(longest);
                if until > now {
                    of_instance.revoke(&event.aggregate_id, Single { client_id: revoked.client_id, until });
                }
            }
            // An event that cannot be read still revokes what its id names.
            None => match token_revocation::named_all(&event.aggregate_id) {
                Some((user_id, client_id)) => {
                    of_instance.revoke_all(user_id.to_owned(), client_id.to_owned(), &all(longest));
                }
                None => {
                    of_instance.revoke(&event.aggregate_id, Single { client_id: String::new(), until: longest });
                }
            },
        }
    }
}

impl Follower for Revoked {
    const WHAT: &'static str = "what was revoked";

    fn apply(&mut self, record: &Record) {
        for recorded in &record.events {
            self.take_up(recorded, decode::<TokenRevocation>(recorded).ok());
        }
        self.advance(record);
    }

    fn skip(&mut self, record: &Record) {
        for recorded in &record.events {
            self.take_up(recorded, None);
        }
        self.advance(record);
    }
}

impl FollowsLog for Revoked {
    fn completeness(&self) -> &Completeness {
        &self.0.completeness
    }

    async fn look_up(&self, database: &Database, shard: u16) {
        let asked = since_start();
        match load(database, shard, self.0.read.load(Ordering::Acquire)).await {
            Ok(Loaded { events, at, age }) => {
                self.take_all_up(&events);
                self.0.read.store(at.sequence, Ordering::Release);
                if let Some(at) = age.and_then(|age| asked.checked_sub(age)) {
                    self.0.completeness.set_complete_at(at);
                }
            }
            Err(error) => {
                let error = explain(&error);
                tracing::warn!(error, "what was revoked is unknown: neither the log nor the read models can be read");
            }
        }
    }

    fn forget(&self) {
        let now = clock::now().as_millisecond();
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        known.values_mut().for_each(|of_instance| of_instance.forget(now));
        known.retain(|_, of_instance| !of_instance.is_empty());
    }
}

/// What history has of revocations.
#[derive(Default)]
struct Loaded {
    events: Vec<Recorded>,
    at: Position,
    /// How long ago history was known to have everything in the log.
    age: Option<Duration>,
}

/// Reads what history has after a sequence up to which it was read before.
async fn load(database: &Database, shard: u16, after: u64) -> Result<Loaded, DatabaseFailure> {
    database.within(read(database, shard, after)).await
}

async fn read(database: &Database, shard: u16, after: u64) -> Result<Loaded, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        SESSION_HISTORY.sql(
            "select * from {schema}.events where (aggregate_type = $1 or aggregate_type = $4 and type = $5) \
             and committed_at > $2 and sequence > $3 order by sequence",
        )
    });
    let mut connection = database.connection().await?;
    let transaction = snapshot(&mut connection).await?;
    let checkpoint = Checkpoint::read(&transaction, &SESSION_HISTORY, shard).await?;
    let at = checkpoint.map(|checkpoint| checkpoint.position).unwrap_or_default();
    let age = heartbeat::age(&transaction, LogClass::Sessions, shard, at).await?;
    let since = clock::now() - REMEMBERED;
    // A history that has gone back is filled anew.
    let after = if at.sequence < after { 0 } else { signed(after) };
    let rows = [&TokenRevocation::NAME as &(dyn ToSql + Sync), &since, &after, &Session::NAME, &SESSION_ENDED];
    let rows = transaction.query(&**SELECT, &rows).await?;
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
        let issued_at = clock::now().as_second();
        let (user_id, client_id) = ("7".into(), "8".into());
        TokenId { id: id.into(), user_id, client_id, session_id: None, grant_id: None, sequence, issued_at }
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
        assert_eq!((has("a"), has("b"), has("c"), revoked.has("2", &token("a", 0))), (true, false, false, false));
        assert_eq!(revoked.sequence(), 2);
        let mut known = revoked.0.known.write().unwrap();
        known.get_mut("1").unwrap().forget(in_an_hour() + 2 * CLOCKS);
        assert!(known["1"].single.is_empty() && known["1"].of_clients.is_empty());
    }

    #[test]
    fn a_token_ends_with_its_session_and_with_what_it_was_got_by() {
        let mut revoked = Revoked::new(Position::default(), SILENCE);
        let mut ended = record(1, "5", &payload(0, false));
        let event = &mut Arc::make_mut(&mut ended.events[0]).event;
        (event.aggregate_type, event.r#type) = (Session::NAME.into(), SESSION_ENDED.into());
        revoked.apply(&ended);
        revoked.apply(&record(2, "code", &payload(in_an_hour(), false)));
        let of_session = |id: &str| TokenId { session_id: Some(id.into()), ..token("a", 9) };
        let got_by = |id: &str| TokenId { grant_id: Some(id.into()), ..token("a", 9) };
        assert_eq!(["5", "6"].map(|id| revoked.has("1", &of_session(id))), [true, false]);
        assert_eq!(["code", "other"].map(|id| revoked.has("1", &got_by(id))), [true, false]);
        assert!(!revoked.has("2", &of_session("5")), "another instance");
        let mut known = revoked.0.known.write().unwrap();
        known.get_mut("1").unwrap().forget(in_an_hour() + 25 * 3_600_000);
        assert!(known["1"].is_empty());
    }

    #[test]
    fn beyond_many_sessions_all_end_that_were_before() {
        let mut of_instance = OfInstance::default();
        let last = All { sequence: 7, at: 0, until: in_an_hour() };
        for number in 0..=1_000_000 {
            of_instance.end_session(&number.to_string(), &last);
        }
        assert_eq!(of_instance.remembered_sessions(), 1);
        let of_session = |sequence| TokenId { session_id: Some("x".into()), ..token("a", sequence) };
        assert_eq!([6, 7].map(|sequence| of_instance.has(&of_session(sequence))), [true, false]);
        assert!(!of_instance.has(&token("a", 6)), "one that was got in no session");
        of_instance.forget(in_an_hour() + 1);
        assert!(of_instance.is_empty());
    }

    #[test]
    fn all_tokens_are_revoked_that_were_issued_before() {
        let mut revoked = Revoked::new(Position::default(), SILENCE);
        revoked.apply(&record(5, &id_of_all("7", "8"), &payload(in_an_hour(), true)));
        assert_eq!([4, 5].map(|sequence| revoked.has("1", &token("a", sequence))), [true, false]);
        let of_another = TokenId { client_id: "9".into(), ..token("a", 4) };
        assert!(!revoked.has("1", &of_another));
        assert!(!revoked.is_full("1", "8"), "they take no room of single ones");
    }

    #[test]
    fn a_token_that_is_older_by_the_clock_is_revoked_whatever_sequence_it_has() {
        let mut revoked = Revoked::new(Position::default(), SILENCE);
        revoked.apply(&record(5, &id_of_all("7", "8"), &payload(in_an_hour(), true)));
        let issued = |ago| TokenId { issued_at: clock::now().as_second() - ago, ..token("a", 900) };
        assert_eq!([0, 30, 90].map(|ago| revoked.has("1", &issued(ago))), [false, false, true], "the log began anew");
    }

    #[test]
    fn what_cannot_be_read_revokes_the_token_that_it_is_about() {
        let mut revoked = Revoked::new(Position::default(), SILENCE);
        revoked.apply(&record(1, "a", &serde_json::json!({})));
        assert_eq!(["a", "b"].map(|id| revoked.has("1", &token(id, 9))), [true, false]);
        revoked.apply(&record(10, &id_of_all("7", "8"), &serde_json::json!({})));
        assert_eq!([9, 10].map(|sequence| revoked.has("1", &token("b", sequence))), [true, false], "all of them");
    }

    #[test]
    fn an_instance_has_room_for_so_many_and_a_client_for_its_share() {
        let mut revoked = Revoked::new(Position::default(), SILENCE);
        for sequence in 1..=MOST_SINGLE {
            let client = ((sequence - 1) / MOST_OF_CLIENT).to_string();
            assert!(!revoked.is_full("1", &client), "{sequence}");
            let payload = serde_json::json!({
                "user_id": "7", "client_id": client, "expires_at": in_an_hour(), "is_all": false,
            });
            let record = record(sequence as u64, &sequence.to_string(), &payload);
            revoked.apply(&record);
            revoked.apply(&record);
            let is_last_of_client = sequence % MOST_OF_CLIENT == 0;
            assert_eq!(revoked.is_full("1", &client), is_last_of_client, "{sequence}");
        }
        assert!(revoked.is_full("1", "another") && !revoked.is_full("2", "another"));
    }
}
