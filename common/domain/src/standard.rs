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
    aggregate::Aggregate,
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

/// Everything that differs from one standard resource to the next.
pub trait Resource: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static {
    /// The singular name, for example `target`.
    const NAME: &'static str;
    /// The log that its events are in. Who is named by what is in the one that ages out is not asked for what names it.
    const CLASS: LogClass = LogClass::Events;
    /// The columns of the read model.
    const COLUMNS: &'static [Column<Self>];
    /// The projection that keeps its rows, where anything is read of it.
    const ROWS: Option<Name> = None;
    /// The projection that keeps its search index, where it can be searched.
    const INDEX: Option<Name> = None;
    /// The column with the id of an organization whose readers see it, beside those of the context that it belongs to.
    const ALSO_SEEN_BY: Option<&'static Column<Self>> = None;
    /// The column with its end, in milliseconds since the Unix epoch, where it ends by itself: from then on it is not there.
    const EXPIRES_AT: Option<&'static Column<Self>> = None;
    /// The parts of its context in which roles for it can be held, too.
    const PARTS: &'static [PartOf<Self>] = &[];
    /// The states that it can be in.
    const STATES: States = States::Active;
    /// By which links it names others, beside the context that it belongs to.
    const LINKS: &'static [Link] = &[];
    /// The columns with the ids of others that it goes with, each with the kind of those.
    const STANDS_ON: &'static [(&'static str, &'static Column<Self>)] = &[];
    /// The members with what it gives to others. Whoever has read it before one of them changed reads it again, before anybody is given
    /// what it gave then.
    const GIVES: &'static [&'static str] = &[];
    /// Whether it is removed with the context that it belongs to.
    const GOES_WITH_OWNER: bool = true;
    /// The permissions that are about it.
    const PERMISSIONS: &'static [Permissions] = &[];
    /// The partial update; absent fields stay as they are.
    type Patch: Clone + Send + Sync;

    /// Checks the rules that span fields; what one field may hold is said in the proto.
    fn validate(&self) -> Result<(), Rejection> {
        Ok(())
    }

    /// Applies a partial update.
    fn patched(self, patch: Self::Patch) -> Self;

    /// Where roles must be held for it: the context that it belongs to, unless it is a context itself.
    fn context(_id: &str, owner: &Owner) -> Owner {
        owner.clone()
    }

    /// Whether it is switched on, where [`STATES`](Self::STATES) says that it can be switched off.
    fn activity(&mut self) -> Option<&mut bool> {
        None
    }

    /// The user that it belongs to, and who may do some things to it without a role; most belong to none.
    fn user<'a>(&'a self, _id: &'a str) -> Option<&'a str> {
        None
    }

    /// Whether it is locked, where it can be locked.
    fn lock(&mut self) -> Option<&mut bool> {
        None
    }

    /// As of which sequence of the log its sessions have all ended, where it has sessions.
    fn sessions_end(&mut self) -> Option<&mut Option<u64>> {
        None
    }

    /// Whether others may be given to it that are its own, such as keys.
    ///
    /// # Errors
    /// Where it has none.
    fn may_hold(&self) -> Result<(), Rejection> {
        Ok(())
    }

    /// The object whose own it is, where its path names that before it; most have none.
    fn holder(&self) -> Option<&str> {
        None
    }

    /// The same, held by something in these parts of the context.
    #[must_use]
    fn held_within(self, _parts: &[Part]) -> Self {
        self
    }

    /// Its id, where its path names it below its holder by what is unique there only.
    fn id_below(_holder: &str, id: &str) -> String {
        id.to_owned()
    }

    /// Which others it names, beside the context that it belongs to. Each is by one of its [`LINKS`](Self::LINKS).
    fn references(&self) -> Vec<Reference> {
        vec![]
    }

    /// What is left of it without something that it names and that is removed; `None` where it goes with that.
    fn unlinked(self, _gone: &Reference) -> Option<Self> {
        None
    }

    /// Whether it has ended by itself, at a time in milliseconds since the Unix epoch.
    fn has_expired(&self, now: i64) -> bool {
        Self::EXPIRES_AT.is_some_and(|column| matches!(column.value(self), Value::Integer(end) if end <= now))
    }

    /// The organization whose readers see it, beside those of the context that it belongs to.
    fn also_seen_by(&self) -> Option<Owner> {
        match Self::ALSO_SEEN_BY?.value(self) {
            Value::Text(id) => Some(Owner::organization(id)),
            Value::Integer(_) | Value::Bool(_) => None,
        }
    }

    /// Those of its [`PARTS`](Self::PARTS) that it names.
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

    /// The unique values that the resource holds.
    fn claims(&self) -> Vec<Claim> {
        vec![]
    }
}

/// A part of its context in which roles for a resource can be held.
pub enum PartOf<R: 'static> {
    /// It is that part itself.
    Itself(PartKind),
    /// The column with the id of the part; empty for none.
    Named(PartKind, &'static Column<R>),
}

/// The states that a resource can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum States {
    /// It is always active.
    Active,
    /// It can be switched off and on.
    Switched,
    /// While it is active it can be locked, too, and unlocked again.
    Lockable,
}

/// The patch of a resource that cannot be patched yet. It has no value.
#[derive(Debug, Clone)]
pub enum Unpatchable {}

/// The aggregate of a standard resource.
pub struct Standard<R>(PhantomData<R>);

/// What can be asked of a standard resource.
#[derive(Debug, Clone)]
pub enum Command<R: Resource> {
    /// Create it.
    Create(R),
    /// Change some of its fields.
    Patch(R::Patch),
    /// Create it, or replace what is there.
    Put(R),
    /// Switch it on or off.
    Switch(bool),
    /// Lock or unlock it.
    Lock(bool),
    /// Let somebody act as it, who has asked by the client with this id.
    Impersonate(String),
    /// End all its sessions that were made as of this sequence of the log, or before.
    EndSessions(u64),
    /// Remove it.
    Delete,
    /// Something that it names was removed: go with that, or go on without it.
    Unlink(Reference),
}

/// What can happen to a standard resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[serde(bound(deserialize = "R: Serialize + Deserialize<'de>"))]
pub enum Event<R> {
    /// It was created.
    Added(WithUnknown<R>),
    /// Some of its fields changed.
    Changed {
        /// The resource after the change.
        to: WithUnknown<R>,
        /// The names of the fields that differ.
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
        /// The client that has got the token.
        client_id: String,
    },
    /// All its sessions ended, and what was issued for it.
    SessionsEnded(WithUnknown<R>),
    /// It was removed.
    Removed,
}

impl<R> Event<R> {
    /// The resource after the event, if there is one.
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
            (Some(old), Command::Unlink(gone)) => match old.known.clone().unlinked(&gone) {
                Some(left) => change(old, |_| left),
                None => Ok(vec![Event::Removed]),
            },
        }
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
        state.as_ref().and_then(|resource| resource.known.user(id))
    }

    fn parts(id: &str, state: &Self::State, asked: Option<&Command<R>>) -> Vec<Part> {
        match (state, asked) {
            (Some(resource), _) => resource.known.parts(id),
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
    /// Which others it names: the context that it belongs to, where it goes with that, and what it says itself.
    pub fn names(state: &Option<WithUnknown<R>>, owner: &Owner) -> Vec<Reference> {
        let Some(resource) = state else { return vec![] };
        let owner = if R::GOES_WITH_OWNER { Reference::to_owner(owner) } else { None };
        let mut references: Vec<_> = owner.into_iter().chain(resource.references()).collect();
        let mut seen = HashSet::new();
        references.retain(|reference| seen.insert(reference.clone()));
        references
    }
}

/// Those of its references that a resource goes with: where what they name is removed, so is it.
pub fn goes_with<R: Resource>(resource: &R, mut references: Vec<Reference>) -> Vec<Reference> {
    let mut by_link = HashMap::new();
    // It is the link that says so, and a resource can have hundreds of references by one.
    let mut goes = |reference: &Reference| {
        *by_link.entry(reference.link).or_insert_with(|| resource.clone().unlinked(reference).is_none())
    };
    references.retain(&mut goes);
    references
}

#[cfg(test)]
mod tests;
