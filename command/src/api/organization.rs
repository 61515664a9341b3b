//! Organizations as they are written.

use std::sync::Arc;

use domain::{
    context::{Owner, OwnerType},
    rejection::Rejection,
    resource::{
        instance::{Instance, InstancePatch},
        organization::{Organization, OrganizationPatch},
    },
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error};
use eventlog::record::Key;
use prost::Message;
use proto::{
    organization::{
        CreateOrganizationRequest, CreateOrganizationResponse, DeactivateOrganizationRequest,
        DeactivateOrganizationResponse, DeleteOrganizationRequest, DeleteOrganizationResponse,
        PatchOrganizationRequest, PatchOrganizationResponse, ReactivateOrganizationRequest,
        ReactivateOrganizationResponse, SetAsInstanceDefaultRequest, SetAsInstanceDefaultResponse,
    },
    shape::Identified,
};

use crate::{
    authority::Object,
    execute::{Commands, Deciding},
    powers::{Purpose, may_give_roles},
    standard::{Plain, details, key},
    turn::{Stop, Turn},
};

pub(super) async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateOrganizationRequest,
) -> Result<Answer<CreateOrganizationResponse>, Error> {
    if call.context.kind != OwnerType::Instance {
        return Err(Rejection::invalid("ctx", "must be an instance, or absent, and so must be x-platform-orgid").into());
    }
    let wanted = request.organization.clone().unwrap_or_default();
    let organization = Organization::new(wanted.name);
    commands.create(&call, &request, (call.context.clone(), organization), Into::into).await
}

pub(super) async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchOrganizationRequest,
) -> Result<Answer<PatchOrganizationResponse>, Error> {
    let name = request.organization.clone().unwrap_or_default().name;
    let patch = OrganizationPatch { name, ..OrganizationPatch::default() };
    commands.patch::<Organization, _, _>(&call, &request, patch, Into::into).await
}

pub(super) async fn deactivate(
    commands: Arc<Commands>,
    call: Call,
    request: DeactivateOrganizationRequest,
) -> Result<Answer<DeactivateOrganizationResponse>, Error> {
    with_its_users(&commands, &call, &request, Asked::Switch(false)).await
}

pub(super) async fn reactivate(
    commands: Arc<Commands>,
    call: Call,
    request: ReactivateOrganizationRequest,
) -> Result<Answer<ReactivateOrganizationResponse>, Error> {
    with_its_users(&commands, &call, &request, Asked::Switch(true)).await
}

pub(super) async fn delete(
    commands: Arc<Commands>,
    call: Call,
    request: DeleteOrganizationRequest,
) -> Result<Answer<DeleteOrganizationResponse>, Error> {
    with_its_users(&commands, &call, &request, Asked::Delete).await
}

/// What becomes of it becomes of its users, so it is for those who could give them the roles that they hold elsewhere.
///
/// The default one stays, and stays on: those who name no organization would be nowhere, and whoever owns only this one
/// would lock out who owns the instance.
async fn with_its_users<I: Message + Identified, O: Plain>(
    commands: &Commands,
    call: &Call,
    request: &I,
    asked: Asked<Organization>,
) -> Result<Answer<O>, Error> {
    let key = key::<Organization>(call, request.id())?;
    let (instance, owner, id) = (instance(call), Owner::instance(&call.tenant.id), request.id().to_owned());
    let purpose = if matches!(asked, Asked::Switch(false)) { Purpose::Stop } else { Purpose::Power };
    commands.roles_known(call, purpose).await;
    // They may hold any roles as long as nobody knows.
    let any = (0, vec![Owner::instance(&call.tenant.id)]);
    let outside = commands.directory.roles_outside(&call.tenant.id, &id).await;
    let (processed, contexts) = purpose.said(outside, any)?;
    let heard = purpose.heard(processed);
    let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
        let instance = turn.get::<Standard<Instance>>(&instance)?;
        let known = turn.known::<Standard<Organization>>(&key)?;
        turn.complete()?;
        if known.state.is_some() {
            deciding.permit(turn, &Owner::organization(&key.id), &Object { name: Organization::NAME, exists: true })?;
            let instance = instance.as_ref().and_then(|instance| instance.state.as_ref().as_ref());
            let goes = !matches!(asked, Asked::Switch(true));
            if goes && instance.is_some_and(|instance| instance.default_organization_id.as_ref() == Some(&key.id)) {
                let reason = "it is the default organization of the instance; make another one that";
                return Err(Rejection::Precondition(reason).into());
            }
            may_give_roles(turn, deciding, contexts.clone(), (&key, heard))?;
        }
        deciding.decide(turn, (&key, &owner), known, asked.clone())
    };
    commands.execute_with(call, request, decide, move |decided| details(&id, decided).into()).await
}

pub(super) async fn set_as_default(
    commands: Arc<Commands>,
    call: Call,
    request: SetAsInstanceDefaultRequest,
) -> Result<Answer<SetAsInstanceDefaultResponse>, Error> {
    let organization = key::<Organization>(&call, &request.id)?;
    let (instance, owner, id) = (instance(&call), Owner::system(), call.tenant.id.clone());
    let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
        let (known, found) =
            (turn.get::<Standard<Instance>>(&instance)?, turn.get::<Standard<Organization>>(&organization)?);
        turn.complete()?;
        let (Some(known), Some(found)) = (known, found) else { return Err(Stop::Missing) };
        let Some(found) = found.state.as_ref() else {
            return Err(Rejection::NotFound(Organization::NAME).into());
        };
        if !found.known.is_active {
            return Err(Rejection::Precondition("the organization is switched off; switch it on first").into());
        }
        let default =
            InstancePatch { default_organization_id: Some(organization.id.clone()), ..InstancePatch::default() };
        deciding.decide(turn, (&instance, &owner), known, Asked::Patch(default))
    };
    commands.execute_with(&call, &request, decide, move |decided| details(&id, decided).into()).await
}

/// The instance of the call.
fn instance(call: &Call) -> Key {
    Key::of::<Standard<Instance>>(&call.tenant.id, &call.tenant.id)
}
