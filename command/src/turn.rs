//! The turn: commands are decided one after another, on committed state plus the record being filled.
//!
//! A command reads through [`Turn::get`] and [`Turn::holder`], as if everything were in memory. What is not counts as
//! absent and is noted: then the verdict, which depends on too little, is discarded, and the command waits outside the
//! turn until what it lacked is loaded ([`Turn::lack`]). The turn itself waits for nothing, and what [`Turn::append`]
//! wrote counts only from [`Turn::finish`] on.

mod claims;
mod current;
mod draft;
mod limit;
mod memory;
mod refusal;
mod written;

use std::sync::Arc;

use base::{fault, secret};
use bytes::Bytes;
use domain::{
    aggregate::Aggregate,
    context::{Owner, RolePlace},
    log_class::OfEach,
    object_limits::ObjectLimits,
    reference::Link,
    rejection::Rejection,
};
use edge::error::{Error, Reason};
use eventlog::record::{AggregateKey, Event, encode, owner_type};
use jiff::Timestamp;
use view::{
    history::{ClaimHash, Needs, ReferenceChange, Referred, Referrers, StoredAnswer, reference_changes},
    keyring::{Keyring, KeyringFailure, Purpose, SYSTEM},
};

use self::{
    current::restore,
    memory::{Cached, Entry},
    written::{hash_all, note_claims, note_references, written_bytes},
};
pub(crate) use self::{
    current::{Current, Head, key_of},
    draft::Draft,
    memory::Memory,
    refusal::{Lack, Refusal},
};

/// About how many bytes the events that follow from a removal or an upgrade may have: a part of what a record holds.
pub(crate) const PART_OF_RECORD: usize = 64 * 1024;

/// What was decided about the object of a command.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The type of the object.
    pub aggregate_type: &'static str,
    /// The sequence of the last event of the object, new or not.
    pub sequence: u64,
    /// When that event was committed.
    pub changed_at: Timestamp,
    /// The context that the object belongs to.
    pub owner: Owner,
    /// The place in which a role of the caller permitted the command, if one did.
    pub place: Option<RolePlace>,
    /// Whether the object did not exist before.
    pub is_new: bool,
}

/// The cause of events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause {
    /// The user, or the part of the platform, that acts.
    pub(crate) actor: String,
    /// The id of the command.
    pub(crate) command_id: Bytes,
    /// The W3C `traceparent` of the request.
    pub(crate) trace_context: String,
    /// What the command reacts to, if it does.
    pub(crate) causation_id: String,
}

/// The keys that hash the claims of an instance.
#[derive(Clone)]
pub(crate) struct ClaimKeys {
    /// The key for what is unique in the instance.
    pub(crate) instance: Arc<secret::SymmetricKey>,
    /// The key for what is unique in the system.
    pub(crate) system: Arc<secret::SymmetricKey>,
}

impl ClaimKeys {
    pub(crate) async fn of(keyring: &Keyring, instance_id: &str) -> Result<Self, KeyringFailure> {
        let instance = keyring.key(instance_id, Purpose::Claim).await?;
        Ok(Self { instance, system: keyring.key(SYSTEM, Purpose::Claim).await? })
    }
}

/// What one command sees and does in its turn.
pub(crate) struct Turn<'a> {
    memory: &'a mut Memory,
    draft: &'a mut Draft,
    /// When the record is committed.
    now: Timestamp,
    limits: ObjectLimits,
    missing: Needs,
    loads_found: bool,
    unreadable: Option<Lack>,
    appended: Vec<Appended>,
    purged_to: u64,
}

struct Appended {
    key: AggregateKey,
    cached: Cached,
    events: Vec<Event>,
    claims: Vec<(ClaimHash, Option<AggregateKey>)>,
    /// Whether references are noted that may have been noted before.
    notes_all: bool,
}

impl<'a> Turn<'a> {
    /// Creates a turn for one command.
    pub(crate) fn new(memory: &'a mut Memory, draft: &'a mut Draft, now: Timestamp) -> Self {
        Self {
            memory,
            draft,
            now,
            limits: ObjectLimits::default(),
            missing: Needs::default(),
            loads_found: false,
            unreadable: None,
            appended: vec![],
            purged_to: 0,
        }
    }

    /// Limits the number of objects that commands may create.
    pub(crate) fn within(self, limits: &ObjectLimits) -> Self {
        Self { limits: limits.clone(), ..self }
    }

    /// Returns an aggregate as it is now.
    pub(crate) fn get<A: Aggregate>(&mut self, key: &AggregateKey) -> Current<A> {
        let Some(entry) = self.memory.aggregates.get(key) else {
            self.missing.aggregates.push(key.clone());
            return Current::absent(key);
        };
        if let Entry::Loaded(events) = entry {
            fault::point_of("turn.folding", &key.id);
            match restore::<A>(events) {
                Ok(cached) => *entry = Entry::Cached(cached),
                Err(error) => {
                    self.unreadable.get_or_insert_with(|| Lack::from(error));
                    return Current::absent(key);
                }
            }
        }
        if let Entry::Cached(cached) = entry
            && let Ok(state) = cached.state.clone().downcast()
        {
            return Current { key: key.clone(), state, head: cached.head.clone(), notes_all: false };
        }
        self.unreadable.get_or_insert_with(|| Lack::Unreadable(Box::new(Error::internal(&WrongType))));
        Current::absent(key)
    }

    /// Returns the type of the last event of a damaged aggregate, on which nothing can be decided; `None` for others.
    pub(crate) fn end_of_damaged<A: Aggregate>(&mut self, key: &AggregateKey) -> Option<String> {
        let Some(Entry::Loaded(events)) = self.memory.aggregates.get(key) else { return None };
        let _damaged = restore::<A>(events).err().filter(|failure| !failure.is_newer())?;
        events.last().map(|last| last.event.r#type.clone())
    }

    /// Returns a new aggregate under an id that was never used, for which nothing must be loaded.
    pub(crate) fn unborn<A: Aggregate>(&mut self, key: &AggregateKey, owner: &Owner) -> Result<Current<A>, Refusal> {
        let was_born = |entry: &mut Entry| match entry {
            Entry::Loaded(events) => !events.is_empty(),
            Entry::Cached(cached) => cached.head.version > 0,
        };
        if self.memory.aggregates.get(key).is_some_and(was_born) {
            return Err(Rejection::AlreadyExists(A::NAME).into());
        }
        Ok(Current::absent(key).owned_by(owner))
    }

    /// Returns the holder of a claim.
    pub(crate) fn holder(&mut self, claim: &ClaimHash) -> Option<AggregateKey> {
        // The claims that this command itself has released or taken.
        let own =
            self.appended.iter().rev().flat_map(|appended| &appended.claims).find(|(changed, _)| changed == claim);
        if let Some((_, holder)) = own {
            return holder.clone();
        }
        let held = self.memory.claims.get(claim).map(|holder| holder.clone());
        if held.is_none() {
            self.missing.claims.push(*claim);
        }
        held.flatten()
    }

    /// Returns the aggregates that refer to this one by a link.
    pub(crate) fn referrers(&mut self, key: &AggregateKey, link: Link) -> Referrers {
        let referred = Referred { key: key.clone(), link: link.name.to_owned() };
        if let Some(referrers) = self.memory.referrers(&referred) {
            return referrers;
        }
        self.missing.referrers.push(referred);
        Referrers::default()
    }

    /// Returns the answer that was given to an idempotent command before.
    pub(crate) fn answer(&mut self, command_id: &Bytes) -> Option<StoredAnswer> {
        let answered = self.memory.answer(command_id);
        if answered.is_none() {
            self.missing.commands.push(command_id.clone());
        }
        answered.flatten()
    }

    /// Returns when the record is committed, by the clock of this node.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the sequence of the last committed event of each log.
    pub(crate) fn ends(&self) -> OfEach<u64> {
        self.memory.tails.as_ref().map(|tail| tail.end().sequence)
    }

    /// Writes events of one aggregate, once per aggregate. The command must have read all that it decides on before.
    pub(crate) fn append<A: Aggregate>(
        &mut self,
        current: Current<A>,
        events: &[A::Event],
        keys: &ClaimKeys,
        cause: &Cause,
    ) -> Result<Decided, Refusal> {
        let owner = current.owner()?.clone();
        let Current { key, state: before, mut head, notes_all } = current;
        if events.is_empty() {
            return Ok(Decided::at::<A>(&head, owner, false));
        }
        if A::CLASS != self.draft.class {
            return Err(Error::internal(&WrongLog(A::NAME)).into());
        }
        let state = events.iter().fold(A::State::clone(&before), A::evolve);
        let claims =
            self.change_claims::<A>(&key, &hash_all(&A::claims(&before), keys), &hash_all(&A::claims(&state), keys))?;

        let is_new = head.version == 0 || !A::exists(&before);
        if is_new {
            self.permit_one_more::<A>(&key.instance_id, &owner)?;
            head.created_at = self.now;
        }
        let mut written = vec![];
        for event in events {
            head.version += 1;
            let (r#type, payload) = encode::<A>(event);
            written.push(Event {
                id: hex::encode(secret::random::<16>()),
                instance_id: key.instance_id.clone(),
                owner_type: owner_type(owner.kind),
                owner_id: owner.id.clone(),
                aggregate_type: key.aggregate_type.clone(),
                aggregate_id: key.id.clone(),
                version: head.version,
                r#type,
                revision: A::REVISION,
                payload,
                restores: A::restores(event),
                actor: cause.actor.clone(),
                command_id: cause.command_id.clone(),
                trace_context: cause.trace_context.clone(),
                causation_id: cause.causation_id.clone(),
                created_at: head.created_at.as_microsecond(),
                ..Event::default()
            });
        }
        note_claims(&mut written, &claims);
        let noted = if notes_all { vec![] } else { A::references(&before, &owner) };
        note_references(&mut written, &noted, &A::references(&state, &owner));
        let pending: usize = self.appended.iter().map(|appended| appended.events.len()).sum();
        head.sequence =
            self.memory.tails[A::CLASS].end().sequence + (self.draft.events.len() + pending + written.len()) as u64;
        (head.changed_at, head.owner) = (self.now, Some(owner.clone()));
        let decided = Decided::at::<A>(&head, owner, is_new);
        let cached = Cached { state: Arc::new(state), head };
        self.appended.push(Appended { key, cached, events: written, claims, notes_all });
        Ok(decided)
    }

    /// Permits a purge of the log that the record is for, up to this stream sequence.
    pub(crate) fn permit_purge(&mut self, to: u64) {
        self.purged_to = to;
    }

    /// Returns how many aggregates the command has written so far.
    pub(crate) fn pending(&self) -> usize {
        self.appended.len()
    }

    /// Returns about how many bytes the command has written after its first `pending` aggregates.
    pub(crate) fn bytes_after(&self, pending: usize) -> usize {
        self.appended.iter().skip(pending).flat_map(|appended| &appended.events).map(written_bytes).sum()
    }

    /// Undoes what the command has written after its first `pending` aggregates.
    pub(crate) fn undo_after(&mut self, pending: usize) {
        self.appended.truncate(pending);
    }

    /// Notes in the last event of an aggregate that the objects which name it are still to be swept.
    pub(crate) fn leave_to_sweep(&mut self, key: &AggregateKey) {
        let written = self.appended.iter_mut().find(|appended| appended.key == *key);
        if let Some(last) = written.and_then(|appended| appended.events.last_mut()) {
            last.unswept = true;
        }
    }

    /// Returns a placeholder for a command of the platform's own, of which nobody gets the details.
    pub(crate) fn nothing_decided(&self, aggregate_type: &'static str) -> Decided {
        let (sequence, changed_at, owner) = (self.ends().events, self.now, Owner::system());
        Decided { aggregate_type, sequence, changed_at, place: Some(owner.clone().into()), owner, is_new: false }
    }

    /// Puts the events of the command into the record, unless they are larger than a record may be.
    pub(crate) fn finish(self, limit: usize) -> Result<(), Refusal> {
        let bytes: usize = self.appended.iter().flat_map(|appended| &appended.events).map(written_bytes).sum();
        if bytes > limit {
            let message =
                format!("the command's events have {bytes} bytes, more than the {limit} that may be committed at once");
            return Err(Error::new(Reason::CommandTooLarge, message).into());
        }
        self.draft.bytes += bytes;
        self.draft.purged_to = self.draft.purged_to.max(self.purged_to);
        // New aggregates come first, before any of them refers to another.
        for appended in self.appended.iter().filter(|appended| appended.is_first()) {
            self.memory.has_no_referrers(&appended.key);
        }
        if self.appended.iter().any(|appended| appended.notes_all) {
            self.memory.forget_counts();
        }
        for appended in self.appended {
            for change in appended.reference_changes() {
                self.memory.change_reference(&change);
            }
            self.memory.cache(appended.key, appended.cached, &appended.events);
            for (claim, holder) in appended.claims {
                self.memory.claims.insert(claim, holder);
            }
            self.draft.events.extend(appended.events);
        }
        Ok(())
    }
}

impl Appended {
    /// Whether nothing was ever written of the aggregate before.
    fn is_first(&self) -> bool {
        self.cached.head.version == self.events.len() as u64
    }

    fn reference_changes(&self) -> impl Iterator<Item = ReferenceChange> {
        self.events.iter().flat_map(|event| reference_changes(&self.key, event))
    }
}

impl Decided {
    fn at<A: Aggregate>(head: &Head, owner: Owner, is_new: bool) -> Self {
        let (sequence, changed_at, place) = (head.sequence, head.changed_at, Some(owner.clone().into()));
        Self { aggregate_type: A::NAME, sequence, changed_at, owner, place, is_new }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("an aggregate is read as another type than it was written")]
struct WrongType;

#[derive(Debug, thiserror::Error)]
#[error("a command of one log writes {0}, which is in the other")]
struct WrongLog(&'static str);

#[cfg(test)]
mod tests;
