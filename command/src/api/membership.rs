//! Handlers that create, change and delete memberships.

use std::sync::Arc;

use base::fault;
use domain::{
    context::{Owner, OwnerType, Part, RolePlace},
    rejection::Rejection,
    resource::{membership::Membership, project::Project, project_grant::ProjectGrant, user::User},
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use proto::membership::{
    CreateMembershipRequest, CreateMembershipResponse, DeleteMembershipRequest, Membership as Wanted,
    PatchMembershipRequest, membership::Part as Named,
};

use crate::{
    execute::{Command, Commands, Deciding},
    granted::{owner_by_grant, owner_of_project},
    standard::{self, details, key},
    turn::{Decided, Refusal, Turn},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(standard::patch::<PatchMembershipRequest>)
        .on(standard::delete::<Membership, DeleteMembershipRequest>)
}

/// Creates a membership of a user that the caller may see.
async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateMembershipRequest,
) -> Result<Answer<CreateMembershipResponse>, Error> {
    let wanted = request.membership.clone().unwrap_or_default();
    let (user, id) = (key::<User>(&call, &wanted.user_id)?, commands.ids.next());
    let key = AggregateKey::of::<Standard<Membership>>(&call.tenant.id, &id);
    let part = part(&call, &wanted)?;
    let command = Create { key, user, part, context: call.context.clone(), roles: wanted.roles };
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// The project or the project grant that a request names.
fn part(call: &Call, wanted: &Wanted) -> Result<Option<PartKey>, Error> {
    Ok(match &wanted.part {
        None => None,
        Some(Named::ProjectId(id)) => Some(PartKey::Project(key::<Project>(call, id)?)),
        Some(Named::ProjectGrantId(id)) => Some(PartKey::Grant(key::<ProjectGrant>(call, id)?)),
    })
}

/// The part of an organization in which roles are to hold.
enum PartKey {
    Project(AggregateKey),
    Grant(AggregateKey),
}

/// A new membership.
struct Create {
    key: AggregateKey,
    user: AggregateKey,
    part: Option<PartKey>,
    context: Owner,
    roles: Vec<String>,
}

impl Command for Create {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let (context, part) = self.place(turn, deciding)?;
        let current = turn.unborn::<Standard<Membership>>(&self.key, &context)?;
        let user = turn.get::<Standard<User>>(&self.user);
        user.resource().ok_or(Rejection::NotFound(User::NAME))?;
        let home = user.owner()?;
        if !may_name(turn, deciding, home, &context, part.as_ref()) {
            return Err(Rejection::NotFound(User::NAME).into());
        }
        let mut membership = Membership::new(&self.user.id, home, context, self.roles.clone());
        membership.part = part;
        if fault::is_before_references() {
            membership.user_organization_id = None;
        }
        Ok((deciding.decide(turn, current, Asked::Create(membership))?, ()))
    }
}

/// Whether the caller may name a user of this organization: one that it may see, or one of the organization in a part
/// of which it may give roles.
fn may_name(turn: &mut Turn<'_>, deciding: &Deciding, home: &Owner, context: &Owner, part: Option<&Part>) -> bool {
    let gives = |turn: &mut Turn<'_>, part: &Part| {
        let place = RolePlace { context: context.clone(), parts: vec![part.clone()] };
        home == context && deciding.authority.may_at(turn, "membership.write", &place)
    };
    part.is_some_and(|part| gives(turn, part)) || deciding.authority.may(turn, "user.read", home)
}

impl Create {
    /// Returns where the roles are to hold. A part must belong to the organization that the request names, if it names
    /// one.
    fn place(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Owner, Option<Part>), Refusal> {
        let (context, part, name) = match &self.part {
            None => return Ok((self.context.clone(), None)),
            Some(PartKey::Project(key)) => {
                (owner_of_project(turn, deciding, key)?, Part::project(&key.id), Project::NAME)
            }
            Some(PartKey::Grant(key)) => {
                let (context, _) = owner_by_grant(turn, deciding, key)?;
                (context, Part::project_grant(&key.id), ProjectGrant::NAME)
            }
        };
        // Without a context the request is about the instance.
        let fits = self.context == context || self.context.kind == OwnerType::Instance;
        if fits { Ok((context, Some(part))) } else { Err(Rejection::NotFound(name).into()) }
    }
}
