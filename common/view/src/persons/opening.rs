//! Opens what is personal in events, for projections and for targets.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use base::{explain::explain, secret::Key};
use bytes::Bytes;
use domain::{
    person::{Person, is_change, put_opened, sealed_in},
    resource::{
        user::User,
        user_metadata::{self, UserMetadata},
    },
    standard::{Resource, Standard},
};
use eventlog::{
    blocks::{Slot, Values},
    record::{AggregateKey, Recorded},
};
use serde_json::Value;

use super::{PersonFailure, PersonKey, Persons, name, slot_of};

/// Where the payload of a user has what is personal.
const PERSONAL: &str = "human.personal";
/// What every event of a user has in its payload in which something is sealed.
const SEALED: &[u8] = b"\"personal\":\"";
/// The same of an entry of metadata.
const SEALED_METADATA: &[u8] = b"\"sealed\":\"";

impl Persons {
    /// The payload of an event of an aggregate, by its sequence, with what is personal in clear; nothing is left of that where the
    /// user was removed.
    ///
    /// # Errors
    /// When a key cannot be had now.
    pub async fn opened(
        &self,
        (aggregate, sequence): (&AggregateKey, u64),
        mut payload: Value,
    ) -> Result<Value, PersonFailure> {
        let Some(part) = Part::of(aggregate, &mut payload) else { return Ok(payload) };
        let clear = self.clear(&part, sequence).await?;
        part.put(&mut payload, clear);
        Ok(payload)
    }

    /// The same for somebody who looks at one event, whatever is wrong with it: with what became of each member that is sealed, by
    /// its path. One that does not open is left out.
    ///
    /// # Errors
    /// When a key cannot be had now.
    pub async fn shown(
        &self,
        (aggregate, sequence): (&AggregateKey, u64),
        mut payload: Value,
    ) -> Result<(Value, Vec<(String, Seal)>), PersonFailure> {
        let Some(part) = Part::of(aggregate, &mut payload) else { return Ok((payload, vec![])) };
        let (seal, clear) = match self.clear(&part, sequence).await {
            Ok(Some(clear)) => (Seal::Opened, Some(clear)),
            Ok(None) => (Seal::Erased, None),
            Err(PersonFailure::Unopened) => (Seal::Damaged, None),
            Err(failure) => return Err(failure),
        };
        let path = part.path(&payload);
        part.put(&mut payload, clear);
        Ok((payload, vec![(path, seal)]))
    }

    /// What is sealed in one event; `None` where the key was destroyed, or the user was removed.
    async fn clear(&self, part: &Part, sequence: u64) -> Result<Option<Clear>, PersonFailure> {
        let is_removed = !self.removed(std::slice::from_ref(&part.user)).await?.is_empty();
        if is_removed { Ok(None) } else { Opening::new(self).clear(part, sequence).await }
    }

    /// The events with what is personal in clear, for projections. What does not open though its key is there is left out.
    ///
    /// # Errors
    /// When a key cannot be had now: then none of it may be applied.
    pub async fn open_events(&self, events: &[Arc<Recorded>]) -> Result<Vec<Arc<Recorded>>, PersonFailure> {
        let sealed = events.iter().filter(|recorded| has_sealed(recorded));
        let mut users: Vec<_> = sealed.filter_map(|recorded| user_of(&recorded.key())).collect();
        if users.is_empty() {
            return Ok(events.to_vec());
        }
        users.sort();
        users.dedup();
        let (removed, mut opening) = (self.removed(&users).await?, Opening::new(self));
        let mut opened = Vec::with_capacity(events.len());
        for recorded in events {
            opened.push(if has_sealed(recorded) { opening.open(recorded, &removed).await? } else { recorded.clone() });
        }
        Ok(opened)
    }
}

/// What became of a member that was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// It is in clear.
    Opened,
    /// Its person was erased.
    Erased,
    /// The key of the person does not open it.
    Damaged,
}

/// What is sealed in an event.
struct Part {
    /// The user whose key has sealed it.
    user: AggregateKey,
    /// Which entry it is the value of, where it is metadata.
    metadata_key: Option<String>,
    sealed: String,
}

/// What was sealed.
enum Clear {
    Person(Box<Person>),
    Metadata(String),
}

impl Part {
    fn of(aggregate: &AggregateKey, payload: &mut Value) -> Option<Self> {
        let user = user_of(aggregate)?;
        match user_metadata::parts(&aggregate.id).filter(|_| aggregate.aggregate_type == UserMetadata::NAME) {
            Some((_, key)) => {
                let sealed = user_metadata::sealed_in(payload)?;
                Some(Self { user, metadata_key: Some(key.to_owned()), sealed })
            }
            None => Some(Self { user, metadata_key: None, sealed: sealed_text(payload)? }),
        }
    }

    fn open(&self, key: &PersonKey) -> Result<Clear, PersonFailure> {
        match &self.metadata_key {
            Some(name) => key.open_metadata(name, &self.sealed).map(Clear::Metadata),
            None => key.open(&self.sealed).map(|person| Clear::Person(Box::new(person))),
        }
    }

    /// Where it is in clear, once it is opened.
    fn path(&self, payload: &Value) -> String {
        let member = if self.metadata_key.is_some() { user_metadata::OPENED } else { PERSONAL };
        if is_change(payload) { format!("to.{member}") } else { member.to_owned() }
    }

    /// Puts what was opened in its place, or nothing.
    fn put(&self, payload: &mut Value, clear: Option<Clear>) {
        match clear {
            Some(Clear::Person(person)) => put_opened(payload, Some(*person)),
            Some(Clear::Metadata(value)) => user_metadata::put_opened(payload, Some(value)),
            None if self.metadata_key.is_some() => user_metadata::put_opened(payload, None),
            None => put_opened(payload, None),
        }
    }
}

/// The user with whose key something may be sealed in an aggregate.
fn user_of(aggregate: &AggregateKey) -> Option<AggregateKey> {
    match aggregate.aggregate_type.as_str() {
        User::NAME => Some(aggregate.clone()),
        UserMetadata::NAME => {
            let (user, _) = user_metadata::parts(&aggregate.id)?;
            Some(AggregateKey::of::<Standard<User>>(&aggregate.instance_id, user))
        }
        _ => None,
    }
}

/// What is read while events are opened: each block and each data key once.
struct Opening<'a> {
    persons: &'a Persons,
    blocks: HashMap<String, Option<Values>>,
    data_keys: HashMap<String, Option<Arc<Key>>>,
}

impl<'a> Opening<'a> {
    fn new(persons: &'a Persons) -> Self {
        Self { persons, blocks: HashMap::new(), data_keys: HashMap::new() }
    }

    async fn open(
        &mut self,
        recorded: &Arc<Recorded>,
        removed: &HashSet<AggregateKey>,
    ) -> Result<Arc<Recorded>, PersonFailure> {
        // What is no JSON is found to be that by who decodes it.
        let mut payload: Value = serde_json::from_slice(&recorded.event.payload).unwrap_or_default();
        let Some(part) = Part::of(&recorded.key(), &mut payload) else { return Ok(recorded.clone()) };
        let is_removed = removed.contains(&part.user);
        let clear = if is_removed { Ok(None) } else { self.clear(&part, recorded.sequence).await };
        let clear = match clear {
            // Whatever is wrong with it, nobody else waits for that.
            Err(failure @ PersonFailure::Unopened) => {
                let (id, sequence) = (&recorded.event.aggregate_id, recorded.sequence);
                let error = explain(&failure);
                tracing::error!(error, aggregate_id = id, sequence, "what is personal is read as if it were erased");
                None
            }
            clear => clear?,
        };
        part.put(&mut payload, clear);
        let mut opened = Recorded::clone(recorded);
        opened.event.payload = Bytes::from(payload.to_string());
        Ok(Arc::new(opened))
    }

    /// What is sealed of a user; `None` where its key was destroyed.
    async fn clear(&mut self, part: &Part, sequence: u64) -> Result<Option<Clear>, PersonFailure> {
        let key = self.key((&part.user, sequence), &part.sealed).await?;
        key.map(|key| part.open(&key)).transpose()
    }

    async fn key(
        &mut self,
        (user, sequence): (&AggregateKey, u64),
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
        self.persons.unwrap(data_key, (slot, values), &name(instance_id, &user.id))
    }
}

/// Where the key is with which something was sealed in an event, if anything was.
pub fn slot_in(recorded: &Recorded) -> Option<Slot> {
    let mut payload = serde_json::from_slice(&recorded.event.payload).unwrap_or_default();
    sealed_text(&mut payload).map(|sealed| slot_of(&sealed))
}

fn sealed_text(payload: &mut Value) -> Option<String> {
    sealed_in(payload).and_then(|sealed| sealed.as_str().map(str::to_owned))
}

/// Whether something may be sealed in an event: it is looked at more closely then.
fn has_sealed(recorded: &Recorded) -> bool {
    let marker = match recorded.event.aggregate_type.as_str() {
        User::NAME => SEALED,
        UserMetadata::NAME => SEALED_METADATA,
        _ => return false,
    };
    recorded.event.payload.windows(marker.len()).any(|part| part == marker)
}
