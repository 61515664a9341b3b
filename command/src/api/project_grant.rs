//! Handlers that create, change and delete project grants.

use std::sync::Arc;

use domain::{
    context::{Owner, Part},
    rejection::Rejection,
    resource::{
        organization::Organization,
        project::Project,
        project_grant::{ProjectGrant, ProjectGrantPatch},
        project_role::GrantedRole,
        user_grant::{PROJECT_GRANT, UserGrant, UserGrantPatch},
    },
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use proto::grant::{
    CreateProjectGrantRequest, CreateProjectGrantResponse, DeactivateProjectGrantRequest, DeleteProjectGrantRequest,
    PatchProjectGrantRequest, PatchProjectGrantResponse, ReactivateProjectGrantRequest,
};

use crate::{
    execute::{Command, Commands, Deciding},
    existence::{self, is_there},
    granted::{owner_of_project, roles},
    references,
    standard::{self, details, key},
    turn::{Decided, Refusal, Turn},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(patch)
        .on(standard::delete::<ProjectGrant, DeleteProjectGrantRequest>)
        .on(standard::deactivate::<ProjectGrant, DeactivateProjectGrantRequest>)
        .on(standard::reactivate::<ProjectGrant, ReactivateProjectGrantRequest>)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateProjectGrantRequest,
) -> Result<Answer<CreateProjectGrantResponse>, Error> {
    let wanted = request.project_grant.clone().unwrap_or_default();
    let (project, organization) =
        (key::<Project>(&call, &wanted.project_id)?, key::<Organization>(&call, &wanted.org_id)?);
    let id = commands.ids.next();
    let key = AggregateKey::of::<Standard<ProjectGrant>>(&call.tenant.id, &id);
    let command = Create { key, project, organization, role_keys: wanted.role_keys };
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A new project grant.
struct Create {
    key: AggregateKey,
    project: AggregateKey,
    organization: AggregateKey,
    role_keys: Vec<String>,
}

impl Command for Create {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let owner = owner_of_project(turn, deciding, &self.project);
        let is_there = is_there::<Organization>(turn, &self.organization);
        let roles = roles(turn, &self.project, "project_grant.role_keys", &self.role_keys);
        let owner = owner?;
        let organization_id = self.organization.id.clone();
        let is_its_own = owner == Owner::organization(&organization_id);
        let grant =
            |roles| ProjectGrant { project_id: self.project.id.clone(), organization_id, roles, is_active: true };
        let current = turn.unborn::<Standard<ProjectGrant>>(&self.key, &owner)?;
        // A caller who may not grant the project learns nothing about roles and organizations.
        deciding.permit_within(turn, &current, vec![Part::project(&self.project.id)])?;
        let roles = roles?;
        if !is_there {
            return Err(Rejection::NotFound(Organization::NAME).into());
        }
        if is_its_own {
            let rule = "must not be the organization of the project";
            return Err(Rejection::invalid("project_grant.org_id", rule).into());
        }
        Ok((deciding.decide(turn, current, Asked::Create(grant(roles)))?, ()))
    }
}

async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchProjectGrantRequest,
) -> Result<Answer<PatchProjectGrantResponse>, Error> {
    let role_keys = request.project_grant.clone().unwrap_or_default().role_keys.map(|wanted| wanted.values);
    let (command, id) = (Change { key: key::<ProjectGrant>(&call, &request.id)?, role_keys }, request.id.clone());
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A change of the roles of a project grant.
struct Change {
    key: AggregateKey,
    role_keys: Option<Vec<String>>,
}

impl Command for Change {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<ProjectGrant>>(&self.key);
        existence::require_existing(turn, &current)?;
        let Some(before) = current.resource().cloned() else {
            return Err(Rejection::NotFound(ProjectGrant::NAME).into());
        };
        let project = AggregateKey::of::<Standard<Project>>(&self.key.instance_id, &before.project_id);
        let wanted = self.role_keys.as_ref().map(|keys| roles(turn, &project, "project_grant.role_keys.values", keys));
        deciding.permit_on(turn, &current)?;
        let wanted = wanted.transpose()?;
        let taken: Vec<_> = match &wanted {
            Some(wanted) => before.roles.iter().filter(|role| !wanted.contains(role)).collect(),
            None => vec![],
        };
        if !taken.is_empty() {
            self.take(turn, deciding, &taken)?;
        }
        Ok((deciding.decide(turn, current, Asked::Patch(ProjectGrantPatch { roles: wanted }))?, ()))
    }
}

impl Change {
    /// Removes roles from the user grants that were made by the project grant.
    fn take(&self, turn: &mut Turn<'_>, deciding: &Deciding, taken: &[&GrantedRole]) -> Result<(), Refusal> {
        references::are_complete(turn)?;
        let given = turn.referrers(&self.key, PROJECT_GRANT);
        if given.has_more {
            let reason = "more than 200 users have roles through it, too many to remove roles from at once: delete \
                          some of these user grants, or the project grant";
            return Err(Rejection::Precondition(reason).into());
        }
        for key in &given.keys {
            let current = turn.get::<Standard<UserGrant>>(key);
            let Some(before) = current.resource() else { continue };
            let left = before.roles.iter().filter(|role| !taken.contains(role)).cloned().collect();
            let patch = UserGrantPatch { roles: Some(left) };
            deciding.follow::<Standard<UserGrant>>(turn, current, Asked::Patch(patch))?;
        }
        Ok(())
    }
}
