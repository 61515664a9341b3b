//! The keys of people: each seals the personal data of one person. A key that was destroyed must never be available
//! again, so no key stays in memory longer than it is needed for a request.

mod opening;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use async_nats::jetstream::kv::Store;
use base::secret::SymmetricKey;
use domain::{
    person::{Person, Personal},
    resource::{data_key::DataKey, session::Session, user::User, user_metadata::UserMetadata},
    secret::Sealed,
    standard::{Event, Resource, Standard},
    user_agent::UserAgent,
    with_unknown::WithUnknown,
};
use eventlog::{
    blocks::{Blocks, Slot, Values},
    log::{Log, LogFailure},
    record::{AggregateKey, Recorded, decode},
};
use tokio::sync::OnceCell;
use zeroize::Zeroizing;

pub use self::opening::{Seal, slot_in, user_in};
use crate::{
    database::{Database, DatabaseFailure},
    history::past::{Having, OfType, ask_at},
    keyring::{Keyring, KeyringFailure, Purpose},
};

/// The event after which the personal data of a user is never opened, and the key is destroyed.
pub const REMOVED: &str = "user.removed";

/// Why a key of a person is unavailable, or does not open something.
#[derive(Debug, thiserror::Error)]
pub enum PersonFailure {
    /// NATS does not answer.
    #[error(transparent)]
    Blocks(#[from] LogFailure),
    /// The data key that wraps the key is unavailable.
    #[error(transparent)]
    Keyring(#[from] KeyringFailure),
    /// Postgres cannot be read.
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    /// The bucket lacks a key, or has another one in its place; it never loses keys by itself.
    #[error(
        "the bucket KV_PERSONS lacks the key {} of block {}, or has another one, and nobody has destroyed it: restore \
         the bucket from its backup, or start with --accept-lost-keys to go on without the personal data of people \
         whose keys are lost (docs/users.md)",
        .0.entry, .0.block
    )]
    Lost(Slot),
    /// This build cannot read an event of a data key.
    #[error("a data key of instance {0} cannot be read by this build")]
    DataKey(String),
    /// The key of the person has not sealed this.
    #[error("the personal data cannot be decrypted with the person's key")]
    Unopened,
}

/// The keys of all people.
#[derive(Clone, Debug)]
pub struct Persons {
    blocks: Blocks,
    keyring: Keyring,
    database: Database,
    log: Log,
    shard: u16,
    accepts_lost: bool,
    /// The end of the log when this process first opened something.
    begun_at: Arc<OnceCell<u64>>,
}

/// The key of a person.
pub struct PersonKey {
    key: SymmetricKey,
    slot: Slot,
    name: String,
}

impl PersonKey {
    /// Seals the personal data of the person.
    pub fn seal(&self, person: &WithUnknown<Person>) -> Personal {
        let text = Zeroizing::new(serde_json::to_vec(person).expect("it is plain data"));
        Personal::Sealed(self.seal_for(&sealing(&self.name), &text))
    }

    /// Seals the hash of the person's password.
    pub fn seal_password(&self, hash: &str) -> Sealed {
        Sealed::new(self.seal_for(&sealing_password(&self.name), hash.as_bytes()))
    }

    /// Opens the hash of the person's password.
    ///
    /// # Errors
    /// As [`PersonKey::open`] has them.
    pub fn open_password(&self, hash: &Sealed) -> Result<Zeroizing<String>, PersonFailure> {
        let opened = self.open_for(&sealing_password(&self.name), hash.expose())?;
        let text = str::from_utf8(&opened).map_err(|_| PersonFailure::Unopened)?;
        Ok(Zeroizing::new(text.to_owned()))
    }

    /// Seals the value of an entry of the person's metadata.
    pub fn seal_metadata(&self, key: &str, value: &str) -> Sealed {
        Sealed::new(self.seal_for(&sealing_metadata(&self.name, key), value.as_bytes()))
    }

    /// Opens the value of an entry of the person's metadata.
    ///
    /// # Errors
    /// As [`PersonKey::open`] has them, and where it was sealed under another key.
    pub fn open_metadata(&self, key: &str, value: &str) -> Result<String, PersonFailure> {
        let opened = self.open_for(&sealing_metadata(&self.name, key), value)?;
        str::from_utf8(&opened).map(str::to_owned).map_err(|_| PersonFailure::Unopened)
    }

    /// Seals a value of metadata, or returns the earlier ciphertext of the same value: what stays the same is no event.
    pub fn resealed_metadata(&self, key: &str, value: &str, before: Option<Sealed>) -> Sealed {
        let is_same = |sealed: &Sealed| self.open_metadata(key, sealed.expose()).is_ok_and(|opened| opened == value);
        before.filter(is_same).unwrap_or_else(|| self.seal_metadata(key, value))
    }

    /// Seals the user agent of a session of the person.
    pub fn seal_user_agent(&self, session_id: &str, agent: &UserAgent) -> Sealed {
        let text = Zeroizing::new(serde_json::to_vec(agent).expect("it is plain data"));
        Sealed::new(self.seal_for(&sealing_user_agent(&self.name, session_id), &text))
    }

    /// Opens the user agent of a session of the person.
    ///
    /// # Errors
    /// As [`PersonKey::open`] has them, and where it was sealed for another session.
    pub fn open_user_agent(&self, session_id: &str, agent: &Sealed) -> Result<UserAgent, PersonFailure> {
        let opened = self.open_for(&sealing_user_agent(&self.name, session_id), agent.expose())?;
        serde_json::from_slice(&opened).map_err(|_| PersonFailure::Unopened)
    }

    fn seal_for(&self, purpose: &str, text: &[u8]) -> String {
        let Slot { block, entry } = &self.slot;
        format!("{block}.{entry}.{}", self.key.seal(purpose, text))
    }

    fn open_for(&self, purpose: &str, sealed: &str) -> Result<Zeroizing<Vec<u8>>, PersonFailure> {
        let text = sealed.splitn(3, '.').nth(2).ok_or(PersonFailure::Unopened)?;
        self.key.open(purpose, text).map(Zeroizing::new).map_err(|_| PersonFailure::Unopened)
    }

    /// Opens the personal data of the person, with those that a newer build wrote.
    ///
    /// # Errors
    /// When it was sealed with another key, or for another person, or was changed.
    pub fn open(&self, sealed: &str) -> Result<WithUnknown<Person>, PersonFailure> {
        let opened = self.open_for(&sealing(&self.name), sealed)?;
        serde_json::from_slice(&opened).map_err(|_| PersonFailure::Unopened)
    }
}

impl Persons {
    /// Keys in these blocks, wrapped by the data keys of their instances. A lost key is a failure.
    pub fn new(blocks: Blocks, keyring: Keyring, database: Database, log: Log, shard: u16) -> Self {
        Self { blocks, keyring, database, log, shard, accepts_lost: false, begun_at: Arc::default() }
    }

    /// Sets whether lost keys are accepted: then they count as destroyed.
    pub fn accepting_lost(self, accepts_lost: bool) -> Self {
        Self { accepts_lost, ..self }
    }

    /// The bucket of the keys, for what has to be restored together with them.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn bucket(&self) -> Result<Store, LogFailure> {
        self.blocks.bucket().await
    }

    /// Creates a key, which is durable once it is returned.
    ///
    /// # Errors
    /// When NATS does not store it.
    pub async fn create(&self, instance_id: &str, person_id: &str) -> Result<PersonKey, PersonFailure> {
        let data_key = self.keyring.key(instance_id, Purpose::Resource).await?;
        self.create_under(&data_key, instance_id, person_id).await
    }

    /// Creates a key of a person whose instance has a data key that is not in the log yet.
    ///
    /// # Errors
    /// When NATS does not store it.
    pub async fn create_under(
        &self,
        data_key: &SymmetricKey,
        instance_id: &str,
        person_id: &str,
    ) -> Result<PersonKey, PersonFailure> {
        let (key, name) = (SymmetricKey::random(), name(instance_id, person_id));
        let wrapped = data_key.seal(&wrapping(&name), key.expose());
        let slot = self.blocks.add(wrapped).await?;
        Ok(PersonKey { key, slot, name })
    }

    /// The key with which something was sealed; `None` where it was destroyed.
    ///
    /// # Errors
    /// When it is unavailable.
    pub async fn key(
        &self,
        instance_id: &str,
        person_id: &str,
        sealed: &str,
    ) -> Result<Option<PersonKey>, PersonFailure> {
        let slot = slot_of(sealed);
        let values = self.blocks.values(&slot.block).await?;
        let data_key = self.keyring.key(instance_id, Purpose::Resource).await?;
        self.unwrap(&data_key, slot, values.as_ref(), &name(instance_id, person_id))
    }

    /// Destroys the keys in these slots.
    ///
    /// # Errors
    /// When NATS does not answer. Some may be destroyed then.
    pub async fn destroy(&self, slots: HashSet<Slot>) -> Result<(), PersonFailure> {
        let mut by_block: HashMap<String, Vec<String>> = HashMap::new();
        for Slot { block, entry } in slots {
            by_block.entry(block).or_default().push(entry);
        }
        for (block, entries) in by_block {
            self.blocks.destroy(&block, &entries).await?;
        }
        Ok(())
    }

    fn unwrap(
        &self,
        data_key: &SymmetricKey,
        slot: Slot,
        values: Option<&Values>,
        name: &str,
    ) -> Result<Option<PersonKey>, PersonFailure> {
        match values.and_then(|values| values.get(&slot.entry)) {
            Some(None) => Ok(None),
            // A key that is not the person's counts as missing.
            Some(Some(wrapped)) if let Ok(key) = unwrapped(data_key, slot.clone(), wrapped, name) => Ok(Some(key)),
            _ if self.accepts_lost => Ok(None),
            _ => Err(PersonFailure::Lost(slot)),
        }
    }

    /// Returns which of these users were removed by history, whatever keys they have: a restored bucket may have keys
    /// that were destroyed since its backup. Waits until history has what the log had when this process began to open.
    async fn removed(&self, users: &[AggregateKey]) -> Result<HashSet<AggregateKey>, PersonFailure> {
        let end = || async { Ok::<_, LogFailure>(self.log.last().await?.map_or(0, |last| last.position().sequence)) };
        let begun_at = *self.begun_at.get_or_try_init(end).await?;
        let question = Having { keys: users, event_type: REMOVED };
        Ok(ask_at(&self.database, self.shard, begun_at, question).await?)
    }

    /// Returns the aggregates of events in which something is sealed that does not open, since its user was removed or
    /// the key is lost.
    ///
    /// # Errors
    /// When NATS, Postgres or the keyring does not answer.
    pub async fn unopened(&self, events: &[Arc<Recorded>]) -> Result<HashSet<AggregateKey>, PersonFailure> {
        let mut found = HashSet::new();
        for recorded in events {
            let (key, payload) = (recorded.key(), serde_json::from_slice(&recorded.event.payload).unwrap_or_default());
            let user = user_in(&key, recorded.sequence, &mut Clone::clone(&payload));
            let Some(user) = user.filter(|_| !found.contains(&key)) else { continue };
            let is_there = self.removed(std::slice::from_ref(&user)).await?.is_empty();
            let (_, sealed) = self.open_for_inspection(&key, recorded.sequence, payload, is_there).await?;
            if sealed.iter().any(|(_, seal)| *seal != Seal::Opened) {
                found.insert(key);
            }
        }
        Ok(found)
    }

    /// The data key of an instance, which existed at a sequence; `None` if it was removed with the instance.
    async fn data_key(&self, instance_id: &str, sequence: u64) -> Result<Option<Arc<SymmetricKey>>, PersonFailure> {
        match self.keyring.key(instance_id, Purpose::Resource).await {
            // While read models are built again they lack it, or have it as an older master key wraps it.
            Err(KeyringFailure::Absent { .. } | KeyringFailure::WrongMasterKey) => {}
            key => return Ok(Some(key?)),
        }
        let question = OfType { instance_id, aggregate_type: DataKey::NAME };
        let events = ask_at(&self.database, self.shard, sequence, question).await?;
        let mut keys: HashMap<&str, Option<DataKey>> = HashMap::new();
        for recorded in &events {
            let event = decode::<Standard<DataKey>>(recorded);
            let event = event.map_err(|_| PersonFailure::DataKey(instance_id.to_owned()))?;
            keys.insert(&recorded.event.aggregate_id, Event::into_state(event).map(WithUnknown::into_known));
        }
        let mut found = keys.into_values().flatten().filter(|key| key.purpose == Purpose::Resource.name());
        Ok(found.next().map(|key| self.keyring.unwrapped(instance_id, &key)).transpose()?)
    }
}

fn unwrapped(data_key: &SymmetricKey, slot: Slot, wrapped: &str, name: &str) -> Result<PersonKey, PersonFailure> {
    let opened = data_key.open(&wrapping(name), wrapped).map_err(|_| PersonFailure::Unopened)?;
    let bytes: [u8; 32] = opened.try_into().map_err(|_| PersonFailure::Unopened)?;
    Ok(PersonKey { key: SymmetricKey::new(bytes), slot, name: name.to_owned() })
}

/// The slot of the key with which something was sealed.
fn slot_of(sealed: &str) -> Slot {
    let mut parts = sealed.split('.').map(str::to_owned);
    Slot { block: parts.next().unwrap_or_default(), entry: parts.next().unwrap_or_default() }
}

/// Names a person across instances.
fn name(instance_id: &str, person_id: &str) -> String {
    format!("{instance_id}/{person_id}")
}

fn wrapping(name: &str) -> String {
    format!("person-key/{name}")
}

fn sealing(name: &str) -> String {
    format!("person/{name}")
}

fn sealing_password(name: &str) -> String {
    format!("password/{name}")
}

fn sealing_metadata(name: &str, key: &str) -> String {
    format!("metadata/{name}/{key}")
}

fn sealing_user_agent(name: &str, session_id: &str) -> String {
    format!("user-agent/{name}/{session_id}")
}

/// Whether aggregates of a type may contain sealed personal data.
pub fn is_of_people(aggregate_type: &str) -> bool {
    [User::NAME, UserMetadata::NAME, Session::NAME].contains(&aggregate_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_for_its_person_only() {
        let data_key = SymmetricKey::random();
        let written = serde_json::json!({ "username": "ada", "data": {}, "of_the_next_version": 1 });
        let (key, person): (_, WithUnknown<Person>) =
            (SymmetricKey::random(), serde_json::from_value(written).unwrap());
        assert_eq!(person.unknown(), ["of_the_next_version"]);
        let wrapped = data_key.seal(&wrapping("1/2"), key.expose());
        let slot = || Slot { block: "ab".to_owned(), entry: "01".to_owned() };
        let own = unwrapped(&data_key, slot(), &wrapped, "1/2").unwrap();
        let Personal::Sealed(sealed) = own.seal(&person) else { panic!("it is sealed") };
        assert!(sealed.starts_with("ab.01.") && !sealed.contains("ada"));
        assert_eq!(slot_of(&sealed), own.slot);
        assert_eq!(own.open(&sealed).unwrap(), person);
        let other = unwrapped(&data_key, slot(), &wrapped, "1/3");
        assert!(matches!(other, Err(PersonFailure::Unopened)), "it is the key of somebody else");
        let other = PersonKey { key, slot: slot(), name: "1/3".to_owned() };
        assert!(matches!(other.open(&sealed), Err(PersonFailure::Unopened)), "it is about somebody else");
        assert!(matches!(own.open("ab.01"), Err(PersonFailure::Unopened)));
        let password = own.seal_password("a hash");
        assert_eq!(*own.open_password(&password).unwrap(), "a hash");
        assert!(matches!(own.open(password.expose()), Err(PersonFailure::Unopened)), "a password is nothing else");
        assert!(matches!(own.open_password(&Sealed::new(sealed)), Err(PersonFailure::Unopened)));
        assert!(matches!(other.open_password(&password), Err(PersonFailure::Unopened)));
        let value = own.seal_metadata("plan", "gold");
        assert_eq!(own.open_metadata("plan", value.expose()).unwrap(), "gold");
        assert!(
            matches!(own.open_metadata("role", value.expose()), Err(PersonFailure::Unopened)),
            "it is another entry"
        );
        assert!(matches!(other.open_metadata("plan", value.expose()), Err(PersonFailure::Unopened)));
        let agent = UserAgent { ip: "192.0.2.7".to_owned(), ..UserAgent::default() };
        let sealed = own.seal_user_agent("9", &agent);
        assert_eq!(own.open_user_agent("9", &sealed).unwrap(), agent);
        assert!(matches!(own.open_user_agent("8", &sealed), Err(PersonFailure::Unopened)), "it is another session");
        assert!(matches!(other.open_user_agent("9", &sealed), Err(PersonFailure::Unopened)));
    }
}
