//! Memberships as they are written.

use std::sync::Arc;

use base::fault;
use domain::{
    context::Owner,
    rejection::Rejection,
    resource::{membership::Membership, user::User},
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use proto::membership::{
    CreateMembershipRequest, CreateMembershipResponse, DeleteMembershipRequest, PatchMembershipRequest,
};

use crate::{
    execute::{Command, Commands, Deciding},
    standard::{self, details, key},
    turn::{Decided, Refusal, Turn},
};

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(standard::patch::<PatchMembershipRequest>)
        .on(standard::delete::<Membership, DeleteMembershipRequest>)
}

/// The user must be one that the caller may know of.
async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateMembershipRequest,
) -> Result<Answer<CreateMembershipResponse>, Error> {
    let wanted = request.membership.clone().unwrap_or_default();
    let (user, id) = (key::<User>(&call, &wanted.user_id)?, commands.ids.next());
    let key = AggregateKey::of::<Standard<Membership>>(&call.tenant.id, &id);
    let command = Create { key, user, context: call.context.clone(), roles: wanted.roles };
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A new membership.
struct Create {
    key: AggregateKey,
    user: AggregateKey,
    context: Owner,
    roles: Vec<String>,
}

impl Command for Create {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.unborn::<Standard<Membership>>(&self.key, &self.context)?;
        let user = turn.get::<Standard<User>>(&self.user);
        user.resource().ok_or(Rejection::NotFound(User::NAME))?;
        let home = user.owner()?;
        if !deciding.authority.may(turn, "user.read", home) {
            return Err(Rejection::NotFound(User::NAME).into());
        }
        let mut membership = Membership::new(&self.user.id, home, self.context.clone(), self.roles.clone());
        if fault::is_before_references() {
            membership.user_organization_id = None;
        }
        Ok((deciding.decide(turn, current, Asked::Create(membership))?, ()))
    }
}
