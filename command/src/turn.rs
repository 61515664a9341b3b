//! The turn: commands are decided one after another, on committed state plus the record being filled.
//!
//! A command reads through [`Turn::get`] and [`Turn::holder`]. What is not in memory is noted, and the command waits
//! outside the turn until it is loaded; the turn itself waits for nothing. Writing comes last, with [`Turn::append`],
//! so a command that must wait has changed nothing.

mod memory;
mod stop;

use std::sync::Arc;

use base::secret;
use bytes::Bytes;
use domain::{
    aggregate::Aggregate,
    claim::Claim,
    context::{Owner, OwnerType},
    rejection::Rejection,
    resource::{instance::Instance, organization::Organization},
    standard::Standard,
};
use edge::error::{Error, Reason};
use eventlog::record::{Answer, Event, Key, Recorded, Undecodable, decode, encode, owner_type};
use jiff::Timestamp;
use view::{
    history::{ClaimHash, Needs},
    keyring::claim_hash,
};

use self::memory::{Entry, Held};
pub(crate) use self::{memory::Memory, stop::Stop};

/// Where an aggregate stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// The number of its events.
    pub(crate) version: u64,
    /// The sequence of its last event; 0 when it has none.
    pub(crate) sequence: u64,
    /// When that event was committed.
    pub(crate) changed_at: Timestamp,
    /// When it began to exist.
    pub(crate) created_at: Timestamp,
    /// The context that it belongs to; `None` when it has no event.
    pub(crate) owner: Option<Owner>,
}

/// An aggregate as a command sees it.
pub(crate) struct Known<A: Aggregate> {
    /// Its state.
    pub(crate) state: Arc<A::State>,
    /// Where it stands.
    pub(crate) place: Place,
}

/// What a command came to.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The sequence of the last event of the object, new or not.
    pub sequence: u64,
    /// When that event was committed.
    pub changed_at: Timestamp,
    /// The context that the object belongs to.
    pub owner: Owner,
    /// Where the caller had the right to it.
    pub context: Owner,
    /// Whether the object did not exist before.
    pub is_new: bool,
}

/// Who causes events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause {
    /// The user.
    pub(crate) actor: String,
    /// The command.
    pub(crate) command_id: Bytes,
    /// The W3C `traceparent` of the request.
    pub(crate) trace_context: String,
    /// What it reacts to, if it does.
    pub(crate) causation_id: String,
}

/// The keys that hash the claims of an instance.
#[derive(Clone)]
pub(crate) struct ClaimKeys {
    /// For what is unique in the instance.
    pub(crate) instance: Arc<secret::Key>,
    /// For what is unique in the system.
    pub(crate) system: Arc<secret::Key>,
}

/// The record being filled.
#[derive(Default)]
pub(crate) struct Draft {
    /// Its events.
    pub(crate) events: Vec<Event>,
    /// Its answers to idempotent commands.
    pub(crate) answers: Vec<Answer>,
    /// About how many bytes it has.
    pub(crate) bytes: usize,
}

/// What one command sees and does in its turn.
pub(crate) struct Turn<'a> {
    memory: &'a mut Memory,
    draft: &'a mut Draft,
    /// When the record is committed.
    now: Timestamp,
    missing: Needs,
    appended: Vec<Appended>,
    /// Who was given roles, and at which sequence.
    given: Vec<(Key, u64)>,
}

struct Appended {
    key: Key,
    held: Held,
    events: Vec<Event>,
    claims: Vec<(ClaimHash, Option<Key>)>,
}

impl<'a> Turn<'a> {
    /// A turn for one command.
    pub(crate) fn new(memory: &'a mut Memory, draft: &'a mut Draft, now: Timestamp) -> Self {
        Self { memory, draft, now, missing: Needs::default(), appended: vec![], given: vec![] }
    }

    /// An aggregate; `None` when it must be loaded first, see [`Turn::complete`].
    pub(crate) fn get<A: Aggregate>(&mut self, key: &Key) -> Result<Option<Known<A>>, Stop> {
        let Some(entry) = self.memory.aggregates.get(key) else {
            self.missing.aggregates.push(key.clone());
            return Ok(None);
        };
        if let Entry::Loaded(events) = entry {
            let held = restore::<A>(events).map_err(|error| match error {
                newer if newer.is_newer() => Stop::Newer(Box::new(newer)),
                error => Error::internal(&error).into(),
            })?;
            *entry = Entry::Held(held);
        }
        let Entry::Held(held) = entry else { return Ok(None) };
        let state = held.state.clone().downcast().map_err(|_| Error::internal(&WrongType))?;
        Ok(Some(Known { state, place: held.place.clone() }))
    }

    /// An aggregate without which nothing can be decided.
    pub(crate) fn known<A: Aggregate>(&mut self, key: &Key) -> Result<Known<A>, Stop> {
        self.get(key)?.ok_or(Stop::Missing)
    }

    /// An aggregate under an id that was never used: nothing to load.
    pub(crate) fn unborn<A: Aggregate>(&mut self, key: &Key) -> Result<Known<A>, Stop> {
        let was_born = |entry: &mut Entry| match entry {
            Entry::Loaded(events) => !events.is_empty(),
            Entry::Held(held) => held.place.version > 0,
        };
        if self.memory.aggregates.get(key).is_some_and(was_born) {
            return Err(Rejection::AlreadyExists(A::NAME).into());
        }
        Ok(Known { state: Arc::default(), place: Place::default() })
    }

    /// Who holds a claim; the outer `None` when that must be loaded first.
    pub(crate) fn holder(&mut self, claim: &ClaimHash) -> Option<Option<Key>> {
        // What this command has released or taken already.
        let own =
            self.appended.iter().rev().flat_map(|appended| &appended.claims).find(|(changed, _)| changed == claim);
        if let Some((_, holder)) = own {
            return Some(holder.clone());
        }
        let known = self.memory.claims.get(claim).map(|holder| holder.clone());
        if known.is_none() {
            self.missing.claims.push(*claim);
        }
        known
    }

    /// Remembers that a user, or one of an organization, was given roles beyond its own organization at a sequence.
    pub(crate) fn gave_roles(&mut self, holder: Key, sequence: u64) {
        self.given.push((holder, sequence));
    }

    /// The sequence at or before which a user, or one of an organization, was last given roles beyond its own organization.
    pub(crate) fn roles_given(&self, holder: &Key) -> u64 {
        self.memory.given.last(holder)
    }

    /// The sequence of the last event that is committed.
    pub(crate) fn end(&self) -> u64 {
        self.memory.tail.end().sequence
    }

    /// Goes on only when nothing is missing.
    pub(crate) fn complete(&self) -> Result<(), Stop> {
        if self.missing.is_empty() { Ok(()) } else { Err(Stop::Missing) }
    }

    /// What the command has to wait for.
    pub(crate) fn into_missing(self) -> Needs {
        self.missing
    }

    /// Writes events of one aggregate. It must be the last thing that a command does, once per aggregate.
    pub(crate) fn append<A: Aggregate>(
        &mut self,
        key: &Key,
        known: Known<A>,
        owner: &Owner,
        events: &[A::Event],
        (keys, cause): (&ClaimKeys, &Cause),
    ) -> Result<Decided, Stop> {
        let owner = known.place.owner.as_ref().unwrap_or(owner).clone();
        let before = hash_all(&A::claims(&known.state), keys);
        let state = events.iter().fold(A::State::clone(&known.state), A::evolve);
        let after = hash_all(&A::claims(&state), keys);
        let mut place = known.place;
        if events.is_empty() {
            return Ok(Decided::at(&place, owner, false));
        }
        let claims = self.change_claims::<A>(key, &before, &after)?;

        let is_new = place.version == 0 || !A::exists(&known.state);
        if is_new {
            place.created_at = self.now;
        }
        let mut written = vec![];
        for event in events {
            place.version += 1;
            let (r#type, payload) = encode::<A>(event);
            written.push(Event {
                id: hex::encode(secret::random::<16>()),
                instance_id: key.instance_id.clone(),
                owner_type: owner_type(owner.kind),
                owner_id: owner.id.clone(),
                aggregate_type: key.aggregate_type.clone(),
                aggregate_id: key.id.clone(),
                version: place.version,
                r#type,
                revision: A::REVISION,
                payload,
                restores: A::restores(event),
                actor: cause.actor.clone(),
                command_id: cause.command_id.clone(),
                trace_context: cause.trace_context.clone(),
                causation_id: cause.causation_id.clone(),
                created_at: place.created_at.as_microsecond(),
                ..Event::default()
            });
        }
        say_claims(&mut written, &claims);
        let pending: usize = self.appended.iter().map(|appended| appended.events.len()).sum();
        place.sequence =
            self.memory.tail.end().sequence + 1 + (self.draft.events.len() + pending + written.len()) as u64 - 1;
        (place.changed_at, place.owner) = (self.now, Some(owner.clone()));
        let decided = Decided::at(&place, owner, is_new);
        self.appended.push(Appended {
            key: key.clone(),
            held: Held { state: Arc::new(state), place },
            events: written,
            claims,
        });
        Ok(decided)
    }

    /// What is taken must be free, or be held by something of the same kind within what was removed; what is released is
    /// free from now on.
    fn change_claims<A: Aggregate>(
        &mut self,
        key: &Key,
        before: &[ClaimHash],
        after: &[ClaimHash],
    ) -> Result<Vec<(ClaimHash, Option<Key>)>, Stop> {
        let mut changes = vec![];
        for taken in after.iter().filter(|claim| !before.contains(claim)) {
            // One that must be loaded first does not end the command, so that all of them are loaded at once.
            if let Some(holder) = self.holder(taken).flatten().filter(|holder| holder != key)
                && !self.is_gone::<A>(&holder)?
            {
                return Err(Rejection::AlreadyExists(A::NAME).into());
            }
            changes.push((*taken, Some(key.clone())));
        }
        changes.extend(before.iter().filter(|claim| !after.contains(claim)).map(|claim| (*claim, None)));
        Ok(changes)
    }

    /// Whether what an aggregate belongs to was removed. Until that is known it counts as gone, see [`Turn::complete`].
    fn is_gone<A: Aggregate>(&mut self, key: &Key) -> Result<bool, Stop> {
        if key.aggregate_type != A::NAME {
            return Ok(false);
        }
        let instance = Key::of::<Standard<Instance>>(&key.instance_id, &key.instance_id);
        let (instance, known) = (self.get::<Standard<Instance>>(&instance)?, self.get::<A>(key)?);
        let (Some(instance), Some(known)) = (instance, known) else { return Ok(true) };
        let Some(owner) = known.place.owner.filter(|owner| owner.kind == OwnerType::Organization) else {
            return Ok(instance.state.is_none());
        };
        let organization = Key::of::<Standard<Organization>>(&key.instance_id, &owner.id);
        let organization = self.get::<Standard<Organization>>(&organization)?;
        Ok(instance.state.is_none() || organization.is_none_or(|organization| organization.state.is_none()))
    }

    /// Puts what the command wrote into the record, unless it is larger than a record may be.
    pub(crate) fn finish(self, limit: usize) -> Result<(), Box<Error>> {
        let bytes: usize = self.appended.iter().flat_map(|appended| &appended.events).map(written_bytes).sum();
        if bytes > limit {
            let message =
                format!("the command's events have {bytes} bytes, more than the {limit} that may be committed at once");
            return Err(Box::new(Error::new(Reason::CommandTooLarge, message)));
        }
        self.draft.bytes += bytes;
        for appended in self.appended {
            self.memory.aggregates.insert(appended.key, Entry::Held(appended.held));
            for (claim, holder) in appended.claims {
                self.memory.claims.insert(claim, holder);
            }
            self.draft.events.extend(appended.events);
        }
        for (holder, sequence) in self.given {
            self.memory.given.note(holder, sequence);
        }
        Ok(())
    }
}

impl Decided {
    fn at(place: &Place, owner: Owner, is_new: bool) -> Self {
        let (sequence, changed_at, context) = (place.sequence, place.changed_at, owner.clone());
        Self { sequence, changed_at, owner, context, is_new }
    }
}

impl Draft {
    /// Whether there is nothing to commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.answers.is_empty()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("an aggregate is read as another type than it was written")]
struct WrongType;

fn restore<A: Aggregate>(events: &[Arc<Recorded>]) -> Result<Held, Undecodable> {
    let mut state = A::State::default();
    for recorded in events {
        state = A::evolve(state, &decode::<A>(recorded)?);
    }
    let last = events.last();
    let place = Place {
        version: last.map_or(0, |recorded| recorded.event.version),
        sequence: last.map_or(0, |recorded| recorded.sequence),
        changed_at: last.map_or(Timestamp::UNIX_EPOCH, |recorded| recorded.committed_at),
        created_at: last.map_or(Timestamp::UNIX_EPOCH, |recorded| recorded.created_at()),
        owner: last.map(|recorded| recorded.owner()),
    };
    Ok(Held { state: Arc::new(state), place })
}

/// Puts the changes of claims into the last event of a command.
fn say_claims(written: &mut [Event], claims: &[(ClaimHash, Option<Key>)]) {
    let Some(last) = written.last_mut() else { return };
    let with = |change: fn(&Option<Key>) -> bool| {
        let of = claims.iter().filter(|(_, holder)| change(holder));
        of.map(|(claim, _)| Bytes::copy_from_slice(claim)).collect()
    };
    (last.claims_taken, last.claims_released) = (with(Option::is_some), with(Option::is_none));
}

fn hash_all(claims: &[Claim], keys: &ClaimKeys) -> Vec<ClaimHash> {
    let hash = |claim: &Claim| match claim.scope {
        domain::claim::Scope::Instance => claim_hash(&keys.instance, claim),
        domain::claim::Scope::System => claim_hash(&keys.system, claim),
    };
    claims.iter().map(hash).collect()
}

/// About what an event adds to its record.
fn written_bytes(event: &Event) -> usize {
    prost::Message::encoded_len(event) + 40
}
