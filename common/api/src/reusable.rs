//! How clients see a reusable resource: as a standard one, with what the context makes of it that it is looked at from.

use domain::{
    column::Column,
    context::Owner,
    reusable::{Policy, Reusable, Seen},
};
use index::{Filter, SortKey};
use proto::{
    object::{Parent, StatePolicy},
    shape::Search,
};
use view::rows::Found;

use crate::{details, filter::state};

/// How clients read lists of a reusable resource.
pub trait ShownReusable: Reusable {
    /// The request for several.
    type Search: Search;

    /// Whether it is switched on in its own context.
    const IS_ACTIVE: &'static Column<Self>;

    /// What a list is sorted by.
    fn key(column: <Self::Search as Search>::Column) -> SortKey<Self>;

    /// What a filter finds.
    fn wanted(filter: <Self::Search as Search>::Filter) -> Wanted<Self>;

    /// What clients see of it, from a context.
    fn shown(found: &Found<Self>, seen: &Seen) -> <Self::Search as Search>::Resource;
}

/// What a filter finds.
#[derive(Debug)]
pub enum Wanted<R: 'static> {
    /// What is so everywhere.
    Plain(Filter<R>),
    /// What takes effect in the context that is searched, or does not.
    Active(bool),
}

/// The policy that a request asks for, where it asks for one.
pub fn policy(wanted: StatePolicy) -> Option<Policy> {
    match wanted {
        StatePolicy::Unspecified => None,
        StatePolicy::Activate => Some(Policy::Activate),
        StatePolicy::Deactivate => Some(Policy::Deactivate),
        StatePolicy::Inherit => Some(Policy::Inherit),
    }
}

/// The policy of the context that a resource is looked at from, where it is inherited.
pub fn seen_policy(seen: &Seen) -> StatePolicy {
    match seen.policy {
        None => StatePolicy::Unspecified,
        Some(Policy::Activate) => StatePolicy::Activate,
        Some(Policy::Deactivate) => StatePolicy::Deactivate,
        Some(Policy::Inherit) => StatePolicy::Inherit,
    }
}

/// Whom a resource is inherited from, with the state that it has there.
pub fn parent(seen: &Seen) -> Option<Parent> {
    let (owner, is_active): &(Owner, bool) = seen.parent.as_ref()?;
    Some(Parent { parent: Some(details::owner(owner)), state: state(*is_active).into() })
}
