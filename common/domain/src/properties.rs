//! A settings service as data: its properties, each with its default and its rule.

use std::ops::RangeInclusive;

use crate::{
    rejection::{Rejection, Violation},
    settings::{Entries, Set},
};

/// Makes a settings service of a table of its properties: what is set of it, the writes of one request, and
/// [`Properties`](crate::settings::Properties) with what stands behind `is`. A property has a default, and after a comma
/// the rule for what it is set to; `entries` are values by names.
macro_rules! properties {
    (@rule) => { crate::properties::anything };
    (@rule $rule:expr) => { $rule };
    (
        $(#[$about:meta])* $service:ident / $change:ident
        { $($(#[$doc:meta])* $name:ident: $type:ty = $default:expr $(, $rule:expr)?;)* }
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
                    std::sync::LazyLock::new(|| $service { $($name: Some($default),)* $($map: Default::default(),)? });
                &DEFAULTS
            }

            fn check(change: &$change) -> Result<(), crate::rejection::Rejection> {
                let $change { $($name,)* $($map: _,)? } = change;
                crate::properties::Refused::default()
                    $(.look(concat!("settings.", stringify!($name), ".set"), $name.as_ref(), properties!(@rule $($rule)?)))*
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
    /// It breaks this rule.
    Invalid(&'static str),
    /// It would promise what is not built yet.
    NotBuilt,
}

/// The property can be set to anything of its type.
pub(crate) fn anything<T>(_: &T) -> Option<Refusal> {
    None
}

/// The property can be set to what is in force and to nothing else, because the rest is not built yet.
pub(crate) fn only<T: PartialEq>(in_force: T) -> impl Fn(&T) -> Option<Refusal> {
    move |value| (*value != in_force).then_some(Refusal::NotBuilt)
}

/// The property must be in a range, which the rule says in words.
pub(crate) fn within<T: PartialOrd>(range: RangeInclusive<T>, rule: &'static str) -> impl Fn(&T) -> Option<Refusal> {
    move |value| (!range.contains(value)).then_some(Refusal::Invalid(rule))
}

/// Named values are bounded in all, because every node has them in memory.
pub(crate) fn bounded(entries: &Entries, most: usize, bytes: usize) -> bool {
    let size = |(name, value): (&String, &String)| name.len() + value.len();
    entries.len() <= most && entries.iter().map(size).sum::<usize>() <= bytes
}

/// The properties of a request that may not be set to what they are set to.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    violations: Vec<Violation>,
    not_built: Option<&'static str>,
}

impl Refused {
    /// Applies the rule of a property, where that is set.
    #[must_use]
    pub(crate) fn look<T>(
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

    /// Says all that break a rule, or else the first that is not built.
    pub(crate) fn end(self) -> Result<(), Rejection> {
        if !self.violations.is_empty() {
            return Err(Rejection::Invalid(self.violations));
        }
        self.not_built.map_or(Ok(()), |field| Err(Rejection::NotBuilt(field)))
    }
}
