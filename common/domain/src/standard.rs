//! The standard shape: create, patch, put, delete.

mod change;

use std::{
    collections::{HashMap, HashSet},
    fmt::Debug,
    marker::PhantomData,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use self::change::{change, end_sessions, impersonate, lock, switch};
use crate::{
    aggregate::{Aggregate, with_state},
    claim::Claim,
    column::{Column, Value},
    context::{Owner, Part, PartKind},
    log_class::LogClass,
    permission::Permissions,
    projection::Name,
    reference::{Link, Reference},
    rejection::Rejection,
    with_unknown::WithUnknown,
};

/// A standard resource: everything that differs from one to the next.
pub trait Resource: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static {
    /// The singular name, for example `target`.
    const NAME: &'static str;
    /// The log that its events are in. References from the log that ages out are not found when what they name is
    /// removed.
    const CLASS: LogClass = LogClass::Events;
    /// The shape of its states that this build writes, counted from 1.
    const REVISION: u32 = 1;
    /// The columns of the read model.
    const COLUMNS: &'static [Column<Self>];
    /// The projection of its rows, if it can be read.
    const ROWS: Option<Name> = None;
    /// The projection of its search index, if it can be searched.
    const INDEX: Option<Name> = None;
    /// The column with the id of an organization whose readers see it, in addition to those of its own context.
    const ALSO_SEEN_BY: Option<&'static Column<Self>> = None;
    /// The column with its expiry, in milliseconds since the Unix epoch, if it expires: from then on it does not exist.
    const EXPIRES_AT: Option<&'static Column<Self>> = None;
    /// The parts of its context in which roles for it can be held, too.
    const PARTS: &'static [PartOf<Self>] = &[];
    /// The states that it can have.
    const STATES: States = States::Active;
    /// The links by which it names other objects, in addition to the context that it belongs to.
    const LINKS: &'static [Link] = &[];
    /// The columns with the ids of objects with which it is removed, each with the kind of those.
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[];
    /// The members that give something to others. Readers that have cached it from before one of them changed read it
    /// again before anything is given by it.
    const GIVES: &'static [&'static str] = &[];
    /// How many of them may belong to one instance or organization, unless an operator says otherwise: for what nodes keep
    /// in memory as a whole.
    const LIMIT: Option<u64> = None;
    /// Whether it is removed with its context.
    const GOES_WITH_OWNER: bool = true;
    /// The permissions about it.
    const PERMISSIONS: &'static [Permissions] = &[];
    /// The partial update; absent fields stay as they are.
    type Patch: Clone + Send + Sync;

    /// Checks the rules that span fields; rules on single fields are stated in the proto.
    fn validate(&self) -> Result<(), Rejection> {
        Ok(())
    }

    /// Brings a state of an earlier revision to the shape of the next one. Two things stay as they were written: the
    /// names of the fields of a change, and what is read without being understood, such as sealed personal data.
    fn upcast(_revision: u32, state: serde_json::Value) -> serde_json::Value {
        state
    }

    /// Applies a partial update.
    fn patched(self, patch: Self::Patch) -> Self;

    /// Returns the context in which roles for it must be held: its owner, unless it is a context itself.
    fn context(_id: &str, owner: &Owner) -> Owner {
        owner.clone()
    }

    /// Returns whether it is switched on, if [`STATES`](Self::STATES) permits to switch it off.
    fn activity(&mut self) -> Option<&mut bool> {
        None
    }

    /// Returns the user that it belongs to, who may do some things to it without a role; most belong to none.
    fn user<'a>(&'a self, _id: &'a str) -> Option<&'a str> {
        None
    }

    /// Returns whether it is locked, if it can be locked.
    fn lock(&mut self) -> Option<&mut bool> {
        None
    }

    /// Returns the sequence of the log as of which its sessions have all ended, if it has sessions.
    fn sessions_end(&mut self) -> Option<&mut Option<u64>> {
        None
    }

    /// Checks that it may hold other objects of its own, such as keys.
    ///
    /// # Errors
    /// If it may not.
    fn may_hold(&self) -> Result<(), Rejection> {
        Ok(())
    }

    /// Returns its holder, if its path names one before it; most have none.
    fn holder(&self) -> Option<&str> {
        None
    }

    /// Returns the resource, held by an object in these parts of the context.
    #[must_use]
    fn with_holder_parts(self, _parts: &[Part]) -> Self {
        self
    }

    /// Returns its id, for resources whose path names them below a holder by what is unique there only.
    fn id_below(_holder: &str, id: &str) -> String {
        id.to_owned()
    }

    /// Returns the other objects that it names, each by one of its [`LINKS`](Self::LINKS); its context is not among
    /// them.
    fn references(&self) -> Vec<Reference> {
        vec![]
    }

    /// Returns the resource without an object that it named and that was removed; `None` if it is removed with that.
    fn unlinked(self, _gone: &Reference) -> Option<Self> {
        None
    }

    /// Whether it has expired, at a time in milliseconds since the Unix epoch.
    fn has_expired(&self, now: i64) -> bool {
        Self::EXPIRES_AT.is_some_and(|column| matches!(column.value(self), Value::Integer(end) if end <= now))
    }

    /// Returns the organization whose readers see it, in addition to those of its own context.
    fn also_seen_by(&self) -> Option<Owner> {
        match Self::ALSO_SEEN_BY?.value(self) {
            Value::Text(id) => Some(Owner::organization(id)),
            Value::Integer(_) | Value::Bool(_) => None,
        }
    }

    /// Returns the parts that it is in, of the kinds in [`PARTS`](Self::PARTS).
    fn parts(&self, id: &str) -> Vec<Part> {
        let part = |of: &PartOf<Self>| match of {
            PartOf::Itself(kind) => Some(Part { kind: *kind, id: id.to_owned() }),
            PartOf::Named(kind, column) => match column.value(self) {
                Value::Text(id) => Some(Part { kind: *kind, id }),
                Value::Integer(_) | Value::Bool(_) => None,
            },
        };
        Self::PARTS.iter().filter_map(part).filter(|part| !part.id.is_empty()).collect()
    }

    /// Returns the unique values that it holds.
    fn claims(&self) -> Vec<Claim> {
        vec![]
    }
}

/// A part of its context in which roles for a resource can be held.
pub enum PartOf<R: 'static> {
    /// The resource itself is the part.
    Itself(PartKind),
    /// The column with the id of the part; empty for none.
    Named(PartKind, &'static Column<R>),
}

/// The states that a resource can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum States {
    /// Always active.
    Active,
    /// Active or switched off.
    Switched,
    /// Active, switched off, or locked; only an active one can be locked.
    Lockable,
}

/// The patch of a resource that cannot be patched. It has no value.
#[derive(Debug, Clone)]
pub enum Unpatchable {}

/// The aggregate of a standard resource.
pub struct Standard<R>(PhantomData<R>);

/// The commands on a standard resource.
#[derive(Debug, Clone)]
pub enum Command<R: Resource> {
    /// Creates it.
    Create(R),
    /// Changes some of its fields.
    Patch(R::Patch),
    /// Creates it, or replaces it if it exists.
    Put(R),
    /// Switches it on or off.
    Switch(bool),
    /// Locks or unlocks it.
    Lock(bool),
    /// Lets somebody act as it, who has asked by the client with this id.
    Impersonate(String),
    /// Ends all its sessions that were checked as of this sequence of the log, or an earlier one.
    EndSessions(u64),
    /// Removes it.
    Delete,
    /// Removes it, or a reference from it, because an object that it named was removed.
    Unlink(Reference),
}

/// The events of a standard resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[serde(bound(deserialize = "R: Serialize + DeserializeOwned"))]
pub enum Event<R> {
    /// It was created.
    Added(WithUnknown<R>),
    /// Some of its fields changed.
    Changed {
        /// The resource after the change.
        to: WithUnknown<R>,
        /// The names of the fields that changed.
        fields: Vec<String>,
    },
    /// It was switched off.
    Deactivated(WithUnknown<R>),
    /// It was switched on again.
    Reactivated(WithUnknown<R>),
    /// It was locked.
    Locked(WithUnknown<R>),
    /// It was unlocked.
    Unlocked(WithUnknown<R>),
    /// Somebody else got a token with which to act as it. It did not change.
    Impersonated {
        /// The resource.
        to: WithUnknown<R>,
        /// The client that got the token.
        client_id: String,
    },
    /// All its sessions were ended, with what was issued in them.
    SessionsEnded(WithUnknown<R>),
    /// It was removed.
    Removed,
}

impl<R> Event<R> {
    /// Returns the resource after the event, if it exists.
    pub fn into_state(self) -> Option<WithUnknown<R>> {
        match self {
            Self::Added(to)
            | Self::Changed { to, .. }
            | Self::Deactivated(to)
            | Self::Reactivated(to)
            | Self::Locked(to)
            | Self::Unlocked(to)
            | Self::SessionsEnded(to)
            | Self::Impersonated { to, .. } => Some(to),
            Self::Removed => None,
        }
    }
}

impl<R: Resource> Aggregate for Standard<R> {
    const NAME: &'static str = R::NAME;
    const REVISION: u32 = R::REVISION;
    const CLASS: LogClass = R::CLASS;
    const EVENTS: &'static [&'static str] = match R::STATES {
        States::Active => &["added", "changed", "removed"],
        States::Switched => &["added", "changed", "deactivated", "reactivated", "removed"],
        States::Lockable => &[
            "added",
            "changed",
            "deactivated",
            "reactivated",
            "locked",
            "unlocked",
            "impersonated",
            "sessions_ended",
            "removed",
        ],
    };
    type State = Option<WithUnknown<R>>;
    type Command = Command<R>;
    type Event = Event<R>;

    fn decide(state: &Self::State, command: Command<R>) -> Result<Vec<Event<R>>, Rejection> {
        match (state, command) {
            (None, Command::Create(new) | Command::Put(new)) => {
                new.validate()?;
                Ok(vec![Event::Added(new.into())])
            }
            (Some(_), Command::Create(_)) => Err(Rejection::AlreadyExists(R::NAME)),
            (
                None,
                Command::Patch(_)
                | Command::Switch(_)
                | Command::Lock(_)
                | Command::Impersonate(_)
                | Command::EndSessions(_)
                | Command::Delete,
            ) => Err(Rejection::NotFound(R::NAME)),
            (Some(old), Command::Patch(patch)) => change(old, |old| old.patched(patch)),
            (Some(old), Command::Put(new)) => change(old, |_| new),
            (Some(old), Command::Switch(on)) => switch(old, on),
            (Some(old), Command::Lock(on)) => lock(old, on),
            (Some(old), Command::Impersonate(client_id)) => impersonate(old, client_id),
            (Some(old), Command::EndSessions(seen)) => end_sessions(old, seen),
            (Some(_), Command::Delete) => Ok(vec![Event::Removed]),
            (None, Command::Unlink(_)) => Ok(vec![]),
            (Some(old), Command::Unlink(gone)) => match R::clone(old).unlinked(&gone) {
                Some(left) => change(old, |_| left),
                None => Ok(vec![Event::Removed]),
            },
        }
    }

    fn upcast(revision: u32, event: &str, payload: serde_json::Value) -> serde_json::Value {
        with_state(event, payload, |state| R::upcast(revision, state))
    }

    fn evolve(_: Self::State, event: &Event<R>) -> Self::State {
        event.clone().into_state()
    }

    fn restores(_: &Event<R>) -> bool {
        true
    }

    fn exists(state: &Self::State) -> bool {
        state.is_some()
    }

    fn context(id: &str, owner: &Owner) -> Owner {
        R::context(id, owner)
    }

    fn user<'a>(id: &'a str, state: &'a Self::State) -> Option<&'a str> {
        state.as_ref().and_then(|resource| resource.user(id))
    }

    fn parts(id: &str, state: &Self::State, asked: Option<&Command<R>>) -> Vec<Part> {
        match (state, asked) {
            (Some(resource), _) => resource.parts(id),
            (None, Some(Command::Create(new) | Command::Put(new))) => new.parts(id),
            (None, _) => vec![],
        }
    }

    fn claims(state: &Self::State) -> Vec<Claim> {
        state.as_ref().map(|resource| resource.claims()).unwrap_or_default()
    }

    fn references(state: &Self::State, owner: &Owner) -> Vec<Reference> {
        match R::CLASS {
            LogClass::Events => Self::names(state, owner),
            LogClass::Sessions => vec![],
        }
    }
}

impl<R: Resource> Standard<R> {
    /// Returns the references of a resource: to its context, if it is removed with that, and those of its own.
    pub fn names(state: &Option<WithUnknown<R>>, owner: &Owner) -> Vec<Reference> {
        let Some(resource) = state else { return vec![] };
        let owner = if R::GOES_WITH_OWNER { Reference::to_owner(owner) } else { None };
        let mut references: Vec<_> = owner.into_iter().chain(resource.references()).collect();
        let mut seen = HashSet::new();
        references.retain(|reference| seen.insert(reference.clone()));
        references
    }
}

/// Returns the references with which a resource is removed: when what they name is removed, so is the resource.
pub fn goes_with<R: Resource>(resource: &R, mut references: Vec<Reference>) -> Vec<Reference> {
    let mut by_link = HashMap::new();
    // The answer depends on the link alone, and a resource can have hundreds of references by one.
    let mut goes = |reference: &Reference| {
        *by_link.entry(reference.link).or_insert_with(|| resource.clone().unlinked(reference).is_none())
    };
    references.retain(&mut goes);
    references
}

#[cfg(test)]
mod tests;
