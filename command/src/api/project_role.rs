//! Handlers that create, change and delete roles of projects.

use std::{sync::Arc, time::Duration};

use domain::{
    reference::Link,
    rejection::Rejection,
    resource::{project::Project, project_grant, project_role::ProjectRole, user_grant},
    standard::{Command as Asked, Standard},
};
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, Reason},
    handler::Mounting,
};
use eventlog::record::AggregateKey;
use proto::grant::{CreateRoleRequest, CreateRoleResponse, DeleteRoleRequest, PatchRoleRequest};

use crate::{
    execute::{Command, Commands, Deciding},
    granted::{owner_of_project, role_of},
    references,
    standard::{self, details, key},
    turn::{Current, Decided, Refusal, Turn},
};

/// The links by which grants name a role.
const NAMED: [Link; 2] = [project_grant::ROLE, user_grant::ROLE];
/// How soon to retry what a sweep is about to make possible.
const SWEPT_IN: Duration = Duration::from_secs(1);

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(create).on(standard::patch::<PatchRoleRequest>).on(standard::delete::<ProjectRole, DeleteRoleRequest>)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateRoleRequest,
) -> Result<Answer<CreateRoleResponse>, Error> {
    let wanted = request.role.clone().unwrap_or_default();
    let project = key::<Project>(&call, &wanted.project_id)?;
    let role = ProjectRole {
        project_id: wanted.project_id,
        key: wanted.key,
        display_name: wanted.display_name,
        group: wanted.group,
    };
    let key = role_of(&call.tenant.id, &role.project_id, &role.key);
    let id = key.id.clone();
    let command = Create { key, project, role };
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A new role.
struct Create {
    key: AggregateKey,
    project: AggregateKey,
    role: ProjectRole,
}

impl Command for Create {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let owner = owner_of_project(turn, deciding, &self.project)?;
        let current = turn.get::<Standard<ProjectRole>>(&self.key).owned_by(&owner);
        let is_named = is_still_named(turn, &current)?;
        let is_another =
            |found: &ProjectRole| (&found.project_id, &found.key) != (&self.role.project_id, &self.role.key);
        if current.resource().is_some_and(is_another) {
            // Ids are hashes of 63 bits.
            return Err(Rejection::Precondition("another role has the id of this one").into());
        }
        let decided = deciding.decide(turn, current, Asked::Create(self.role.clone()))?;
        if is_named {
            let message = "a role with this key was just removed and grants still refer to it; try again";
            return Err(Error::new(Reason::NameBeingReleased, message).retry_after(SWEPT_IN).into());
        }
        Ok((decided, ()))
    }
}

/// Whether grants still name a removed role, because the sweep has not removed it from them yet: they would give a new
/// role with the same key.
fn is_still_named(turn: &mut Turn<'_>, current: &Current<Standard<ProjectRole>>) -> Result<bool, Refusal> {
    if current.head.version == 0 || current.resource().is_some() {
        return Ok(false);
    }
    references::are_complete(turn)?;
    let named = NAMED.map(|link| turn.referrers(&current.key, link));
    Ok(named.iter().any(|referrers| referrers.has_more || !referrers.keys.is_empty()))
}
