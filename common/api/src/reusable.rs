//! Reusable resources in the API: like standard ones, with the effect of the context from which they are seen.

use domain::{
    column::Column,
    context::Owner,
    reusable::{ContextState, Policy, Reusable},
};
use index::{Filter, SortKey};
use proto::{
    object::{Parent, StatePolicy},
    shape::Search,
};
use view::rows::StoredResource;

use crate::{details, filter::state};

/// Converts a reusable resource for its readers.
pub trait ShownReusable: Reusable {
    /// The request for a list.
    type Search: Search;

    /// The column that tells whether it is switched on in its own context.
    const IS_ACTIVE: &'static Column<Self>;

    /// Converts the column that a list is sorted by.
    fn key(column: <Self::Search as Search>::Column) -> SortKey<Self>;

    /// Converts a filter.
    fn convert_filter(filter: <Self::Search as Search>::Filter) -> ReusableFilter<Self>;

    /// Converts it to the API, as seen from a context.
    fn to_proto(found: &StoredResource<Self>, seen: &ContextState) -> <Self::Search as Search>::Resource;
}

/// A converted filter.
#[derive(Debug)]
pub enum ReusableFilter<R: 'static> {
    /// A filter that does not depend on the context.
    Plain(Filter<R>),
    /// Whether it is active in the context that is searched.
    Active(bool),
}

/// Converts the policy of a request, if it has one.
pub fn policy(wanted: StatePolicy) -> Option<Policy> {
    match wanted {
        StatePolicy::Unspecified => None,
        StatePolicy::Activate => Some(Policy::Activate),
        StatePolicy::Deactivate => Some(Policy::Deactivate),
        StatePolicy::Inherit => Some(Policy::Inherit),
    }
}

/// Converts the policy of the context that a resource is seen from, if it is inherited there.
pub fn seen_policy(seen: &ContextState) -> StatePolicy {
    match seen.policy {
        None => StatePolicy::Unspecified,
        Some(Policy::Activate) => StatePolicy::Activate,
        Some(Policy::Deactivate) => StatePolicy::Deactivate,
        Some(Policy::Inherit) => StatePolicy::Inherit,
    }
}

/// Returns the context that a resource is inherited from, and its state there.
pub fn parent(seen: &ContextState) -> Option<Parent> {
    let (owner, is_active): &(Owner, bool) = seen.parent.as_ref()?;
    Some(Parent { parent: Some(details::owner(owner)), state: state(*is_active).into() })
}
