//! Opens personal data in events, for projections and for targets.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use base::{explain::explain, secret::SymmetricKey};
use bytes::Bytes;
use domain::{
    person::{self, Person, put_opened, sealed_in},
    resource::{
        session::Session,
        user::User,
        user_metadata::{self, UserMetadata},
    },
    secret::Sealed,
    standard::{Resource, Standard},
    user_agent::{self, UserAgent},
};
use eventlog::{
    blocks::{Slot, Values},
    record::{AggregateKey, Recorded},
};
use serde_json::Value;

use super::{PersonFailure, PersonKey, Persons, name, slot_of};

/// What the payload of every event of a user contains in which something is sealed.
const SEALED: &[u8] = b"\"personal\":\"";
/// What such a payload contains of an entry of metadata, or of a session.
const SEALED_SECRET: &[u8] = b"\"sealed\":\"";

impl Persons {
    /// Returns the payload of an event, given its aggregate and sequence, with personal data in clear text; that is
    /// left out if the user was removed.
    ///
    /// # Errors
    /// When a key is unavailable.
    pub async fn opened(
        &self,
        aggregate: &AggregateKey,
        sequence: u64,
        mut payload: Value,
    ) -> Result<Value, PersonFailure> {
        let Some(part) = SealedPart::of(aggregate, sequence, &mut payload) else { return Ok(payload) };
        let clear = self.clear(&part).await?;
        part.put(&mut payload, clear);
        Ok(payload)
    }

    /// Opens a payload for somebody who inspects one event, and returns what became of each sealed member, by its path.
    /// What does not open is left out, and so is everything sealed unless the person still `is_there`.
    ///
    /// # Errors
    /// When NATS, Postgres or the keyring does not answer.
    pub async fn open_for_inspection(
        &self,
        aggregate: &AggregateKey,
        sequence: u64,
        mut payload: Value,
        is_there: bool,
    ) -> Result<(Value, Vec<(String, Seal)>), PersonFailure> {
        let Some(part) = SealedPart::of(aggregate, sequence, &mut payload) else { return Ok((payload, vec![])) };
        let clear = if is_there { self.clear(&part).await } else { Ok(None) };
        let sealed = part.put_shown(&mut payload, clear)?;
        Ok((payload, sealed))
    }

    /// Opens what is sealed in one event; `None` if the key was destroyed, or the user was removed.
    async fn clear(&self, part: &SealedPart) -> Result<Option<Clear>, PersonFailure> {
        let is_removed = !self.removed(std::slice::from_ref(&part.user)).await?.is_empty();
        if is_removed { Ok(None) } else { Opening::new(self).clear(part).await }
    }

    /// Returns the events with personal data in clear text, for projections. What its key does not open is left out.
    ///
    /// # Errors
    /// When a key is unavailable: then none of the events may be applied.
    pub async fn open_events(&self, events: &[Arc<Recorded>]) -> Result<Vec<Arc<Recorded>>, PersonFailure> {
        let sealed: Vec<_> = events.iter().map(|recorded| SealedEvent::of(recorded)).collect();
        let mut users: Vec<_> = sealed.iter().flatten().map(|sealed| sealed.part.user.clone()).collect();
        if users.is_empty() {
            return Ok(events.to_vec());
        }
        users.sort();
        users.dedup();
        let (removed, mut opening) = (self.removed(&users).await?, Opening::new(self));
        let mut opened = Vec::with_capacity(events.len());
        for (recorded, sealed) in events.iter().zip(sealed) {
            opened.push(match sealed {
                Some(sealed) => opening.open(recorded, sealed, &removed).await?,
                None => recorded.clone(),
            });
        }
        Ok(opened)
    }
}

/// What became of a member that was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// It was opened.
    Opened,
    /// Its person was erased.
    Erased,
    /// The key of the person does not open it.
    Damaged,
    /// The key of the person, or the data key that wraps it, is lost or damaged.
    KeyLost,
}

/// An event in which something is sealed.
struct SealedEvent {
    payload: Value,
    part: SealedPart,
}

impl SealedEvent {
    fn of(recorded: &Recorded) -> Option<Self> {
        if !has_sealed(recorded) {
            return None;
        }
        // Malformed JSON is reported by whoever decodes the event.
        let mut payload = serde_json::from_slice(&recorded.event.payload).unwrap_or_default();
        let part = SealedPart::of(&recorded.key(), recorded.sequence, &mut payload)?;
        Some(Self { payload, part })
    }
}

/// What is sealed in an event.
struct SealedPart {
    /// The user whose key has sealed it.
    user: AggregateKey,
    /// A sequence of `EVENTS` at which the data key of the instance existed.
    sequence: u64,
    kind: Kind,
    sealed: String,
}

/// The kinds of sealed data.
enum Kind {
    Person,
    /// The value of the metadata entry with this key.
    Metadata(String),
    /// The user agent of the session with this id.
    UserAgent(String),
}

/// Sealed data in clear text.
enum Clear {
    Person(Box<Person>),
    Metadata(String),
    UserAgent(UserAgent),
}

impl SealedPart {
    fn of(aggregate: &AggregateKey, sequence: u64, payload: &mut Value) -> Option<Self> {
        let user = |id: &str| AggregateKey::of::<Standard<User>>(&*aggregate.instance_id, id);
        match aggregate.aggregate_type.as_str() {
            User::NAME => {
                let sealed = sealed_text(payload)?;
                Some(Self { user: aggregate.clone(), sequence, kind: Kind::Person, sealed })
            }
            UserMetadata::NAME => {
                let (id, key) = user_metadata::parts(&aggregate.id)?;
                let sealed = user_metadata::sealed_in(payload)?;
                Some(Self { user: user(id), sequence, kind: Kind::Metadata(key.to_owned()), sealed })
            }
            Session::NAME => {
                let (id, seen) = user_agent::user_in(payload)?;
                let sealed = user_agent::sealed_in(payload)?.expose().to_owned();
                // The sequence of the event itself is of the other log.
                Some(Self { user: user(&id), sequence: seen, kind: Kind::UserAgent(aggregate.id.clone()), sealed })
            }
            _ => None,
        }
    }

    fn open(&self, key: &PersonKey) -> Result<Clear, PersonFailure> {
        match &self.kind {
            Kind::Person => key.open(&self.sealed).map(|person| Clear::Person(Box::new(person.into_known()))),
            Kind::Metadata(name) => key.open_metadata(name, &self.sealed).map(Clear::Metadata),
            Kind::UserAgent(session) => {
                key.open_user_agent(session, &Sealed::new(self.sealed.as_str())).map(Clear::UserAgent)
            }
        }
    }

    /// The paths of the members that are in clear text once it is opened.
    fn paths(&self, payload: &Value) -> Vec<String> {
        match self.kind {
            Kind::Person => person::opened_at(payload).into(),
            Kind::Metadata(_) => user_metadata::opened_at(payload).into(),
            Kind::UserAgent(_) => user_agent::opened_at(payload).into(),
        }
    }

    /// Puts opened data in its place, and returns what became of each member. What can never be opened is no failure.
    fn put_shown(
        &self,
        payload: &mut Value,
        clear: Result<Option<Clear>, PersonFailure>,
    ) -> Result<Vec<(String, Seal)>, PersonFailure> {
        let (seal, clear) = match clear {
            Ok(Some(clear)) => (Seal::Opened, Some(clear)),
            Ok(None) => (Seal::Erased, None),
            Err(PersonFailure::Unopened) => (Seal::Damaged, None),
            Err(PersonFailure::Lost(_) | PersonFailure::DataKey(_)) => (Seal::KeyLost, None),
            Err(failure) => return Err(failure),
        };
        let paths = self.paths(payload);
        self.put(payload, clear);
        Ok(paths.into_iter().map(|path| (path, seal)).collect())
    }

    /// Puts opened data in its place, or nothing.
    fn put(&self, payload: &mut Value, clear: Option<Clear>) {
        match (clear, &self.kind) {
            (Some(Clear::Person(person)), _) => put_opened(payload, Some(*person)),
            (Some(Clear::Metadata(value)), _) => user_metadata::put_opened(payload, Some(value)),
            (Some(Clear::UserAgent(opened)), _) => user_agent::put_opened(payload, Some(&opened)),
            (None, Kind::Person) => put_opened(payload, None),
            (None, Kind::Metadata(_)) => user_metadata::put_opened(payload, None),
            (None, Kind::UserAgent(_)) => user_agent::put_opened(payload, None),
        }
    }
}

/// The user whose key has sealed something in the payload of an event, given its aggregate and sequence.
pub fn user_in(aggregate: &AggregateKey, sequence: u64, payload: &mut Value) -> Option<AggregateKey> {
    SealedPart::of(aggregate, sequence, payload).map(|part| part.user)
}

/// What was read to open events: each block and each data key once.
struct Opening<'a> {
    persons: &'a Persons,
    blocks: HashMap<String, Option<Values>>,
    data_keys: HashMap<String, Option<Arc<SymmetricKey>>>,
}

impl<'a> Opening<'a> {
    fn new(persons: &'a Persons) -> Self {
        Self { persons, blocks: HashMap::new(), data_keys: HashMap::new() }
    }

    async fn open(
        &mut self,
        recorded: &Recorded,
        SealedEvent { mut payload, part }: SealedEvent,
        removed: &HashSet<AggregateKey>,
    ) -> Result<Arc<Recorded>, PersonFailure> {
        let is_removed = removed.contains(&part.user);
        let clear = if is_removed { Ok(None) } else { self.clear(&part).await };
        let clear = match clear {
            // A damaged event must not hold up the others.
            Err(failure @ PersonFailure::Unopened) => {
                let (id, sequence) = (&recorded.event.aggregate_id, recorded.sequence);
                let error = explain(&failure);
                tracing::error!(error, aggregate_id = id, sequence, "personal data is read as if it had been erased");
                None
            }
            clear => clear?,
        };
        part.put(&mut payload, clear);
        let mut opened = Recorded::clone(recorded);
        opened.event.payload = Bytes::from(payload.to_string());
        Ok(Arc::new(opened))
    }

    /// Opens what is sealed; `None` if the key was destroyed.
    async fn clear(&mut self, part: &SealedPart) -> Result<Option<Clear>, PersonFailure> {
        let key = self.key(&part.user, part.sequence, &part.sealed).await?;
        key.map(|key| part.open(&key)).transpose()
    }

    async fn key(
        &mut self,
        user: &AggregateKey,
        sequence: u64,
        sealed: &str,
    ) -> Result<Option<PersonKey>, PersonFailure> {
        let (instance_id, slot) = (&user.instance_id, slot_of(sealed));
        if !self.blocks.contains_key(&slot.block) {
            self.blocks.insert(slot.block.clone(), self.persons.blocks.values(&slot.block).await?);
        }
        if !self.data_keys.contains_key(instance_id) {
            self.data_keys.insert(instance_id.clone(), self.persons.data_key(instance_id, sequence).await?);
        }
        let Some(data_key) = self.data_keys.get(instance_id).and_then(Option::as_ref) else { return Ok(None) };
        let values = self.blocks.get(&slot.block).and_then(Option::as_ref);
        self.persons.unwrap(data_key, slot, values, &name(instance_id, &user.id))
    }
}

/// The slot of the key with which something was sealed in an event, if anything was.
pub fn slot_in(recorded: &Recorded) -> Option<Slot> {
    let mut payload = serde_json::from_slice(&recorded.event.payload).unwrap_or_default();
    sealed_text(&mut payload).map(|sealed| slot_of(&sealed))
}

fn sealed_text(payload: &mut Value) -> Option<String> {
    sealed_in(payload).and_then(|sealed| sealed.as_str().map(str::to_owned))
}

/// Whether something may be sealed in an event, which is parsed only then.
fn has_sealed(recorded: &Recorded) -> bool {
    let marker = match recorded.event.aggregate_type.as_str() {
        User::NAME => SEALED,
        UserMetadata::NAME | Session::NAME => SEALED_SECRET,
        _ => return false,
    };
    recorded.event.payload.windows(marker.len()).any(|part| part == marker)
}

#[cfg(test)]
mod tests {
    use eventlog::log::LogFailure;
    use serde_json::json;

    use super::*;

    fn aggregate(name: &str, id: &str) -> AggregateKey {
        AggregateKey { instance_id: "1".to_owned(), aggregate_type: name.to_owned(), id: id.to_owned() }
    }

    fn lost() -> PersonFailure {
        PersonFailure::Lost(Slot { block: "ab".to_owned(), entry: "01".to_owned() })
    }

    #[test]
    fn what_is_shown_of_a_user_says_what_became_of_each_member() {
        let ada = || Clear::Person(Box::new(Person { username: "ada".to_owned(), ..Person::default() }));
        let state = json!({ "username": "", "human": { "schema_id": "human", "personal": "ab.01.text" } });
        for (payload, above) in [(state.clone(), ""), (json!({ "to": state, "fields": ["human"] }), "to.")] {
            let shown = |clear| {
                let mut payload = payload.clone();
                let part = SealedPart::of(&aggregate(User::NAME, "2"), 1, &mut payload).expect("something is sealed");
                part.put_shown(&mut payload, clear).map(|sealed| (payload, sealed))
            };
            let both = |seal| ["username", "human.personal"].map(|path| (format!("{above}{path}"), seal)).to_vec();
            let (clear, sealed) = shown(Ok(Some(ada()))).expect("it opens");
            assert!(clear.to_string().contains("ada") && !clear.to_string().contains("ab.01"), "{clear}");
            assert_eq!(sealed, both(Seal::Opened));
            let data_key = PersonFailure::DataKey("1".to_owned());
            for (clear, seal) in [
                (Ok(None), Seal::Erased),
                (Err(PersonFailure::Unopened), Seal::Damaged),
                (Err(lost()), Seal::KeyLost),
                (Err(data_key), Seal::KeyLost),
            ] {
                let (clear, sealed) = shown(clear).expect("it is no failure");
                assert!(!clear.to_string().contains("personal"), "{clear}");
                assert_eq!(sealed, both(seal));
            }
            let away = PersonFailure::Blocks(LogFailure::Nats("it is away".to_owned()));
            assert!(shown(Err(away)).is_err(), "it may open later");
        }
    }

    #[test]
    fn what_is_shown_of_a_session_is_its_user_agent() {
        let session = json!({ "user": { "id": "2", "seen": 5 }, "user_agent": { "sealed": "ab.01.text" } });
        let changed = json!({ "to": session, "fields": [] });
        for (mut payload, path) in [(session.clone(), "user_agent"), (changed, "to.user_agent")] {
            let key = aggregate(Session::NAME, "3");
            assert_eq!(user_in(&key, 9, &mut payload), Some(aggregate(User::NAME, "2")));
            let part = SealedPart::of(&key, 9, &mut payload).expect("it is sealed");
            assert_eq!(part.sequence, 5, "that of the log that is kept for ever");
            let phone = UserAgent { description: "a phone".to_owned(), ..UserAgent::default() };
            let sealed = part.put_shown(&mut payload, Ok(Some(Clear::UserAgent(phone)))).expect("it opens");
            assert!(payload.to_string().contains("a phone") && !payload.to_string().contains("ab.01"), "{payload}");
            assert_eq!(sealed, [(path.to_owned(), Seal::Opened)]);
        }
        assert_eq!(user_in(&aggregate(User::NAME, "2"), 1, &mut json!({})), None);
    }

    #[test]
    fn what_is_shown_of_metadata_is_its_value() {
        let entry = json!({ "user_id": "2", "key": "plan", "sealed": "ab.01.text" });
        for (mut payload, path) in [(entry.clone(), "value"), (json!({ "to": entry, "fields": [] }), "to.value")] {
            let part = SealedPart::of(&aggregate(UserMetadata::NAME, "2/plan"), 1, &mut payload).expect("it is sealed");
            assert_eq!(part.user.id, "2");
            let sealed = part.put_shown(&mut payload, Ok(Some(Clear::Metadata("gold".to_owned())))).expect("it opens");
            assert!(payload.to_string().contains("gold") && !payload.to_string().contains("ab.01"), "{payload}");
            assert_eq!(sealed, [(path.to_owned(), Seal::Opened)]);
        }
    }
}
