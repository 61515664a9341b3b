//! Opens what is personal in events, for projections and for targets.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use base::{explain::explain, secret::Key};
use bytes::Bytes;
use domain::{
    person::{Person, put_opened, sealed_in},
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

/// What every event of a user has in its payload in which something is sealed.
const SEALED: &[u8] = b"\"personal\":\"";
/// The same of an entry of metadata, and of a session.
const SEALED_SECRET: &[u8] = b"\"sealed\":\"";

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
        let Some(part) = Part::of((aggregate, sequence), &mut payload) else { return Ok(payload) };
        let mut opening = Opening::new(self);
        let is_removed = !self.removed(std::slice::from_ref(&part.user)).await?.is_empty();
        let clear = if is_removed { None } else { opening.clear(&part).await? };
        part.put(&mut payload, clear);
        Ok(payload)
    }

    /// The events with what is personal in clear, for projections. What does not open though its key is there is left out.
    ///
    /// # Errors
    /// When a key cannot be had now: then none of it may be applied.
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

/// An event in which something is sealed.
struct SealedEvent {
    payload: Value,
    part: Part,
}

impl SealedEvent {
    fn of(recorded: &Recorded) -> Option<Self> {
        if !has_sealed(recorded) {
            return None;
        }
        // What is no JSON is found to be that by who decodes it.
        let mut payload = serde_json::from_slice(&recorded.event.payload).unwrap_or_default();
        let part = Part::of((&recorded.key(), recorded.sequence), &mut payload)?;
        Some(Self { payload, part })
    }
}

/// What is sealed in an event.
struct Part {
    /// The user whose key has sealed it.
    user: AggregateKey,
    /// A sequence of the log that is kept for ever, at which the data key of the instance was there.
    sequence: u64,
    kind: Kind,
    sealed: String,
}

/// What something sealed is.
enum Kind {
    Person,
    /// The value of the entry with this key.
    Metadata(String),
    /// That of the session with this id.
    UserAgent(String),
}

/// What was sealed.
enum Clear {
    Person(Box<Person>),
    Metadata(String),
    UserAgent(UserAgent),
}

impl Part {
    fn of((aggregate, sequence): (&AggregateKey, u64), payload: &mut Value) -> Option<Self> {
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
                // The event has a sequence of the other log.
                Some(Self { user: user(&id), sequence: seen, kind: Kind::UserAgent(aggregate.id.clone()), sealed })
            }
            _ => None,
        }
    }

    fn open(&self, key: &PersonKey) -> Result<Clear, PersonFailure> {
        match &self.kind {
            Kind::Person => key.open(&self.sealed).map(|person| Clear::Person(Box::new(person))),
            Kind::Metadata(name) => key.open_metadata(name, &self.sealed).map(Clear::Metadata),
            Kind::UserAgent(session) => {
                key.open_user_agent(session, &Sealed::new(self.sealed.as_str())).map(Clear::UserAgent)
            }
        }
    }

    /// Puts what was opened in its place, or nothing.
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
        recorded: &Recorded,
        SealedEvent { mut payload, part }: SealedEvent,
        removed: &HashSet<AggregateKey>,
    ) -> Result<Arc<Recorded>, PersonFailure> {
        let is_removed = removed.contains(&part.user);
        let clear = if is_removed { Ok(None) } else { self.clear(&part).await };
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
    async fn clear(&mut self, part: &Part) -> Result<Option<Clear>, PersonFailure> {
        let key = self.key((&part.user, part.sequence), &part.sealed).await?;
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
        UserMetadata::NAME | Session::NAME => SEALED_SECRET,
        _ => return false,
    };
    recorded.event.payload.windows(marker.len()).any(|part| part == marker)
}
