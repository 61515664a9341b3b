//! The contract between the core and the shell.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    claim::Claim,
    context::{Owner, Part},
    log_class::LogClass,
    reference::Reference,
    rejection::Rejection,
};

/// A consistency boundary: commands are decided against its state, events change its state.
pub trait Aggregate: 'static {
    /// Names the aggregate in keys, tables and event types, for example `target`.
    const NAME: &'static str;
    /// The shape of the payloads that this build writes, counted from 1.
    const REVISION: u32 = 1;

    /// The names of its events, for example `added` of `target.added`.
    const EVENTS: &'static [&'static str];

    /// The log that its events are in. Aggregates of the log that ages out take no claims and name no references.
    const CLASS: LogClass = LogClass::Events;

    /// Whether the aggregate exists without having been created, at sequence 0 before its first event.
    const ALWAYS_EXISTS: bool = false;

    /// The state that the events so far result in.
    type State: Default + Clone + Send + Sync;
    /// An intention that can be refused. It is cloned because a command may be decided more than once.
    type Command: Clone + Send + Sync;
    /// A fact that cannot be refused.
    type Event: Serialize + DeserializeOwned + Clone + Debug + Send;

    /// Answers a command with the events it causes; no event means nothing changed.
    fn decide(state: &Self::State, command: Self::Command) -> Result<Vec<Self::Event>, Rejection>;

    /// Applies one event. Total: it never fails, because the event has already happened.
    fn evolve(state: Self::State, event: &Self::Event) -> Self::State;

    /// Whether the event alone determines the state after it, so that neither loader nor projection needs an earlier
    /// one.
    fn restores(event: &Self::Event) -> bool;

    /// Brings the payload of an event of an earlier revision to the shape of the next one. This is the one place that
    /// knows earlier shapes.
    fn upcast(_revision: u32, _event: &str, payload: Value) -> Value {
        payload
    }

    /// Whether an object exists in this state; an aggregate that begins to exist again is created anew.
    fn exists(_state: &Self::State) -> bool {
        true
    }

    /// Returns the context in which roles for the aggregate must be held: its owner, unless it is a context itself.
    fn context(_id: &str, owner: &Owner) -> Owner {
        owner.clone()
    }

    /// Returns the parts of that context in which roles for the aggregate can be held, too; before it is created, the
    /// parts that the command names.
    fn parts(_id: &str, _state: &Self::State, _asked: Option<&Self::Command>) -> Vec<Part> {
        vec![]
    }

    /// Returns the user that the aggregate belongs to, who may do some things to it without a role; most belong to
    /// none.
    fn user<'a>(_id: &'a str, _state: &'a Self::State) -> Option<&'a str> {
        None
    }

    /// The unique values that an aggregate in this state holds. What a command takes and releases is the
    /// difference between the claims before and after.
    fn claims(_state: &Self::State) -> Vec<Claim> {
        vec![]
    }

    /// Returns the references of an aggregate in this state; what a command takes and releases is the difference, as
    /// with claims.
    fn references(_state: &Self::State, _owner: &Owner) -> Vec<Reference> {
        vec![]
    }
}

/// Brings the state in the payload of an event of a resource, or of settings, to the shape of the next revision.
pub(crate) fn with_state(event: &str, mut payload: Value, upcast: impl FnOnce(Value) -> Value) -> Value {
    match event {
        "removed" => payload,
        "changed" | "impersonated" => {
            if let Some(to) = payload.get_mut("to") {
                *to = upcast(to.take());
            }
            payload
        }
        _ => upcast(payload),
    }
}

/// Folds a history into the current state.
pub fn replay<'a, A: Aggregate>(events: impl IntoIterator<Item = &'a A::Event>) -> A::State
where
    A::Event: 'a,
{
    events.into_iter().fold(A::State::default(), A::evolve)
}

/// Names the fields in which two versions of a state differ.
pub fn changed_fields<T: Serialize>(old: &T, new: &T) -> Vec<String> {
    let (old, new) = (fields(old), fields(new));
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    names.filter(|name| old.get(*name) != new.get(*name)).cloned().collect()
}

fn fields<T: Serialize>(state: &T) -> Map<String, Value> {
    match serde_json::to_value(state) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}
