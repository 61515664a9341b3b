//! Conversions of settings. Each service has a file of its own in this crate, for both directions.

use std::{collections::BTreeMap, convert::identity};

use domain::{
    context::{Owner, OwnerType},
    settings::{Chain, Entries, EntryChanges, Milliseconds, Properties, Resolved, Set},
};
use jiff::Timestamp;
use proto::{
    Violation,
    object_settings::{
        Details, ResolvedBool, ResolvedDuration, ResolvedString, ResolvedUInt64, SetBool, SetDuration, SetString,
        SetStringLong, SetStringShort, SetUInt64, SetUrl, set_bool, set_duration, set_string, set_string_long,
        set_string_short, set_u_int64, set_url,
    },
    shape::{Request, Resolve},
};

use crate::{
    details::owner,
    duration::{duration, milliseconds},
};

/// Converts the settings of a service for their readers.
pub trait ResolvedSettings: Properties {
    /// The request for them.
    type Resolve: Resolve;

    /// Converts the effective settings of a context.
    fn resolved(context: &Owner, chain: &Chain<Self>) -> <Self::Resolve as Resolve>::Settings;
}

/// A request that sets and resets properties.
pub trait SetSettings: Request<Response: From<Details>> {
    /// The settings service.
    type Properties: Properties;

    /// Returns which of the settings of the context are meant, as in [`Resolve::variant`].
    #[expect(clippy::unnecessary_literal_bound, reason = "others have one of their own")]
    fn variant(&self) -> &str {
        ""
    }

    /// Converts the change to the core.
    fn change(&self) -> <Self::Properties as Properties>::Change;
}

/// Refuses a context of a level that has no such settings.
///
/// # Errors
/// The levels that have them.
pub fn check_level<P: Properties>(context: &Owner) -> Result<(), Violation> {
    if P::LEVELS.contains(&context.kind) {
        return Ok(());
    }
    let levels: Vec<_> = P::LEVELS.iter().map(|level| name(*level)).collect();
    let rule = format!("must be {}, and so must x-platform-orgid: only they have these settings", levels.join(" or "));
    Err(Violation::new("ctx", rule))
}

fn name(level: OwnerType) -> &'static str {
    match level {
        OwnerType::System => "the system",
        OwnerType::Instance => "an instance",
        OwnerType::Organization => "an organization",
    }
}

/// Returns the details of the settings of a context: its last change, with the sequence. The owner is the system as
/// long as nothing was ever set.
pub fn details(context: &Owner, sequence: u64, changed_at: Timestamp) -> Details {
    let is_set = sequence > 0;
    let of = if is_set { owner(context) } else { owner(&Owner::system()) };
    Details { sequence, change_date: is_set.then(|| changed_at.into()), owner: Some(of) }
}

/// Implements both conversions of a settings service whose properties have the same names in the core and in the proto
/// file.
macro_rules! settings {
    ($service:ident / $change:ident: $set:ident, $resolve:ident -> $resolved:ident { $($name:ident)+ }) => {
        impl crate::settings::ResolvedSettings for $service {
            type Resolve = $resolve;

            fn resolved(_: &domain::context::Owner, chain: &domain::settings::Chain<Self>) -> $resolved {
                $resolved {
                    $($name: Some(crate::settings::ToProto::to_proto(chain.resolve(|settings| settings.$name.as_ref()))),)+
                }
            }
        }

        impl crate::settings::SetSettings for $set {
            type Properties = $service;

            fn change(&self) -> $change {
                let wanted = self.settings.clone().unwrap_or_default();
                $change { $($name: crate::settings::Write::write(wanted.$name),)+ }
            }
        }
    };
}
pub(crate) use settings;

/// Returns the context that a property is inherited from.
pub(crate) fn inherited<T>(found: &Resolved<'_, T>) -> Option<proto::object::Owner> {
    found.owner.map(owner)
}

/// Converts a property for its readers.
pub(crate) trait ToProto<T> {
    /// Converts the effective value.
    fn to_proto(found: Resolved<'_, T>) -> Self;
}

/// Converts a write to a property.
pub(crate) trait Write<T>: Sized {
    /// Returns the write; `None` if the message, which has been validated, neither sets nor resets.
    fn requested(self) -> Option<Set<T>>;

    /// Returns the write, if there is one.
    fn write(wanted: Option<Self>) -> Option<Set<T>> {
        wanted.and_then(Self::requested)
    }
}

/// Implements [`ToProto`] for the message in which a property of a type is shown.
macro_rules! to_proto {
    ($type:ty: $message:ident = $convert:expr) => {
        impl crate::settings::ToProto<$type> for $message {
            fn to_proto(found: domain::settings::Resolved<'_, $type>) -> Self {
                let convert: fn(&$type) -> _ = $convert;
                Self { value: convert(found.value), owner: crate::settings::inherited(&found) }
            }
        }
    };
}
pub(crate) use to_proto;

/// Implements [`Write`] for the message by which a property of a type is written.
macro_rules! written {
    ($type:ty: $written:ident / $choice:ident = $write:expr) => {
        impl crate::settings::Write<$type> for $written {
            fn requested(self) -> Option<domain::settings::Set<$type>> {
                Some(match self.r#type? {
                    $choice::Type::Set(value) => domain::settings::Set::To($write(value)),
                    $choice::Type::Reset(_) => domain::settings::Set::Reset,
                })
            }
        }
    };
}
pub(crate) use written;

/// Converts the effective named values.
pub(crate) fn show_entries<P: Properties>(
    chain: &Chain<P>,
    property: for<'a> fn(&'a P) -> &'a Entries,
) -> BTreeMap<String, ResolvedString> {
    chain.entries(property).into_iter().map(|(name, found)| (name.to_owned(), ToProto::to_proto(found))).collect()
}

/// Converts writes to named values.
pub(crate) fn entry_changes(wanted: BTreeMap<String, SetStringLong>) -> EntryChanges {
    wanted.into_iter().filter_map(|(name, set)| Some((name, set.requested()?))).collect()
}

to_proto!(bool: ResolvedBool = |value| *value);
to_proto!(u64: ResolvedUInt64 = |value| *value);
to_proto!(String: ResolvedString = String::clone);
to_proto!(Milliseconds: ResolvedDuration = |value| duration(value.0));
written!(bool: SetBool / set_bool = identity);
written!(u64: SetUInt64 / set_u_int64 = identity);
written!(String: SetString / set_string = identity);
written!(String: SetStringShort / set_string_short = identity);
written!(String: SetStringLong / set_string_long = identity);
written!(String: SetUrl / set_url = identity);
written!(Milliseconds: SetDuration / set_duration = |value| Milliseconds(milliseconds(value)));
