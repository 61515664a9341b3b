//! Gives apps and users what they hold, such as keys, and takes it away again.

use std::marker::PhantomData;

use base::clock;
use domain::{
    context::{Owner, RolePlace},
    rejection::Rejection,
    resource::user::User,
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error};
use eventlog::record::AggregateKey;
use proto::{shape::Identified, wellknown};

use crate::{
    escalation,
    execute::{Command, Commands, Deciding},
    existence,
    standard::{Plain, details, key},
    turn::{Decided, Refusal, Turn},
};

/// Gives a new object to its holder.
pub(crate) struct Give<H, R> {
    key: AggregateKey,
    holder: AggregateKey,
    new: R,
    of: PhantomData<fn() -> H>,
}

/// Takes an object away from its holder.
struct Take<H, R> {
    key: AggregateKey,
    holder: AggregateKey,
    of: PhantomData<fn() -> (H, R)>,
}

impl<H: Resource, R: Resource> Give<H, R> {
    /// Creates the command that gives a new object with an id to a holder.
    pub(crate) fn new(call: &Call, holder: AggregateKey, id: &str, new: R) -> Self {
        Self { key: AggregateKey::of::<Standard<R>>(&call.tenant.id, id), holder, new, of: PhantomData }
    }
}

impl<H: Resource, R: Resource> Command for Give<H, R> {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let RolePlace { context, parts } = place::<H>(turn, deciding, &self.holder)?;
        let current = turn.unborn::<Standard<R>>(&self.key, &context)?;
        let new = self.new.clone().with_holder_parts(&parts);
        Ok((deciding.decide(turn, current, Asked::Create(new))?, ()))
    }
}

impl<H: Resource, R: Resource> Command for Take<H, R> {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<R>>(&self.key);
        existence::require_existing(turn, &current)?;
        if current.resource().is_none_or(|held| held.holder() != Some(&self.holder.id)) {
            return Err(Rejection::NotFound(R::NAME).into());
        }
        // The object may not know itself which parts of its context it is in.
        let holder = turn.get::<Standard<H>>(&self.holder);
        let parts = holder.resource().map(|there| there.parts(&self.holder.id)).unwrap_or_default();
        deciding.permit_within(turn, &current, parts.clone())?;
        check_power(turn, deciding, &self.holder, current.owner()?)?;
        Ok((deciding.decide_within(turn, current, Asked::Delete, parts)?, ()))
    }
}

/// Takes the object that a request names away from the holder that its path names.
pub(crate) async fn take<H: Resource, R: Resource, I: Identified>(
    commands: &Commands,
    call: &Call,
    request: &I,
) -> Result<Answer<I::Response>, Error>
where
    I::Response: Plain,
{
    let (key, holder) = (key::<R>(call, request.id())?, holder::<H>(call, request)?);
    let (command, id) = (Take::<H, R> { key, holder, of: PhantomData }, request.id().to_owned());
    commands.execute(call, request, command, move |decided, ()| details(&id, decided).into()).await
}

/// Returns the key of the app or user that the path of a request names.
pub(crate) fn holder<H: Resource>(call: &Call, request: &impl proto::shape::Request) -> Result<AggregateKey, Error> {
    key::<H>(call, request.holder().unwrap_or_default())
}

/// The rule that an end in the past breaks.
pub(crate) const PAST: &str = "must be in the future";

/// Returns when something ends, in milliseconds since the Unix epoch, which must be in the future.
pub(crate) fn end(field: &'static str, date: Option<wellknown::Timestamp>) -> Result<i64, Rejection> {
    let end = date.and_then(|date| date.as_millisecond()).unwrap_or_default();
    if end > clock::now().as_millisecond() { Ok(end) } else { Err(Rejection::invalid(field, PAST)) }
}

/// Returns where an object of this holder belongs, if the holder exists and the caller may give it something.
fn place<H: Resource>(turn: &mut Turn<'_>, deciding: &Deciding, holder: &AggregateKey) -> Result<RolePlace, Refusal> {
    let current = turn.get::<Standard<H>>(holder);
    existence::require_existing(turn, &current)?;
    let there = current.resource().ok_or(Rejection::NotFound(H::NAME))?;
    deciding.permit_on(turn, &current)?;
    there.may_hold()?;
    let owner = current.owner()?.clone();
    check_power(turn, deciding, holder, &owner)?;
    Ok(RolePlace { context: owner, parts: there.parts(&holder.id) })
}

/// Refuses a caller who could not give a user its roles: whoever has what a user holds can act as the user, and once it
/// is taken away others no longer can.
fn check_power(turn: &mut Turn<'_>, deciding: &Deciding, holder: &AggregateKey, owner: &Owner) -> Result<(), Refusal> {
    if holder.aggregate_type == User::NAME && !deciding.authority.is_caller(&holder.id) {
        escalation::check_user(turn, deciding, holder, owner)?;
    }
    Ok(())
}
