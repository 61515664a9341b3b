//! The reusable shape: a resource of one context is inherited by all contexts below, and each of those may switch it on
//! or off for itself by a state policy. Beyond that it is a standard resource.
//!
//! A policy is an aggregate of its own in the context that it is for, so that contexts neither wait for each other nor
//! write into a context above them.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Serialize};

use crate::{
    column::Column,
    context::{Owner, OwnerType},
    projection::Name,
    reference::{Link, Reference},
    standard::{Resource, Unpatchable},
};

/// A resource that the contexts below its own inherit.
pub trait Reusable: Resource<Patch: Default> {
    /// The name of its policies, for example `idp_state_policy`.
    const POLICY: &'static str;

    /// Whether it is switched on in its own context.
    fn is_active(&self) -> bool;

    /// Whether a patch changes anything in addition to the policy.
    fn changes(patch: &Self::Patch) -> bool;

    /// Whether it is of the kind that a patch is for; a resource of another kind is treated as not found.
    fn is_for(&self, patch: &Self::Patch) -> bool;
}

/// What a context does with the state of a resource that it inherits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Switches it on.
    Activate,
    /// Switches it off.
    Deactivate,
    /// Leaves it as in the context above.
    #[default]
    Inherit,
}

impl Policy {
    /// Returns whether it is on under this policy, given whether it is on in the context above.
    pub const fn over(self, is_active: bool) -> bool {
        match self {
            Self::Activate => true,
            Self::Deactivate => false,
            Self::Inherit => is_active,
        }
    }
}

/// The policy of a context on one resource that it inherits.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct StatePolicy<R> {
    /// The resource.
    pub resource_id: String,
    /// The policy.
    pub policy: Policy,
    /// Whether the resource is the system's: it is in no instance, so no reference can name it.
    pub is_of_system: bool,
    #[serde(skip)]
    of: PhantomData<fn() -> R>,
}

impl<R> StatePolicy<R> {
    /// Creates a policy on a resource that belongs to this owner.
    pub fn new(resource_id: impl Into<String>, owner: &Owner, policy: Policy) -> Self {
        let is_of_system = owner.kind == OwnerType::System;
        Self { resource_id: resource_id.into(), policy, is_of_system, of: PhantomData }
    }

    /// Returns the id of the policy of a context on a resource.
    pub fn id(resource_id: &str, context_id: &str) -> String {
        format!("{resource_id}.{context_id}")
    }

    /// Returns the id of the resource of a policy with this id.
    pub fn resource_of(id: &str) -> &str {
        id.split_once('.').map_or(id, |(resource_id, _)| resource_id)
    }
}

impl<R> Clone for StatePolicy<R> {
    fn clone(&self) -> Self {
        Self { resource_id: self.resource_id.clone(), ..*self }
    }
}

impl<R> PartialEq for StatePolicy<R> {
    fn eq(&self, other: &Self) -> bool {
        (&self.resource_id, self.policy, self.is_of_system) == (&other.resource_id, other.policy, other.is_of_system)
    }
}

impl<R> fmt::Debug for StatePolicy<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} on {}", self.policy, self.resource_id)
    }
}

impl<R: Reusable> Resource for StatePolicy<R> {
    const NAME: &'static str = R::POLICY;
    const COLUMNS: &'static [Column<Self>] = &[];
    const ROWS: Option<Name> = R::ROWS;
    const LINKS: &'static [Link] = &[Link { name: "policy", to: R::NAME }];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }

    fn references(&self) -> Vec<Reference> {
        let named = (!self.is_of_system).then_some(&self.resource_id);
        named.map(|id| Reference::new(Self::LINKS[0], id)).into_iter().collect()
    }
}

/// A resource as seen from a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextState {
    /// Whether it is active there.
    pub is_active: bool,
    /// The policy of that context; `None` if the resource is not inherited.
    pub policy: Option<Policy>,
    /// The context directly above, and whether the resource is active in that; `None` if it is not inherited.
    pub parent: Option<(Owner, bool)>,
}

/// Returns the context that a request means if it names none: the resource's own, or the instance if that is the
/// system, which has to be named.
pub fn home(owner: &Owner, instance_id: &str) -> Owner {
    if owner.kind == OwnerType::System { Owner::instance(instance_id) } else { owner.clone() }
}

/// Returns the contexts by which a resource is inherited on the way to this one: those below its own, the uppermost
/// first and this one last. The list is empty if this is its own context or one above; `None` if the resource does not
/// exist in this context.
pub fn path(owner: &Owner, context: &Owner, instance_id: &str) -> Option<Vec<Owner>> {
    if owner.chain(instance_id).contains(context) {
        return Some(vec![]);
    }
    let mut chain = context.chain(instance_id);
    let end = chain.iter().position(|above| above == owner)?;
    chain.truncate(end);
    chain.reverse();
    Some(chain)
}

impl ContextState {
    /// Returns the view at the end of a [`path`], with the policies on it, of a resource that is active in its own
    /// context or not.
    pub fn at(owner: &Owner, is_active: bool, path: &[Owner], policy: impl Fn(&Owner) -> Policy) -> Self {
        let (mut seen, mut above) = (Self { is_active, policy: None, parent: None }, owner);
        for context in path {
            let policy = policy(context);
            let parent = Some((above.clone(), seen.is_active));
            seen = Self { is_active: policy.over(seen.is_active), policy: Some(policy), parent };
            above = context;
        }
        seen
    }
}

#[cfg(test)]
mod tests;
