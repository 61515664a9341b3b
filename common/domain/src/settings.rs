//! The settings shape: no identity, every property set, reset or inherited.

use std::{collections::BTreeMap, fmt::Debug, marker::PhantomData, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    aggregate::{Aggregate, changed_fields, with_state},
    context::{Owner, OwnerType},
    permission::Permissions,
    projection::{Name, SETTINGS},
    reference::Reference,
    rejection::Rejection,
    with_unknown::WithUnknown,
};

/// A write to one property.
#[derive(Debug, Clone)]
pub enum Set<T> {
    /// Sets this value in this context.
    To(T),
    /// Falls back to the parent's value.
    Reset,
}

impl<T> Set<T> {
    /// Returns the property after the write, where `None` means inherited.
    pub fn over(change: Option<Self>, current: Option<T>) -> Option<T> {
        match change {
            None => current,
            Some(Self::To(value)) => Some(value),
            Some(Self::Reset) => None,
        }
    }
}

/// Values by name, each of which is set and inherited on its own.
pub type Entries = BTreeMap<String, String>;

/// The writes to such values, by name.
pub type EntryChanges = BTreeMap<String, Set<String>>;

/// Returns the values after the writes.
pub fn entries_over(changes: EntryChanges, mut current: Entries) -> Entries {
    for (name, change) in changes {
        match change {
            Set::To(value) => drop(current.insert(name, value)),
            Set::Reset => drop(current.remove(&name)),
        }
    }
    current
}

/// A span of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Milliseconds(pub u64);

impl Milliseconds {
    /// Creates a span of this many minutes.
    pub const fn minutes(minutes: u64) -> Self {
        Self(minutes * 60_000)
    }

    /// Creates a span of this many hours.
    pub const fn hours(hours: u64) -> Self {
        Self::minutes(hours * 60)
    }

    /// Creates a span of this many days of 24 hours.
    pub const fn days(days: u64) -> Self {
        Self::hours(days * 24)
    }

    /// Returns the number of complete seconds.
    pub const fn whole_seconds(self) -> u64 {
        self.0 / 1000
    }
}

/// The properties of one settings service; `None` means inherited.
pub trait Properties: Serialize + DeserializeOwned + Clone + Default + Debug + Send + Sync + 'static {
    /// The name, for example `language_settings`.
    const NAME: &'static str;
    /// The shape of its states that this build writes, counted from 1.
    const REVISION: u32 = 1;
    /// The levels of the contexts that have such settings.
    const LEVELS: &'static [OwnerType] = &[OwnerType::System, OwnerType::Instance, OwnerType::Organization];
    /// The projection of its rows.
    const ROWS: Name = SETTINGS;
    /// The permissions that are about this service alone.
    const PERMISSIONS: &'static [Permissions] = &[];
    /// The writes of one request.
    type Change: Clone + Debug + Send + Sync + 'static;

    /// Returns the values that apply where no context sets any.
    fn defaults() -> &'static Self;

    /// Checks the values of properties, each on its own.
    ///
    /// # Errors
    /// All properties that break their rules.
    fn check(_change: &Self::Change) -> Result<(), Rejection> {
        Ok(())
    }

    /// Brings a state of an earlier revision to the shape of the next one. The names of the fields of a change stay as
    /// they were written.
    fn upcast(_revision: u32, state: Value) -> Value {
        state
    }

    /// Applies the writes.
    fn changed(self, change: Self::Change) -> Self;

    /// Checks the rules that span properties, on what would apply in the context after a change.
    fn validate(_after: &Chain<Self>) -> Result<(), Rejection> {
        Ok(())
    }
}

/// What is set in a context and in those above it.
#[derive(Debug, Clone)]
pub struct Chain<P> {
    /// The settings of the context itself.
    pub own: Option<Arc<P>>,
    /// The settings of the contexts above, the nearest first and the system last; none above the system.
    pub above: Vec<(Owner, Option<Arc<P>>)>,
}

/// The effective value of a property in a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved<'a, T> {
    /// The value.
    pub value: &'a T,
    /// The context that it is inherited from; `None` if it is set in the context itself.
    pub owner: Option<&'a Owner>,
}

impl<P: Properties> Chain<P> {
    /// Returns the property as set by the nearest context, or else its default, which it must have.
    pub fn resolve<'a, T: 'static>(&'a self, property: fn(&'a P) -> Option<&'a T>) -> Resolved<'a, T> {
        self.find(property).expect("the property has a default")
    }

    /// Like [`Chain::resolve`], for a property without a default: `None` if no context sets it.
    pub fn find<'a, T: 'static>(&'a self, property: fn(&'a P) -> Option<&'a T>) -> Option<Resolved<'a, T>> {
        self.values(property).next()
    }

    /// Returns every named value as set by the nearest context.
    pub fn entries<'a>(&'a self, property: fn(&'a P) -> &'a Entries) -> BTreeMap<&'a str, Resolved<'a, String>> {
        let own = (None, self.own.as_deref());
        let above = self.above.iter().map(|(owner, settings)| (Some(owner), settings.as_deref()));
        let mut found = BTreeMap::new();
        for (owner, settings) in std::iter::once(own).chain(above) {
            for (name, value) in settings.map(property).into_iter().flatten() {
                found.entry(name.as_str()).or_insert(Resolved { value, owner });
            }
        }
        found
    }

    /// Returns the value of a property in each context that sets it, the nearest first; the last is the default, which
    /// is the system's.
    pub fn values<'a, T: 'static>(
        &'a self,
        property: fn(&'a P) -> Option<&'a T>,
    ) -> impl Iterator<Item = Resolved<'a, T>> {
        let own = (None, self.own.as_deref());
        let above = self.above.iter().map(|(owner, settings)| (Some(owner), settings.as_deref()));
        let default = (self.above.last().map(|(system, _)| system), Some(P::defaults()));
        let all = std::iter::once(own).chain(above).chain(std::iter::once(default));
        all.filter_map(move |(owner, settings)| Some(Resolved { value: property(settings?)?, owner }))
    }
}

/// The aggregate of a settings service in one context. Its id is the id of that context.
pub struct Settings<P>(PhantomData<P>);

/// The commands on settings.
#[derive(Debug, Clone)]
pub enum Command<P: Properties> {
    /// Sets and resets properties.
    Change {
        /// The writes.
        change: P::Change,
        /// The settings of the contexts above, as in [`Chain::above`].
        above: Vec<(Owner, Option<Arc<P>>)>,
    },
    /// Removes the settings because their context was removed.
    Remove,
}

/// The events of settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
#[serde(bound(deserialize = "P: Serialize + DeserializeOwned"))]
pub enum Event<P> {
    /// Properties were set or reset.
    Changed {
        /// The settings after the change.
        to: WithUnknown<P>,
        /// The names of the properties that changed.
        fields: Vec<String>,
    },
    /// The settings were removed with their context.
    Removed,
}

impl<P> Event<P> {
    /// Returns the settings after the event, if there are any.
    pub fn into_state(self) -> Option<WithUnknown<P>> {
        match self {
            Self::Changed { to, .. } => Some(to),
            Self::Removed => None,
        }
    }
}

impl<P: Properties> Aggregate for Settings<P> {
    const NAME: &'static str = P::NAME;
    const REVISION: u32 = P::REVISION;
    const EVENTS: &'static [&'static str] = &["changed", "removed"];
    const ALWAYS_EXISTS: bool = true;
    /// `None` before the first property is set.
    type State = Option<WithUnknown<P>>;
    type Command = Command<P>;
    type Event = Event<P>;

    fn decide(state: &Option<WithUnknown<P>>, command: Command<P>) -> Result<Vec<Event<P>>, Rejection> {
        let Command::Change { change, above } = command else {
            return Ok(state.iter().map(|_| Event::Removed).collect());
        };
        P::check(&change)?;
        let before = state.clone().unwrap_or_else(|| P::default().into());
        let to = before.clone().map(|properties| properties.changed(change));
        let fields = changed_fields::<P>(&before, &to);
        if fields.is_empty() {
            return Ok(vec![]);
        }
        P::validate(&Chain { own: Some(Arc::new(P::clone(&to))), above })?;
        Ok(vec![Event::Changed { to, fields }])
    }

    fn upcast(revision: u32, event: &str, payload: Value) -> Value {
        with_state(event, payload, |state| P::upcast(revision, state))
    }

    fn evolve(_: Option<WithUnknown<P>>, event: &Event<P>) -> Option<WithUnknown<P>> {
        event.clone().into_state()
    }

    fn restores(_: &Event<P>) -> bool {
        true
    }

    fn references(state: &Option<WithUnknown<P>>, owner: &Owner) -> Vec<Reference> {
        state.iter().filter_map(|_| Reference::to_owner(owner)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        reference::Link,
        setting::features::{Features, FeaturesChange},
        testing::given,
    };

    fn of(oidc_token_exchange: Option<bool>) -> Features {
        Features { oidc_token_exchange, ..Features::default() }
    }

    fn set(change: Option<Set<bool>>) -> Command<Features> {
        let change = FeaturesChange { oidc_token_exchange: change, ..FeaturesChange::default() };
        Command::Change { change, above: vec![] }
    }

    fn changed(to: Option<bool>) -> Event<Features> {
        Event::Changed { to: of(to).into(), fields: vec!["oidc_token_exchange".into()] }
    }

    #[test]
    fn a_span_of_time_has_as_many_milliseconds_as_its_unit() {
        for (span, milliseconds) in [
            (Milliseconds::minutes(1), 60_000),
            (Milliseconds::minutes(5), 300_000),
            (Milliseconds::hours(1), 3_600_000),
            (Milliseconds::hours(5), 18_000_000),
            (Milliseconds::days(1), 86_400_000),
            (Milliseconds::days(90), 7_776_000_000),
        ] {
            assert_eq!(span, Milliseconds(milliseconds));
        }
    }

    #[test]
    fn a_second_that_is_not_complete_does_not_count() {
        for (milliseconds, seconds) in [(0, 0), (999, 0), (1000, 1), (1999, 1), (60_000, 60)] {
            assert_eq!(Milliseconds(milliseconds).whole_seconds(), seconds, "{milliseconds}");
        }
    }

    #[test]
    fn an_event_alone_gives_the_settings() {
        for (event, state) in [(changed(Some(true)), Some(of(Some(true)).into())), (Event::Removed, None)] {
            assert!(Settings::<Features>::restores(&event));
            let before = Some(WithUnknown::from(of(Some(false))));
            assert_eq!(Settings::<Features>::evolve(before, &event), state);
        }
        assert_eq!(Settings::<Features>::claims(&None), []);
    }

    #[test]
    fn what_changes_nothing_is_no_event() {
        given::<Settings<Features>>([]).when(set(None)).then([]);
        given::<Settings<Features>>([]).when(set(Some(Set::Reset))).then([]);
        given::<Settings<Features>>([changed(Some(true))]).when(set(Some(Set::To(true)))).then([]);
        given::<Settings<Features>>([changed(None)]).when(set(Some(Set::Reset))).then([]);
    }

    #[test]
    fn a_property_is_set_and_reset() {
        given::<Settings<Features>>([]).when(set(Some(Set::To(false)))).then([changed(Some(false))]);
        given::<Settings<Features>>([changed(Some(false))]).when(set(Some(Set::Reset))).then([changed(None)]);
    }

    #[test]
    fn what_was_set_goes_with_its_context() {
        given::<Settings<Features>>([changed(Some(true))]).when(Command::Remove).then([Event::Removed]);
        given::<Settings<Features>>([]).when(Command::Remove).then([]);
    }

    #[test]
    fn what_is_set_names_the_context_that_it_is_of() {
        let (state, organization) = (Some(of(None).into()), Owner::organization("2"));
        let names = Settings::<Features>::references;
        assert_eq!(names(&state, &organization), [Reference::new(Link::ORGANIZATION, "2")]);
        assert_eq!(names(&state, &Owner::system()), []);
        assert_eq!(names(&None, &organization), []);
    }

    #[test]
    fn a_write_keeps_what_this_build_does_not_know() {
        let newer = serde_json::json!({ "oidc_token_exchange": true, "of_the_next_version": 1 });
        let newer: WithUnknown<Features> = serde_json::from_value(newer).unwrap();
        let events = Settings::<Features>::decide(&Some(newer.clone()), set(Some(Set::Reset))).unwrap();
        let [Event::Changed { to, fields }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((to.oidc_token_exchange, to.unknown()), (None, vec!["of_the_next_version".to_owned()]));
        assert_eq!(fields, &["oidc_token_exchange"]);
    }

    #[test]
    fn the_nearest_context_that_sets_a_property_gives_it() {
        let (instance, system) = (Owner::instance("1"), Owner::system());
        let resolve = |own, of_instance, of_system| {
            let some = |value: Option<bool>| value.map(|value| Arc::new(of(Some(value))));
            let above = vec![(instance.clone(), some(of_instance)), (system.clone(), some(of_system))];
            let chain = Chain { own: some(own), above };
            let found = chain.resolve(|settings| settings.oidc_token_exchange.as_ref());
            (*found.value, found.owner.cloned())
        };
        assert_eq!(resolve(Some(true), Some(false), None), (true, None));
        assert_eq!(resolve(None, Some(true), Some(false)), (true, Some(instance.clone())));
        assert_eq!(resolve(None, None, Some(true)), (true, Some(system.clone())));
        assert_eq!(resolve(None, None, None), (false, Some(system.clone())), "the default is the system's");
        let chain = Chain::<Features> { own: None, above: vec![] };
        let found = chain.resolve(|settings| settings.oidc_token_exchange.as_ref());
        assert_eq!(found, Resolved { value: &false, owner: None }, "and there inherited from nobody");
    }
}
