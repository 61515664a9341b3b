//! Writes to reusable resources: in its own context one accepts every write of a standard resource, in a context below
//! it the state policy and nothing else.

use std::sync::Arc;

use domain::{
    context::Owner,
    rejection::Rejection,
    reusable::{Policy, Reusable, StatePolicy, home, path},
    standard::{Command as Asked, Standard},
};
use edge::{answer::Answer, call::Call, error::Error};
use eventlog::record::AggregateKey;
use proto::shape::Identified;
use view::{keyring::SYSTEM, settings::instance_of};

use crate::{
    authority::Object,
    execute::{Command, Commands, Deciding},
    removal::remove,
    standard::{Plain, details},
    turn::{Current, Decided, Refusal, Turn},
};

/// The changes that a request makes to a resource in a context.
pub(crate) struct RequestedChange<R: Reusable> {
    /// The change of the resource itself.
    pub(crate) patch: R::Patch,
    /// The state policy of the context.
    pub(crate) policy: Option<Policy>,
    /// The instance whose key a secret of the patch is sealed with.
    pub(crate) sealed_in: Option<String>,
}

/// Changes the resource that a request names, in the context that it names or else in its own.
pub(crate) async fn patch_with<R: Reusable, I: Identified>(
    commands: &Commands,
    call: &Call,
    request: &I,
    wanted: RequestedChange<R>,
) -> Result<Answer<I::Response>, Error>
where
    I::Response: Plain,
{
    let (place, context) = (ResourceLocator::of(call, request)?, call.named(request).cloned());
    let id = place.id.clone();
    let answer = move |decided: &Decided, (): &()| details(&id, decided).into();
    commands.execute(call, request, Patch { place, context, wanted }, answer).await
}

/// Switches the resource that a request names off in its own context.
pub(crate) async fn deactivate<R, I>(
    commands: Arc<Commands>,
    call: Call,
    request: I,
) -> Result<Answer<I::Response>, Error>
where
    R: Reusable,
    I: Identified,
    I::Response: Plain,
{
    execute(&commands, &call, &request, Asked::<R>::Switch(false)).await
}

/// Switches the resource that a request names on again in its own context.
pub(crate) async fn reactivate<R, I>(
    commands: Arc<Commands>,
    call: Call,
    request: I,
) -> Result<Answer<I::Response>, Error>
where
    R: Reusable,
    I: Identified,
    I::Response: Plain,
{
    execute(&commands, &call, &request, Asked::<R>::Switch(true)).await
}

/// Removes the resource that a request names, with the policies on it.
pub(crate) async fn delete<R, I>(commands: Arc<Commands>, call: Call, request: I) -> Result<Answer<I::Response>, Error>
where
    R: Reusable,
    I: Identified,
    I::Response: Plain,
{
    execute(&commands, &call, &request, Asked::<R>::Delete).await
}

async fn execute<R, I>(
    commands: &Commands,
    call: &Call,
    request: &I,
    asked: Asked<R>,
) -> Result<Answer<I::Response>, Error>
where
    R: Reusable,
    I: Identified,
    I::Response: Plain,
{
    let place = ResourceLocator::of(call, request)?;
    let id = place.id.clone();
    let answer = move |decided: &Decided, (): &()| details(&id, decided).into();
    commands.execute(call, request, Change { place, asked }, answer).await
}

/// The instance and id by which a resource is looked up.
struct ResourceLocator {
    instance_id: String,
    id: String,
}

impl ResourceLocator {
    fn of(call: &Call, request: &impl Identified) -> Result<Self, Error> {
        let id = request.id();
        // Postgres has no U+0000, so no id has one.
        if id.contains('\0') {
            return Err(Rejection::NotFound("resource").into());
        }
        Ok(Self { instance_id: call.tenant.id.clone(), id: id.to_owned() })
    }

    /// Returns the resource of the instance with this id, or else the one of the system, which is there in all
    /// instances.
    fn find<R: Reusable>(&self, turn: &mut Turn<'_>) -> Current<Standard<R>> {
        let of_instance = turn.get::<Standard<R>>(&AggregateKey::of::<Standard<R>>(&self.instance_id, &self.id));
        if of_instance.resource().is_some() {
            return of_instance;
        }
        let of_system = turn.get::<Standard<R>>(&AggregateKey::of::<Standard<R>>(SYSTEM, &self.id));
        if of_system.resource().is_some() { of_system } else { of_instance }
    }
}

/// A change of a resource in its own context.
struct Change<R: Reusable> {
    place: ResourceLocator,
    asked: Asked<R>,
}

impl<R: Reusable> Command for Change<R> {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = self.place.find::<R>(turn);
        let decided = match &self.asked {
            Asked::Delete => remove(turn, deciding, current)?,
            asked => deciding.decide(turn, current, asked.clone())?,
        };
        Ok((decided, ()))
    }
}

/// A patch of a resource in a context, which is its own unless one is named.
struct Patch<R: Reusable> {
    place: ResourceLocator,
    context: Option<Owner>,
    wanted: RequestedChange<R>,
}

impl<R: Reusable> Command for Patch<R> {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let nothing = || Refusal::from(Rejection::NotFound(R::NAME));
        let current = self.place.find::<R>(turn);
        current.resource().filter(|found| found.is_for(&self.wanted.patch)).ok_or_else(nothing)?;
        let (owner, instance_id) = (current.owner()?, &self.place.instance_id);
        let context = self.context.clone().unwrap_or_else(|| home(owner, instance_id));
        if !path(owner, &context, instance_id).ok_or_else(nothing)?.is_empty() {
            return Ok((self.set_policy(turn, deciding, &current, &context)?, ()));
        }
        let keeper = instance_of(instance_id, owner).to_owned();
        let decided = deciding.decide(turn, current, Asked::Patch(self.wanted.patch.clone()))?;
        if self.wanted.sealed_in.as_ref().is_some_and(|sealed_in| *sealed_in != keeper) {
            let reason = "set the secret in the context that the resource belongs to, or without naming a context";
            return Err(Rejection::Precondition(reason).into());
        }
        if self.wanted.policy.is_some_and(|policy| policy != Policy::Inherit) {
            let reason = "a state policy is for contexts below its own; deactivate or reactivate it instead";
            return Err(Rejection::Precondition(reason).into());
        }
        Ok((decided, ()))
    }
}

impl<R: Reusable> Patch<R> {
    /// Sets the state policy in a context that inherits the resource. The sequence that is compared is the one of what
    /// is seen there: the resource with the policy on it.
    fn set_policy(
        &self,
        turn: &mut Turn<'_>,
        deciding: &Deciding,
        resource: &Current<Standard<R>>,
        context: &Owner,
    ) -> Result<Decided, Refusal> {
        let (ResourceLocator { instance_id, id }, owner) = (&self.place, resource.owner()?.clone());
        let key = AggregateKey::of::<Standard<StatePolicy<R>>>(instance_id, &StatePolicy::<R>::id(id, &context.id));
        let current = turn.get::<Standard<StatePolicy<R>>>(&key).owned_by(context);
        let is_set = current.resource().is_some();
        deciding.permit(turn, context, &Object::of_nobody(R::NAME, true))?;
        let sequence = resource.head.sequence.max(if is_set { current.head.sequence } else { 0 });
        deciding.compare_sequence(Some(sequence))?;
        if R::changes(&self.wanted.patch) {
            let reason = "a context that inherits it may change its state policy and nothing else";
            return Err(Rejection::Precondition(reason).into());
        }
        let before = current.resource().map(|set| set.policy).unwrap_or_default();
        let decided = match self.wanted.policy.filter(|policy| *policy != before) {
            Some(policy) => {
                let asked = Asked::Put(StatePolicy::new(id, &owner, policy));
                deciding.follow(turn, current, asked)?
            }
            None => {
                let changed_at = if is_set {
                    resource.head.changed_at.max(current.head.changed_at)
                } else {
                    resource.head.changed_at
                };
                Decided { sequence, changed_at, ..deciding.change_nothing(turn, current)? }
            }
        };
        Ok(Decided { owner, ..decided })
    }
}
