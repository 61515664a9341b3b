//! A settings service as data: its properties, each with its default and its rule.

use std::ops::RangeInclusive;

use crate::{
    rejection::{Rejection, Violation},
    settings::{Entries, Set},
};

/// Defines a settings service from a table of its properties: what is set in it, the writes of one request, and
/// [`Properties`](crate::settings::Properties) with the items after `is`. A property has a default, or is unset until
/// somebody sets it, and after a comma the rule for its values; `entries` are values by names.
macro_rules! properties {
    (@rule) => { crate::properties::any_value };
    (@rule $rule:expr) => { $rule };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
    (
        $(#[$about:meta])* $service:ident / $change:ident
        { $($(#[$doc:meta])* $name:ident: $type:ty $(= $default:expr $(, $rule:expr)?)?;)* }
        $(entries { $(#[$of:meta])* $map:ident })?
        is { $($item:tt)+ }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub struct $service {
            $($(#[$doc])* pub $name: Option<$type>,)*
            $(
                $(#[$of])*
                #[serde(default)]
                pub $map: crate::settings::Entries,
            )?
        }

        /// The writes of one request.
        #[derive(Debug, Clone, Default)]
        pub struct $change {
            $(
                #[doc = concat!("See [`", stringify!($service), "::", stringify!($name), "`].")]
                pub $name: Option<crate::settings::Set<$type>>,
            )*
            $(
                #[doc = concat!("See [`", stringify!($service), "::", stringify!($map), "`].")]
                pub $map: crate::settings::EntryChanges,
            )?
        }

        impl crate::settings::Properties for $service {
            $($item)+

            type Change = $change;

            fn defaults() -> &'static Self {
                static DEFAULTS: std::sync::LazyLock<$service> =
                    std::sync::LazyLock::new(|| $service { $($name: properties!(@default $($default)?),)* $($map: Default::default(),)? });
                &DEFAULTS
            }

            fn check(change: &$change) -> Result<(), crate::rejection::Rejection> {
                let $change { $($name,)* $($map: _,)? } = change;
                crate::properties::Refused::default()
                    $(.check(concat!("settings.", stringify!($name), ".set"), $name.as_ref(), properties!(@rule $($($rule)?)?)))*
                    .end()
            }

            fn changed(self, change: $change) -> Self {
                Self {
                    $($name: crate::settings::Set::over(change.$name, self.$name),)*
                    $($map: crate::settings::entries_over(change.$map, self.$map),)?
                }
            }
        }
    };
}
pub(crate) use properties;

/// Why a property may not be set to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The value breaks this rule.
    Invalid(&'static str),
    /// The value would promise what is not built yet.
    NotBuilt,
}

/// Permits any value of the type.
pub(crate) fn any_value<T>(_: &T) -> Option<Refusal> {
    None
}

/// Permits only the value that is in force, because the rest is not built yet.
pub(crate) fn only<T: PartialEq>(in_force: T) -> impl Fn(&T) -> Option<Refusal> {
    move |value| (*value != in_force).then_some(Refusal::NotBuilt)
}

/// Permits only values in a range, which the rule describes in words.
pub(crate) fn within<T: PartialOrd>(range: RangeInclusive<T>, rule: &'static str) -> impl Fn(&T) -> Option<Refusal> {
    move |value| (!range.contains(value)).then_some(Refusal::Invalid(rule))
}

/// Whether named values are within bounds in total, because every node has them in memory.
pub(crate) fn bounded(entries: &Entries, most: usize, bytes: usize) -> bool {
    let size = |(name, value): (&String, &String)| name.len() + value.len();
    entries.len() <= most && entries.iter().map(size).sum::<usize>() <= bytes
}

/// The properties of a request whose values are refused.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    violations: Vec<Violation>,
    not_built: Option<&'static str>,
}

impl Refused {
    /// Applies the rule of a property, if it is set.
    #[must_use]
    pub(crate) fn check<T>(
        mut self,
        field: &'static str,
        change: Option<&Set<T>>,
        rule: impl Fn(&T) -> Option<Refusal>,
    ) -> Self {
        let Some(Set::To(value)) = change else { return self };
        match rule(value) {
            None => {}
            Some(Refusal::Invalid(rule)) => self.violations.push(Violation { field, rule }),
            Some(Refusal::NotBuilt) => drop(self.not_built.get_or_insert(field)),
        }
        self
    }

    /// Returns all properties that break a rule, or else the first that is not built.
    pub(crate) fn end(self) -> Result<(), Rejection> {
        if !self.violations.is_empty() {
            return Err(Rejection::Invalid(self.violations));
        }
        self.not_built.map_or(Ok(()), |field| Err(Rejection::NotBuilt(field)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        context::Owner,
        setting::{
            login::{Login, LoginChange},
            password::{Password, PasswordChange},
            texts::{Texts, TextsChange},
        },
        settings::{Chain, Command, Event, Settings},
        testing::given,
    };

    fn ask<P: crate::settings::Properties>(change: P::Change) -> Command<P> {
        Command::Change { change, above: vec![(Owner::system(), None)] }
    }

    fn length(min_length: u64) -> PasswordChange {
        PasswordChange { min_length: Some(Set::To(min_length)), ..PasswordChange::default() }
    }

    #[test]
    fn what_a_property_is_set_to_must_keep_its_rule() {
        let set = Event::Changed {
            to: Password { min_length: Some(200), ..Password::default() }.into(),
            fields: vec!["min_length".into()],
        };
        given::<Settings<Password>>([]).when(ask(length(200))).then([set.clone()]);
        let refused = Rejection::invalid("settings.min_length.set", "must be 10 to 200");
        for wrong in [9, 201] {
            given::<Settings<Password>>([]).when(ask(length(wrong))).then_rejected(&refused);
        }
        // A value that was set when the rule was another one does not get in the way.
        let older = Event::Changed {
            to: Password { min_length: Some(8), ..Password::default() }.into(),
            fields: vec!["min_length".into()],
        };
        let upper = PasswordChange { requires_uppercase: Some(Set::To(true)), ..PasswordChange::default() };
        let to = Password { min_length: Some(8), requires_uppercase: Some(true), ..Password::default() };
        let both = Event::Changed { to: to.into(), fields: vec!["requires_uppercase".into()] };
        given::<Settings<Password>>([older]).when(ask(upper)).then([both]);
        given::<Settings<Password>>([set.clone()]).when(ask(length(200))).then([]);
    }

    #[test]
    fn what_is_not_built_can_only_be_set_to_what_it_is() {
        let force = |to| LoginChange { force_mfa: Some(Set::To(to)), ..LoginChange::default() };
        given::<Settings<Login>>([])
            .when(ask(force(true)))
            .then_rejected(&Rejection::NotBuilt("settings.force_mfa.set"));
        let to = Login { force_mfa: Some(false), ..Login::default() };
        let same = Event::Changed { to: to.into(), fields: vec!["force_mfa".into()] };
        given::<Settings<Login>>([]).when(ask(force(false))).then([same]);
    }

    #[test]
    fn named_values_are_set_and_reset_one_by_one_and_bounded_in_all() {
        let change = |name: &str, set| TextsChange { texts: [(name.to_owned(), set)].into() };
        let texts = |pairs: &[(&str, &str)]| {
            let texts = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            Event::Changed { to: Texts { texts }.into(), fields: vec!["texts".into()] }
        };
        let one = || texts(&[("a", "1")]);
        given::<Settings<Texts>>([]).when(ask(change("a", Set::To("1".into())))).then([one()]);
        given::<Settings<Texts>>([one()])
            .when(ask(change("b", Set::To("2".into()))))
            .then([texts(&[("a", "1"), ("b", "2")])]);
        given::<Settings<Texts>>([one()]).when(ask(change("b", Set::Reset))).then([]);
        given::<Settings<Texts>>([one()]).when(ask(change("a", Set::Reset))).then([texts(&[])]);
        let long = change("b", Set::To("x".repeat(64 * 1024)));
        let bound = "must be at most 500 in a language, with their names at most 64 KiB";
        given::<Settings<Texts>>([one()]).when(ask(long)).then_rejected(&Rejection::invalid("settings.texts", bound));
    }

    #[test]
    fn each_named_value_comes_from_the_nearest_context() {
        let texts = |pairs: [(&str, &str); 2]| {
            let texts = pairs.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
            Some(std::sync::Arc::new(Texts { texts }))
        };
        let (instance, system) = (Owner::instance("1"), Owner::system());
        let above = vec![
            (instance.clone(), texts([("b", "instance"), ("c", "instance")])),
            (system.clone(), texts([("c", "system"), ("d", "system")])),
        ];
        let chain = Chain { own: texts([("a", "own"), ("b", "own")]), above };
        let found = chain.entries(|settings| &settings.texts);
        let found: Vec<_> = found.iter().map(|(name, of)| (*name, of.value.as_str(), of.owner.cloned())).collect();
        let expected =
            [("a", "own", None), ("b", "own", None), ("c", "instance", Some(instance)), ("d", "system", Some(system))];
        assert_eq!(found, expected);
    }
}
