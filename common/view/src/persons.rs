//! The keys of people: one seals what is personal of one person. A key that was destroyed is never had again, so no key is kept
//! in memory beyond what it was asked for.

use std::{collections::HashMap, sync::Arc};

use base::{explain::explain, secret::Key};
use bytes::Bytes;
use domain::{
    aggregate::Aggregate,
    person::{Person, Personal, put_opened, sealed_in},
    resource::{data_key::DataKey, user::User},
    standard::{Event, Resource, Standard},
};
use eventlog::{
    blocks::{Blocks, Place, Values},
    log::LogFailure,
    record::{Recorded, decode},
};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::{
    database::{Database, DatabaseFailure},
    keyring::{Keyring, KeyringFailure, Purpose},
    projection::ACCESS,
    read_model::ReadModel,
};

/// What every event has in its payload in which something is sealed.
const SEALED: &[u8] = b"\"personal\":\"";

/// A key of a person that cannot be had now.
#[derive(Debug, thiserror::Error)]
pub enum PersonFailure {
    /// NATS does not answer.
    #[error(transparent)]
    Blocks(#[from] LogFailure),
    /// The data key that wraps it cannot be had.
    #[error(transparent)]
    Keyring(#[from] KeyringFailure),
    /// The read model cannot be read.
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    /// The bucket does not have what it never loses by itself.
    #[error(
        "the bucket KV_PERSONS lacks the block of keys {0}: restore the bucket from its backup (docs/users.md), for without it \
         what is personal of many people cannot be read"
    )]
    Lost(String),
    /// The key is there, and is not what it should be.
    #[error("what is personal does not open with the key of the person")]
    Unopened,
}

/// The keys of all people.
#[derive(Clone, Debug)]
pub struct Persons {
    blocks: Blocks,
    keyring: Keyring,
    database: Database,
    shard: u16,
}

/// The key of a person.
pub struct PersonKey {
    key: Key,
    place: Place,
    purpose: String,
}

impl PersonKey {
    /// Seals what is personal.
    pub fn seal(&self, person: &Person) -> Personal {
        let text = Zeroizing::new(serde_json::to_vec(person).expect("it is plain data"));
        let Place { block, entry } = &self.place;
        Personal::Sealed(format!("{block}.{entry}.{}", self.key.seal(&self.purpose, &text)))
    }

    /// Opens what is sealed.
    ///
    /// # Errors
    /// Where it was sealed with another key, for another person, or changed.
    pub fn open(&self, sealed: &str) -> Result<Person, PersonFailure> {
        let text = sealed.splitn(3, '.').nth(2).ok_or(PersonFailure::Unopened)?;
        let opened = self.key.open(&self.purpose, text).map_err(|_| PersonFailure::Unopened)?;
        serde_json::from_slice(&Zeroizing::new(opened)).map_err(|_| PersonFailure::Unopened)
    }
}

impl Persons {
    /// Keys in these blocks, which data keys of their instances wrap.
    pub fn new(blocks: Blocks, keyring: Keyring, database: Database, shard: u16) -> Self {
        Self { blocks, keyring, database, shard }
    }

    /// A new key, which is durable when it is here.
    ///
    /// # Errors
    /// When NATS does not take it.
    pub async fn create(&self, instance_id: &str, person_id: &str) -> Result<PersonKey, PersonFailure> {
        let (key, name) = (Key::random(), name(instance_id, person_id));
        let wrapped = self.keyring.key(instance_id, Purpose::Resource).await?.seal(&wrapping(&name), key.expose());
        let place = self.blocks.add(wrapped).await?;
        Ok(PersonKey { key, place, purpose: sealing(&name) })
    }

    /// The key with which something was sealed; `None` where it was destroyed.
    ///
    /// # Errors
    /// When it cannot be had now.
    pub async fn key(
        &self,
        instance_id: &str,
        person_id: &str,
        sealed: &str,
    ) -> Result<Option<PersonKey>, PersonFailure> {
        let place = place_of(sealed);
        let values = self.blocks.values(&place.block).await?.ok_or_else(|| PersonFailure::Lost(place.block.clone()))?;
        let wrapping = self.keyring.key(instance_id, Purpose::Resource).await?;
        unwrap(&wrapping, (place, &values), &name(instance_id, person_id))
    }

    /// Destroys the keys with which these were sealed.
    ///
    /// # Errors
    /// When NATS does not answer. Some may be destroyed then.
    pub async fn destroy(&self, sealed: &[String]) -> Result<(), PersonFailure> {
        let mut by_block: HashMap<String, Vec<String>> = HashMap::new();
        for Place { block, entry } in sealed.iter().map(|sealed| place_of(sealed)) {
            by_block.entry(block).or_default().push(entry);
        }
        for (block, entries) in by_block {
            self.blocks.destroy(&block, &entries).await?;
        }
        Ok(())
    }

    /// The payload of an event with what is personal in clear; nothing is left of that where the key was destroyed.
    ///
    /// # Errors
    /// When a key cannot be had now.
    pub async fn opened(&self, instance_id: &str, id: &str, mut payload: Value) -> Result<Value, PersonFailure> {
        let Some(sealed) = sealed_in(&mut payload).and_then(|sealed| sealed.as_str().map(str::to_owned)) else {
            return Ok(payload);
        };
        let person = match self.key(instance_id, id, &sealed).await {
            Ok(Some(key)) => Some(key.open(&sealed)?),
            // With its instance the data key went that wraps it.
            Ok(None) | Err(PersonFailure::Keyring(KeyringFailure::Absent { .. })) => None,
            Err(failure) => return Err(failure),
        };
        put_opened(&mut payload, person);
        Ok(payload)
    }

    /// The events with what is personal in clear, for projections. What does not open though its key is there is left out.
    ///
    /// # Errors
    /// When a key cannot be had now: then none of it may be applied.
    pub async fn open_events(&self, events: &[Arc<Recorded>]) -> Result<Vec<Arc<Recorded>>, PersonFailure> {
        let mut opening = Opening { persons: self, events, blocks: HashMap::new(), keys: HashMap::new() };
        let mut opened = Vec::with_capacity(events.len());
        for recorded in events {
            opened.push(if has_sealed(recorded) { opening.open(recorded).await? } else { recorded.clone() });
        }
        Ok(opened)
    }
}

/// The events of a batch while they are opened.
struct Opening<'a> {
    persons: &'a Persons,
    events: &'a [Arc<Recorded>],
    blocks: HashMap<String, Values>,
    keys: HashMap<String, Option<Arc<Key>>>,
}

impl Opening<'_> {
    async fn open(&mut self, recorded: &Arc<Recorded>) -> Result<Arc<Recorded>, PersonFailure> {
        // What is no JSON is found to be that by who decodes it.
        let mut payload: Value = serde_json::from_slice(&recorded.event.payload).unwrap_or_default();
        let Some(sealed) = sealed_in(&mut payload).and_then(|sealed| sealed.as_str().map(str::to_owned)) else {
            return Ok(recorded.clone());
        };
        let person = match self.key(recorded, &sealed).await {
            Ok(key) => key.map(|key| key.open(&sealed)).transpose(),
            Err(failure) => Err(failure),
        };
        // Whatever is wrong with it, nobody else waits for that.
        let person = match person {
            Err(failure @ PersonFailure::Unopened) => {
                let (id, sequence) = (&recorded.event.aggregate_id, recorded.sequence);
                tracing::error!(
                    error = explain(&failure),
                    aggregate_id = id,
                    sequence,
                    "a person is read without data"
                );
                None
            }
            person => person?,
        };
        put_opened(&mut payload, person);
        let mut opened = Recorded::clone(recorded);
        opened.event.payload = Bytes::from(payload.to_string());
        Ok(Arc::new(opened))
    }

    async fn key(&mut self, recorded: &Recorded, sealed: &str) -> Result<Option<PersonKey>, PersonFailure> {
        let (instance_id, place) = (&recorded.event.instance_id, place_of(sealed));
        if !self.blocks.contains_key(&place.block) {
            let values = self
                .persons
                .blocks
                .values(&place.block)
                .await?
                .ok_or_else(|| PersonFailure::Lost(place.block.clone()))?;
            self.blocks.insert(place.block.clone(), values);
        }
        if !self.keys.contains_key(instance_id) {
            let key = self.data_key(recorded).await?;
            self.keys.insert(instance_id.clone(), key);
        }
        let (Some(Some(wrapping)), Some(values)) = (self.keys.get(instance_id), self.blocks.get(&place.block)) else {
            return Ok(None);
        };
        unwrap(wrapping, (place, values), &name(instance_id, &recorded.event.aggregate_id))
    }

    /// The data key of the instance of an event; `None` where it went with its instance.
    async fn data_key(&self, recorded: &Recorded) -> Result<Option<Arc<Key>>, PersonFailure> {
        let Persons { keyring, database, shard, .. } = self.persons;
        let instance_id = &recorded.event.instance_id;
        let absent = match keyring.key(instance_id, Purpose::Resource).await {
            Ok(key) => return Ok(Some(key)),
            Err(absent @ KeyringFailure::Absent { .. }) => absent,
            Err(failure) => return Err(failure.into()),
        };
        // Where the log is read from its beginning, it is in the same batch.
        let is_it = |event: &&Arc<Recorded>| {
            event.event.instance_id == *instance_id && event.event.aggregate_type == DataKey::NAME
        };
        for event in self.events.iter().filter(is_it) {
            if let Ok(Event::Added(key) | Event::Changed { to: key, .. }) = decode::<Standard<DataKey>>(event)
                && key.purpose == Purpose::Resource.name()
            {
                return Ok(Some(keyring.unwrapped(instance_id, &key)?));
            }
        }
        let read = async { ReadModel::new(&ACCESS, *shard).checkpoint(&database.connection().await?).await };
        let has = database.within(read).await?.map_or(0, |checkpoint| checkpoint.position.sequence);
        if has >= recorded.sequence { Ok(None) } else { Err(absent.into()) }
    }
}

/// Whether something may be sealed in an event: it is looked at more closely then.
fn has_sealed(recorded: &Recorded) -> bool {
    recorded.event.aggregate_type == <Standard<User> as Aggregate>::NAME
        && recorded.event.payload.windows(SEALED.len()).any(|part| part == SEALED)
}

fn unwrap(wrapping: &Key, (place, values): (Place, &Values), name: &str) -> Result<Option<PersonKey>, PersonFailure> {
    let Some(wrapped) = values.get(&place.entry) else { return Ok(None) };
    let opened = wrapping.open(&self::wrapping(name), wrapped).map_err(|_| PersonFailure::Unopened)?;
    let bytes: [u8; 32] = opened.try_into().map_err(|_| PersonFailure::Unopened)?;
    Ok(Some(PersonKey { key: Key::new(bytes), place, purpose: sealing(name) }))
}

/// Where the key is with which something was sealed.
fn place_of(sealed: &str) -> Place {
    let mut parts = sealed.split('.').map(str::to_owned);
    Place { block: parts.next().unwrap_or_default(), entry: parts.next().unwrap_or_default() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_for_its_person_only() {
        let wrapping_key = Key::random();
        let (key, person) = (Key::random(), Person { username: "ada".to_owned(), ..Person::default() });
        let values: Values = [("01".to_owned(), wrapping_key.seal(&wrapping("1/2"), key.expose()))].into();
        let found = |name: &str, entry: &str| {
            let place = Place { block: "ab".to_owned(), entry: entry.to_owned() };
            unwrap(&wrapping_key, (place, &values), name)
        };
        let own = found("1/2", "01").unwrap().unwrap();
        let Personal::Sealed(sealed) = own.seal(&person) else { panic!("it is sealed") };
        assert!(sealed.starts_with("ab.01.") && !sealed.contains("ada"));
        assert_eq!(place_of(&sealed), own.place);
        assert_eq!(own.open(&sealed).unwrap(), person);
        assert!(found("1/2", "02").unwrap().is_none(), "it was destroyed");
        assert!(matches!(found("1/3", "01"), Err(PersonFailure::Unopened)), "it is the key of somebody else");
        let other = PersonKey { key, place: own.place.clone(), purpose: sealing("1/3") };
        assert!(matches!(other.open(&sealed), Err(PersonFailure::Unopened)), "it is about somebody else");
        assert!(matches!(own.open("ab.01"), Err(PersonFailure::Unopened)));
    }
}
