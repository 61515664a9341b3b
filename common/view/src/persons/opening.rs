//! Opens what is personal in events, for projections and for targets.

use std::{collections::HashMap, sync::Arc};

use base::{explain::explain, secret::Key};
use bytes::Bytes;
use domain::person::{Person, put_opened, sealed_in};
use eventlog::{
    blocks::{Slot, Values},
    record::{AggregateKey, Recorded},
};
use serde_json::Value;

use super::{PersonFailure, PersonKey, Persons, is_user, name, slot_of};

/// What every event has in its payload in which something is sealed.
const SEALED: &[u8] = b"\"personal\":\"";

impl Persons {
    /// The payload of an event of an aggregate, by its sequence, with what is personal in clear; nothing is left of that where the
    /// user was removed.
    ///
    /// # Errors
    /// When a key cannot be had now.
    pub async fn opened(
        &self,
        (user, sequence): (&AggregateKey, u64),
        mut payload: Value,
    ) -> Result<Value, PersonFailure> {
        let Some(sealed) = sealed_text(&mut payload) else { return Ok(payload) };
        let mut opening = Opening::new(self);
        let is_removed = !self.removed(std::slice::from_ref(user)).await?.is_empty();
        let person = if is_removed { None } else { opening.person((user, sequence), &sealed).await? };
        put_opened(&mut payload, person);
        Ok(payload)
    }

    /// The events with what is personal in clear, for projections. What does not open though its key is there is left out.
    ///
    /// # Errors
    /// When a key cannot be had now: then none of it may be applied.
    pub async fn open_events(&self, events: &[Arc<Recorded>]) -> Result<Vec<Arc<Recorded>>, PersonFailure> {
        let mut users: Vec<_> =
            events.iter().filter(|recorded| has_sealed(recorded)).map(|recorded| recorded.key()).collect();
        if users.is_empty() {
            return Ok(events.to_vec());
        }
        users.sort();
        users.dedup();
        let (removed, mut opening) = (self.removed(&users).await?, Opening::new(self));
        let mut opened = Vec::with_capacity(events.len());
        for recorded in events {
            let is_removed = removed.contains(&recorded.key());
            opened.push(if has_sealed(recorded) {
                opening.open(recorded, is_removed).await?
            } else {
                recorded.clone()
            });
        }
        Ok(opened)
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

    async fn open(&mut self, recorded: &Arc<Recorded>, is_removed: bool) -> Result<Arc<Recorded>, PersonFailure> {
        // What is no JSON is found to be that by who decodes it.
        let mut payload: Value = serde_json::from_slice(&recorded.event.payload).unwrap_or_default();
        let Some(sealed) = sealed_text(&mut payload) else { return Ok(recorded.clone()) };
        let of = (&recorded.key(), recorded.sequence);
        let person = if is_removed { Ok(None) } else { self.person(of, &sealed).await };
        let person = match person {
            // Whatever is wrong with it, nobody else waits for that.
            Err(failure @ PersonFailure::Unopened) => {
                let (id, sequence) = (&recorded.event.aggregate_id, recorded.sequence);
                let error = explain(&failure);
                tracing::error!(error, aggregate_id = id, sequence, "a person is read without data");
                None
            }
            person => person?,
        };
        put_opened(&mut payload, person);
        let mut opened = Recorded::clone(recorded);
        opened.event.payload = Bytes::from(payload.to_string());
        Ok(Arc::new(opened))
    }

    /// What is sealed of a user; `None` where its key was destroyed.
    async fn person(
        &mut self,
        (user, sequence): (&AggregateKey, u64),
        sealed: &str,
    ) -> Result<Option<Person>, PersonFailure> {
        let key = self.key((user, sequence), sealed).await?;
        key.map(|key| key.open(sealed)).transpose()
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
    is_user(&recorded.event.aggregate_type) && recorded.event.payload.windows(SEALED.len()).any(|part| part == SEALED)
}
