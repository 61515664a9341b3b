//! The standard shape: create, patch, put, delete.

use std::{fmt::Debug, marker::PhantomData};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    aggregate::{Aggregate, changed_fields},
    claim::Claim,
    column::Column,
    context::Owner,
    rejection::Rejection,
    resource::execution::without::Without,
    with_unknown::WithUnknown,
};

/// Everything that differs from one standard resource to the next.
pub trait Resource: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static {
    /// The singular name, for example `target`.
    const NAME: &'static str;
    /// The columns of the read model.
    const COLUMNS: &'static [Column<Self>];
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

    /// Whether it is switched on, where it can be switched off.
    fn activity(&mut self) -> Option<&mut bool> {
        None
    }

    /// What is taken out of every execution when the resource of this id is removed.
    fn taken_out(_id: &str) -> Option<Without> {
        None
    }

    /// The unique values that the resource holds.
    fn claims(&self) -> Vec<Claim> {
        vec![]
    }
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
    /// Remove it.
    Delete,
}

/// What can happen to a standard resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
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
    /// It was removed.
    Removed,
}

impl<R: Resource> Aggregate for Standard<R> {
    const NAME: &'static str = R::NAME;
    const EVENTS: &'static [&'static str] = &["added", "changed", "removed"];
    type State = Option<WithUnknown<R>>;
    type Command = Command<R>;
    type Event = Event<R>;

    fn decide(state: &Self::State, command: Command<R>) -> Result<Vec<Event<R>>, Rejection> {
        match (state, command) {
            (None, Command::Create(new) | Command::Put(new)) => {
                new.validate()?;
                Ok(vec![Event::Added(as_created(new))])
            }
            (Some(_), Command::Create(_)) => Err(Rejection::AlreadyExists(R::NAME)),
            (None, Command::Patch(_) | Command::Switch(_) | Command::Delete) => Err(Rejection::NotFound(R::NAME)),
            (Some(old), Command::Patch(patch)) => change(old, |old| old.patched(patch)),
            (Some(old), Command::Put(new)) => change(old, |_| new),
            (Some(old), Command::Switch(on)) => switch(old, on),
            (Some(_), Command::Delete) => Ok(vec![Event::Removed]),
        }
    }

    fn evolve(_: Self::State, event: &Event<R>) -> Self::State {
        match event {
            Event::Added(to) | Event::Changed { to, .. } => Some(to.clone()),
            Event::Removed => None,
        }
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

    fn claims(state: &Self::State) -> Vec<Claim> {
        state.as_ref().map(|resource| resource.claims()).unwrap_or_default()
    }
}

fn change<R: Resource>(old: &WithUnknown<R>, change: impl FnOnce(R) -> R) -> Result<Vec<Event<R>>, Rejection> {
    let to = old.clone().map(change);
    to.validate()?;
    let fields = changed_fields(&old.known, &to.known);
    Ok(if fields.is_empty() { vec![] } else { vec![Event::Changed { to, fields }] })
}

/// Unlike a patch without change, switching off what is off is a mistake of the caller.
fn switch<R: Resource>(old: &WithUnknown<R>, on: bool) -> Result<Vec<Event<R>>, Rejection> {
    let mut to = old.clone();
    match to.known.activity() {
        Some(is_active) if *is_active != on => *is_active = on,
        Some(_) => {
            return Err(Rejection::Precondition(if on { "it is active already" } else { "it is inactive already" }));
        }
        None => return Err(Rejection::Precondition("it cannot be switched off")),
    }
    let fields = changed_fields(&old.known, &to.known);
    Ok(vec![Event::Changed { to, fields }])
}

#[cfg(not(feature = "next"))]
fn as_created<R>(resource: R) -> WithUnknown<R> {
    resource.into()
}

/// The next version's resources have a member more, which nodes of this version shall not lose.
#[cfg(feature = "next")]
fn as_created<R>(resource: R) -> WithUnknown<R> {
    let unknown = [("of_the_next_version".to_owned(), serde_json::json!({ "kept": true }))];
    WithUnknown { known: resource, unknown: unknown.into_iter().collect() }
}
