//! The reusable shape: what is made in one context is there in all below it, and each of those may switch it on or off for
//! itself by a state policy. Beyond that it is a standard resource.
//!
//! A policy is an aggregate of its own in the context that it is for, so that contexts neither wait for each other nor write
//! into what is above them.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Serialize};

use crate::{
    column::Column,
    context::{Owner, OwnerType},
    projection::Name,
    reference::{Link, Reference},
    standard::{Resource, Unpatchable},
};

/// A resource that is there in the contexts below its own, too.
pub trait Reusable: Resource<Patch: Default> {
    /// The name of its policies, for example `idp_state_policy`.
    const POLICY: &'static str;

    /// Whether it is switched on in its own context.
    fn is_active(&self) -> bool;

    /// Whether a patch changes something beside the policy.
    fn changes(patch: &Self::Patch) -> bool;

    /// Whether it is of the kind that a patch is for; one of another kind is not found.
    fn is_for(&self, _patch: &Self::Patch) -> bool {
        true
    }
}

/// What a context makes of the state of what it inherits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// It is on.
    Activate,
    /// It is off.
    Deactivate,
    /// It is as in the context above.
    #[default]
    Inherit,
}

impl Policy {
    /// Whether it is on under this policy, by whether it is in the context above.
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
    /// What the context makes of it.
    pub policy: Policy,
    /// Whether the resource is the system's, which is in no instance that could name it.
    pub is_of_system: bool,
    #[serde(skip)]
    of: PhantomData<fn() -> R>,
}

impl<R> StatePolicy<R> {
    /// A policy on a resource that belongs to this context.
    pub fn new(resource_id: impl Into<String>, owner: &Owner, policy: Policy) -> Self {
        let is_of_system = owner.kind == OwnerType::System;
        Self { resource_id: resource_id.into(), policy, is_of_system, of: PhantomData }
    }

    /// The id of the policy of a context on a resource.
    pub fn id(resource_id: &str, context_id: &str) -> String {
        format!("{resource_id}.{context_id}")
    }

    /// The resource of a policy with this id.
    pub fn resource_of(id: &str) -> &str {
        id.split_once('.').map_or(id, |(resource_id, _)| resource_id)
    }
}

impl<R> Clone for StatePolicy<R> {
    fn clone(&self) -> Self {
        Self { resource_id: self.resource_id.clone(), of: PhantomData, ..*self }
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

/// A resource as it is seen from a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Whether it takes effect there.
    pub is_active: bool,
    /// The policy of that context; `None` where the resource is not inherited.
    pub policy: Option<Policy>,
    /// The context right above, with whether it takes effect in that; `None` where it is not inherited.
    pub parent: Option<(Owner, bool)>,
}

/// The context in which a resource is meant where a request names none: its own, or the instance where that is the system,
/// which has to be named.
pub fn home(owner: &Owner, instance_id: &str) -> Owner {
    if owner.kind == OwnerType::System { Owner::instance(instance_id) } else { owner.clone() }
}

/// From which contexts a resource is inherited by the one it is looked at from: those below its own, the uppermost first and
/// that one last. There are none where it is looked at from its own or from above; `None` where it is not there at all.
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

impl Seen {
    /// A resource, which is switched on in its own context or not, at the end of a [`path`] with the policies on it.
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
