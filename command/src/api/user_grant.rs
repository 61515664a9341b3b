//! Handlers that create, change and delete user grants.

use std::sync::Arc;

use domain::{
    context::{Owner, Part},
    rejection::Rejection,
    resource::{
        project::Project,
        project_grant::ProjectGrant,
        project_role::GrantedRole,
        user::User,
        user_grant::{UserGrant, UserGrantPatch},
    },
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use proto::grant::{
    CreateUserGrantRequest, CreateUserGrantResponse, DeactivateUserGrantRequest, DeleteUserGrantRequest,
    PatchUserGrantRequest, PatchUserGrantResponse, ReactivateUserGrantRequest,
};

use crate::{
    execute::{Command, Commands, Deciding},
    existence::{self, is_there},
    granted::{owner_by_grant, owner_of_project, roles},
    standard::{self, details, key},
    turn::{Decided, Refusal, Turn},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(patch)
        .on(standard::delete::<UserGrant, DeleteUserGrantRequest>)
        .on(standard::deactivate::<UserGrant, DeactivateUserGrantRequest>)
        .on(standard::reactivate::<UserGrant, ReactivateUserGrantRequest>)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateUserGrantRequest,
) -> Result<Answer<CreateUserGrantResponse>, Error> {
    let wanted = request.user_grant.clone().unwrap_or_default();
    let (user, project) = (key::<User>(&call, &wanted.user_id)?, key::<Project>(&call, &wanted.project_id)?);
    let by = Some(&wanted.project_grant_id).filter(|id| !id.is_empty());
    let project_grant = by.map(|id| key::<ProjectGrant>(&call, id)).transpose()?;
    let id = commands.ids.next();
    let key = AggregateKey::of::<Standard<UserGrant>>(&call.tenant.id, &id);
    let command = Create { key, user, project, project_grant, role_keys: wanted.role_keys };
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A new user grant.
struct Create {
    key: AggregateKey,
    user: AggregateKey,
    project: AggregateKey,
    project_grant: Option<AggregateKey>,
    role_keys: Vec<String>,
}

impl Command for Create {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let is_there = is_there::<User>(turn, &self.user);
        let home = turn.get::<Standard<User>>(&self.user).head.owner.filter(|_| is_there);
        let owner = match &self.project_grant {
            Some(grant) => self.owner_by(turn, deciding, grant),
            None => owner_of_project(turn, deciding, &self.project),
        };
        let field = "user_grant.role_keys";
        let roles = granted_roles(turn, &self.project, self.project_grant.as_ref(), field, &self.role_keys);
        let owner = owner?;
        let current = turn.unborn::<Standard<UserGrant>>(&self.key, &owner)?;
        // A caller who may not give roles of the project learns nothing about them, nor about users.
        deciding.permit_within(turn, &current, vec![self.part()])?;
        let roles = roles?;
        // A caller who may give roles may name the users of the organization, and all others that it may see.
        let may_name = home.is_some_and(|home| home == owner || deciding.authority.may(turn, "user.read", &home));
        if !may_name {
            return Err(Rejection::NotFound(User::NAME).into());
        }
        let grant = UserGrant {
            user_id: self.user.id.clone(),
            project_id: self.project.id.clone(),
            project_grant_id: self.project_grant.as_ref().map(|grant| grant.id.clone()),
            roles,
            is_active: true,
        };
        Ok((deciding.decide(turn, current, Asked::Create(grant))?, ()))
    }
}

impl Create {
    /// Returns the part of the organization in which the user grant gives roles.
    fn part(&self) -> Part {
        match &self.project_grant {
            Some(grant) => Part::project_grant(&grant.id),
            None => Part::project(&self.project.id),
        }
    }

    /// Returns the organization that the project was granted to by a project grant.
    fn owner_by(&self, turn: &mut Turn<'_>, deciding: &Deciding, grant: &AggregateKey) -> Result<Owner, Refusal> {
        let (owner, grant) = owner_by_grant(turn, deciding, grant)?;
        if grant.project_id != self.project.id {
            return Err(Rejection::invalid("user_grant.project_id", "must be the project of the project grant").into());
        }
        Ok(owner)
    }
}

/// Returns the roles that a field of the request names, which must be among those of the project grant.
fn granted_roles(
    turn: &mut Turn<'_>,
    project: &AggregateKey,
    by: Option<&AggregateKey>,
    field: &'static str,
    keys: &[String],
) -> Result<Vec<GrantedRole>, Refusal> {
    let by = by.map(|key| turn.get::<Standard<ProjectGrant>>(key));
    let roles = roles(turn, project, field, keys);
    let Some(by) = by else { return roles };
    let granted = by.resource().map_or(&[][..], |grant| &grant.roles);
    // The organization that the project was granted to does not learn which other roles the project has.
    if !keys.iter().all(|key| granted.iter().any(|role| role.key == *key)) {
        return Err(Rejection::invalid(field, "must be among the roles of the project grant").into());
    }
    let roles = roles?;
    if roles.iter().all(|role| granted.contains(role)) {
        Ok(roles)
    } else {
        Err(Rejection::invalid(field, "must be among the roles of the project grant").into())
    }
}

async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchUserGrantRequest,
) -> Result<Answer<PatchUserGrantResponse>, Error> {
    let role_keys = request.user_grant.clone().unwrap_or_default().role_keys.map(|wanted| wanted.values);
    let (command, id) = (Change { key: key::<UserGrant>(&call, &request.id)?, role_keys }, request.id.clone());
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A change of the roles of a user grant.
struct Change {
    key: AggregateKey,
    role_keys: Option<Vec<String>>,
}

impl Command for Change {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<UserGrant>>(&self.key);
        existence::require_existing(turn, &current)?;
        let Some(before) = current.resource().cloned() else { return Err(Rejection::NotFound(UserGrant::NAME).into()) };
        let project = AggregateKey::of::<Standard<Project>>(&self.key.instance_id, &before.project_id);
        let by = before.project_grant_id.as_ref();
        let by = by.map(|id| AggregateKey::of::<Standard<ProjectGrant>>(&self.key.instance_id, id));
        let field = "user_grant.role_keys.values";
        let wanted = self.role_keys.as_ref().map(|keys| granted_roles(turn, &project, by.as_ref(), field, keys));
        deciding.permit_on(turn, &current)?;
        let roles = wanted.transpose()?;
        Ok((deciding.decide(turn, current, Asked::Patch(UserGrantPatch { roles }))?, ()))
    }
}
