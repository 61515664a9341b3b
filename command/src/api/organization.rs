//! Handlers that create, change and delete organizations.

use std::sync::Arc;

use domain::{
    context::{Owner, OwnerType},
    rejection::Rejection,
    resource::{
        instance::{Instance, InstancePatch},
        organization::Organization,
        project::Project,
    },
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use futures::FutureExt;
use prost::Message;
use proto::{
    organization::{
        CreateOrganizationRequest, CreateOrganizationResponse, DeactivateOrganizationRequest,
        DeleteOrganizationRequest, PatchOrganizationRequest, ReactivateOrganizationRequest,
        SetAsInstanceDefaultRequest, SetAsInstanceDefaultResponse,
    },
    shape::Identified,
};

use crate::{
    authority::Object,
    escalation,
    execute::{Command, Commands, Deciding},
    removal::remove,
    standard::{self, Answering, NewResource, Plain, details, key},
    turn::{Current, Decided, Refusal, Turn},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(standard::patch::<PatchOrganizationRequest>)
        .on(handler(|_: &DeleteOrganizationRequest| Asked::Delete))
        .on(handler(|_: &DeactivateOrganizationRequest| Asked::Switch(false)))
        .on(handler(|_: &ReactivateOrganizationRequest| Asked::Switch(true)))
        .on(set_as_default)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateOrganizationRequest,
) -> Result<Answer<CreateOrganizationResponse>, Error> {
    if call.context.kind != OwnerType::Instance {
        return Err(Rejection::invalid("ctx", "must be an instance, or absent, and so must be x-platform-orgid").into());
    }
    let wanted = request.organization.clone().unwrap_or_default();
    let organization = Organization::new(wanted.name);
    standard::create(
        &commands,
        &call,
        &request,
        NewResource { owner: call.context.clone(), resource: organization },
        Into::into,
    )
    .await
}

/// Returns a handler of requests whose type determines what happens to an organization with all its users.
fn handler<I>(asked: fn(&I) -> Asked<Organization>) -> impl Fn(Arc<Commands>, Call, I) -> Answering<I::Response>
where
    I: Identified,
    I::Response: Plain,
{
    move |commands, call, request| {
        async move { with_its_users(&commands, &call, &request, asked(&request)).await }.boxed()
    }
}

/// Changes an organization together with its users, so the caller must be able to give them the roles that they hold
/// elsewhere.
///
/// The default organization cannot be deleted or switched off: users who name no organization would have none, and an
/// owner of only this organization would lock out the owners of the instance.
async fn with_its_users<I: Message + Identified, O: Plain>(
    commands: &Commands,
    call: &Call,
    request: &I,
    asked: Asked<Organization>,
) -> Result<Answer<O>, Error> {
    let (key, id) = (key::<Organization>(call, request.id())?, request.id().to_owned());
    let command = Change { key, instance: instance(call), asked };
    commands.execute(call, request, command, move |decided, ()| details(&id, decided).into()).await
}

/// The deletion or switching of an organization with all its users.
struct Change {
    key: AggregateKey,
    instance: AggregateKey,
    asked: Asked<Organization>,
}

impl Command for Change {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let instance = turn.get::<Standard<Instance>>(&self.instance);
        let current = turn.get::<Standard<Organization>>(&self.key);
        let has_platform = has_platform(turn, &instance, &self.key.id);
        if current.resource().is_some() {
            let id = &self.key.id;
            deciding.permit(turn, &Owner::organization(id), &Object::of_nobody(Organization::NAME, true))?;
            let goes = !matches!(self.asked, Asked::Switch(true));
            if goes && instance.resource().is_some_and(|found| found.default_organization_id.as_ref() == Some(id)) {
                let reason = "it is the instance's default organization; make another organization the default first";
                return Err(Rejection::Precondition(reason).into());
            }
            if has_platform && goes {
                let reason = "the platform's own project belongs to it, so it cannot be deleted or switched off";
                return Err(Rejection::Precondition(reason).into());
            }
            escalation::check_users_of(turn, deciding, &self.key)?;
        }
        let decided = match &self.asked {
            Asked::Delete => remove(turn, deciding, current)?,
            asked => deciding.decide(turn, current, asked.clone())?,
        };
        Ok((decided, ()))
    }
}

/// Whether the platform's own project belongs to an organization.
fn has_platform(turn: &mut Turn<'_>, instance: &Current<Standard<Instance>>, organization_id: &str) -> bool {
    let Some(found) = instance.resource() else { return false };
    let project = AggregateKey::of::<Standard<Project>>(&instance.key.instance_id, &found.platform_project_id);
    let project = turn.get::<Standard<Project>>(&project);
    project.owner().is_ok_and(|owner| *owner == Owner::organization(organization_id))
}

async fn set_as_default(
    commands: Arc<Commands>,
    call: Call,
    request: SetAsInstanceDefaultRequest,
) -> Result<Answer<SetAsInstanceDefaultResponse>, Error> {
    let command = SetAsDefault { organization: key::<Organization>(&call, &request.id)?, instance: instance(&call) };
    let id = call.tenant.id.clone();
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A command that makes an organization the default of its instance, which applies to users who name none.
struct SetAsDefault {
    organization: AggregateKey,
    instance: AggregateKey,
}

impl Command for SetAsDefault {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let instance = turn.get::<Standard<Instance>>(&self.instance);
        let organization = turn.get::<Standard<Organization>>(&self.organization);
        if !organization.resource().ok_or(Rejection::NotFound(Organization::NAME))?.is_active {
            return Err(Rejection::Precondition("the organization is switched off; switch it on first").into());
        }
        deciding.compare(&organization)?;
        let id = self.organization.id.clone();
        let default = InstancePatch { default_organization_id: Some(id), ..InstancePatch::default() };
        Ok((deciding.decide(turn, instance, Asked::Patch(default))?, ()))
    }
}

/// The instance of the call.
fn instance(call: &Call) -> AggregateKey {
    AggregateKey::of::<Standard<Instance>>(&call.tenant.id, &call.tenant.id)
}
