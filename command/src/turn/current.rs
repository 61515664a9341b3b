//! An aggregate as a command sees it.

use std::sync::Arc;

use domain::{
    aggregate::Aggregate,
    context::Owner,
    reference::Reference,
    settings::{Properties, Settings},
    standard::{Resource, Standard},
};
use edge::error::Error;
use eventlog::record::{AggregateKey, Recorded, Undecodable, decode};
use jiff::Timestamp;

use super::{memory::Cached, refusal::Refusal};

/// The end of the history of an aggregate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    /// The number of its events.
    pub(crate) version: u64,
    /// The sequence of its last event; 0 when it has none.
    pub(crate) sequence: u64,
    /// When that event was committed.
    pub(crate) changed_at: Timestamp,
    /// When it began to exist.
    pub(crate) created_at: Timestamp,
    /// The context that it belongs to; `None` when it has no event and none was named for it.
    pub(crate) owner: Option<Owner>,
}

/// An aggregate at the end of the log, including what the current record adds.
pub(crate) struct Current<A: Aggregate> {
    /// The key of the aggregate.
    pub(crate) key: AggregateKey,
    /// Its state.
    pub(crate) state: Arc<A::State>,
    /// The end of its history.
    pub(crate) head: Head,
    /// Whether the next event notes all its references, because those before it noted none.
    pub(super) notes_all: bool,
}

impl<A: Aggregate> Current<A> {
    /// An aggregate without any event.
    pub(super) fn absent(key: &AggregateKey) -> Self {
        Self { key: key.clone(), state: Arc::default(), head: Head::default(), notes_all: false }
    }

    /// Sets the context that it belongs to, if it does not exist yet.
    pub(crate) fn owned_by(mut self, owner: &Owner) -> Self {
        self.head.owner.get_or_insert_with(|| owner.clone());
        self
    }

    /// Makes the next event note all its references, because those before it noted none.
    pub(crate) fn noting_all(self) -> Self {
        Self { notes_all: true, ..self }
    }

    /// Returns the context that it belongs to.
    pub(crate) fn owner(&self) -> Result<&Owner, Refusal> {
        self.head.owner.as_ref().ok_or_else(|| Error::internal(&Ownerless).into())
    }
}

impl<P: Properties> Current<Settings<P>> {
    /// Returns what is set, if something ever was.
    pub(crate) fn set(&self) -> Option<Arc<P>> {
        self.state.as_ref().as_ref().map(|set| Arc::new(P::clone(set)))
    }
}

impl<R: Resource> Current<Standard<R>> {
    /// Returns the resource, if there is one.
    pub(crate) fn resource(&self) -> Option<&R> {
        self.state.as_ref().as_ref().map(|state| &**state)
    }
}

/// Returns the key of what a reference names.
pub(crate) fn key_of(instance_id: &str, named: &Reference) -> AggregateKey {
    AggregateKey { instance_id: instance_id.into(), aggregate_type: named.link.to.into(), id: named.id.clone() }
}

/// Folds all events of an aggregate.
pub(super) fn restore<A: Aggregate>(events: &[Arc<Recorded>]) -> Result<Cached, Undecodable> {
    let mut state = A::State::default();
    for recorded in events {
        state = A::evolve(state, &decode::<A>(recorded)?);
    }
    let head = events.last().map_or_else(Head::default, |last| Head {
        version: last.event.version,
        sequence: last.sequence,
        changed_at: last.committed_at,
        created_at: last.created_at(),
        owner: Some(last.owner()),
    });
    Ok(Cached { state: Arc::new(state), head })
}

#[derive(Debug, thiserror::Error)]
#[error("an aggregate is written for the first time without an owner")]
struct Ownerless;
