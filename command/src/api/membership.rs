//! Memberships as they are written.

use std::sync::Arc;

use domain::{
    rejection::Rejection,
    resource::{
        membership::{Membership, MembershipPatch},
        organization::Organization,
        user::User,
    },
    standard::{Command as Asked, Standard},
};
use edge::{answer::Answer, call::Call, error::Error};
use eventlog::record::Key;
use proto::membership::{
    CreateMembershipRequest, CreateMembershipResponse, PatchMembershipRequest, PatchMembershipResponse,
};

use crate::{
    execute::{Commands, Deciding},
    standard::{details, key},
    turn::Turn,
};

/// The user must be one that the caller may know of.
pub(super) async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateMembershipRequest,
) -> Result<Answer<CreateMembershipResponse>, Error> {
    let wanted = request.membership.clone().unwrap_or_default();
    let user = key::<User>(&call, &wanted.user_id)?;
    let (context, id) = (call.context.clone(), commands.ids.next());
    let own = Key::of::<Standard<Membership>>(&call.tenant.id, &id);
    let membership = Membership { user_id: wanted.user_id, context: context.clone(), roles: wanted.roles };
    let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
        let (known, found) = (turn.unborn::<Standard<Membership>>(&own)?, turn.get::<Standard<User>>(&user)?);
        turn.complete()?;
        let home = found.filter(|found| found.state.is_some()).and_then(|found| found.place.owner);
        let is_known = match &home {
            Some(home) => deciding.authority.may(turn, "user.read", home)?,
            None => false,
        };
        if !is_known {
            return Err(Rejection::NotFound("user").into());
        }
        let decided = deciding.decide(turn, (&own, &context), known, Asked::Create(membership.clone()))?;
        if let Some(home) = home.filter(|home| *home != context) {
            turn.gave_roles(Key::of::<Standard<Organization>>(&user.instance_id, &home.id), decided.sequence);
            turn.gave_roles(user.clone(), decided.sequence);
        }
        Ok(decided)
    };
    commands.execute_with(&call, &request, decide, move |decided| details(&id, decided).into()).await
}

pub(super) async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchMembershipRequest,
) -> Result<Answer<PatchMembershipResponse>, Error> {
    let patch = MembershipPatch { roles: request.membership.clone().unwrap_or_default().roles };
    commands.patch::<Membership, _, _>(&call, &request, patch, Into::into).await
}
