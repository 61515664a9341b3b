//! The settings shape: no identity, every property set, reset or inherited.

use std::{fmt::Debug, marker::PhantomData};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    aggregate::{Aggregate, changed_fields},
    projection::Name,
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
    /// The projection that keeps its rows.
    const ROWS: Name;
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
#[serde(bound(deserialize = "P: Serialize + Deserialize<'de>"))]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::features::{Features, FeaturesChange};

    #[test]
    fn an_event_alone_gives_the_settings_and_they_always_exist() {
        let to: WithUnknown<Features> = Features { oidc_token_exchange: Some(true), ..Features::default() }.into();
        let changed = Event::Changed { to: to.clone(), fields: vec!["oidc_token_exchange".to_owned()] };
        assert!(Settings::<Features>::restores(&changed));
        assert_eq!(Settings::<Features>::evolve(WithUnknown::default(), &changed), to);
        assert!(Settings::<Features>::exists(&WithUnknown::default()));
        assert_eq!(Settings::<Features>::claims(&to), []);
    }

    #[test]
    fn a_write_keeps_what_this_build_does_not_know() {
        let newer = serde_json::json!({ "oidc_token_exchange": true, "of_the_next_version": 1 });
        let newer: WithUnknown<Features> = serde_json::from_value(newer).unwrap();
        let off = FeaturesChange { oidc_token_exchange: Some(Set::Reset), ..FeaturesChange::default() };
        let events = Settings::<Features>::decide(&newer, off).unwrap();
        let [Event::Changed { to, fields }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((to.oidc_token_exchange, &to.unknown), (None, &newer.unknown));
        assert_eq!(fields, &["oidc_token_exchange"]);
    }

    #[test]
    fn the_nearest_context_that_sets_a_property_gives_it() {
        let set = |oidc_token_exchange| Features { oidc_token_exchange, ..Features::default() };
        let chain = [set(None), set(Some(false)), set(Some(true))];
        assert_eq!(resolve(&chain, |settings| settings.oidc_token_exchange.as_ref()), Some((1, &false)));
        assert_eq!(resolve(&chain, |settings| settings.multitenancy_settings.as_ref()), None);
    }
}
