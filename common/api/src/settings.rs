//! How clients see and change settings. Each service has a file of its own in this crate, with both directions.

use domain::{
    context::{Owner, OwnerType},
    settings::{Chain, Properties, Resolved, Set},
};
use jiff::Timestamp;
use proto::{
    Violation,
    object_settings::{Details, ResolvedBool, SetBool, set_bool::Type},
    shape::{Request, Resolve},
};

use crate::details::owner;

/// How clients read the settings of a service.
pub trait ResolvedSettings: Properties {
    /// The request for them.
    type Resolve: Resolve;

    /// What clients see of them in a context.
    fn resolved(chain: &Chain<Self>) -> <Self::Resolve as Resolve>::Settings;
}

/// A request that sets and resets properties.
pub trait SetSettings: Request<Response: From<Details>> {
    /// Whose.
    type Properties: Properties;

    /// The change in the core's words.
    fn change(&self) -> <Self::Properties as Properties>::Change;
}

/// Refuses a context that has no such settings.
///
/// # Errors
/// Names the levels that have.
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

/// What an answer says of the settings of a context: its last change, with the sequence. They are the system's as long as
/// nothing was ever set.
pub fn details(context: &Owner, (sequence, changed_at): (u64, Timestamp)) -> Details {
    let is_set = sequence > 0;
    let of = if is_set { owner(context) } else { owner(&Owner::system()) };
    Details { sequence, change_date: is_set.then(|| changed_at.into()), owner: Some(of) }
}

/// Whom a property is inherited from.
pub(crate) fn inherited<T>(found: &Resolved<'_, T>) -> Option<proto::object::Owner> {
    found.owner.map(owner)
}

/// A bool as it holds.
pub(crate) fn resolved_bool(found: &Resolved<'_, bool>) -> ResolvedBool {
    ResolvedBool { value: *found.value, owner: inherited(found) }
}

/// A write to a bool.
pub(crate) fn set_bool(wanted: Option<&SetBool>) -> Option<Set<bool>> {
    match wanted?.r#type.as_ref()? {
        Type::Set(value) => Some(Set::To(*value)),
        Type::Reset(_) => Some(Set::Reset),
    }
}
