//! The settings shape: no identity, every property set, reset or inherited.

use std::{fmt::Debug, marker::PhantomData};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    aggregate::{Aggregate, changed_fields},
    rejection::Rejection,
    with_unknown::WithUnknown,
};

/// A write to one property.
#[derive(Debug, Clone)]
pub enum Set<T> {
    /// Take this value in this context.
    To(T),
    /// Fall back to the parent's value.
    Reset,
}

impl<T> Set<T> {
    /// The property after the write, where `None` means inherited.
    pub fn over(change: Option<Self>, current: Option<T>) -> Option<T> {
        match change {
            None => current,
            Some(Self::To(value)) => Some(value),
            Some(Self::Reset) => None,
        }
    }
}

/// The properties of one settings service; `None` means inherited.
pub trait Properties: Serialize + DeserializeOwned + Clone + Default + Debug + Send + Sync + 'static {
    /// The name, for example `language_settings`.
    const NAME: &'static str;
    /// The writes of one request.
    type Change: Clone + Send + Sync;

    /// Checks the rules that span properties.
    fn validate(&self) -> Result<(), Rejection>;
    /// Applies the writes.
    fn changed(self, change: Self::Change) -> Self;
}

/// The aggregate of a settings service in one context. Its id is the id of that context.
pub struct Settings<P>(PhantomData<P>);

/// What can happen to settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event<P> {
    /// Properties were set or reset.
    Changed {
        /// The settings after the change.
        to: WithUnknown<P>,
        /// The names of the properties that differ.
        fields: Vec<String>,
    },
}

impl<P: Properties> Aggregate for Settings<P> {
    const NAME: &'static str = P::NAME;
    const EVENTS: &'static [&'static str] = &["changed"];
    type State = WithUnknown<P>;
    type Command = P::Change;
    type Event = Event<P>;

    fn decide(state: &WithUnknown<P>, change: P::Change) -> Result<Vec<Event<P>>, Rejection> {
        let to = state.clone().map(|properties| properties.changed(change));
        to.validate()?;
        let fields = changed_fields(&state.known, &to.known);
        Ok(if fields.is_empty() { vec![] } else { vec![Event::Changed { to, fields }] })
    }

    fn evolve(_: WithUnknown<P>, event: &Event<P>) -> WithUnknown<P> {
        let Event::Changed { to, .. } = event;
        to.clone()
    }

    fn restores(_: &Event<P>) -> bool {
        true
    }
}

/// The nearest value on the way from a context to the system, with the index of its owner.
pub fn resolve<'a, P, T>(chain: &'a [P], property: fn(&'a P) -> Option<&'a T>) -> Option<(usize, &'a T)> {
    chain.iter().enumerate().find_map(|(depth, settings)| property(settings).map(|value| (depth, value)))
}
