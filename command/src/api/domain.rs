//! Domains as they are written.

use std::sync::Arc;

use ::domain::{
    context::{Owner, OwnerType},
    rejection::Rejection,
    resource::{
        domain::{Domain, DomainPatch},
        instance::{Instance, InstancePatch},
        organization::{Organization, OrganizationPatch},
    },
    standard::{Command as Asked, Standard},
};
use api::details;
use base::secret::random_text;
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error, refusal::permission_denied};
use eventlog::record::Key;
use proto::domain::{
    CreateDomainRequest, CreateDomainResponse, DeleteDomainRequest, DeleteDomainResponse, DomainValidationType,
    PatchDomainRequest, PatchDomainResponse, SetAsPrimaryRequest, SetAsPrimaryResponse, ValidateRequest,
    ValidateResponse,
};
use view::keyring::{Purpose, SYSTEM, claim_hash};

use crate::{
    challenge::Place,
    execute::{Commands, Deciding},
    standard::{self, key},
    turn::{Decided, Stop, Turn},
};

/// The permission by which operators of the platform give instances their hosts.
const GIVE_HOSTS: &str = "system.instance.write";
/// How many letters and digits a challenge has.
const CHALLENGE: usize = 32;

pub(super) async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateDomainRequest,
) -> Result<Answer<CreateDomainResponse>, Error> {
    if call.context.kind == OwnerType::System {
        return Err(Rejection::invalid("ctx", "must be an instance or an organization").into());
    }
    let wanted = request.domain.clone().unwrap_or_default();
    let (context, id) = (call.context.clone(), commands.ids.next());
    let domain = Domain {
        name: wanted.domain,
        is_primary: false,
        is_verified: wanted.is_verified,
        challenge: random_text(CHALLENGE),
        context: Some(context.clone()),
    };
    let challenge = details::challenge(&domain);
    let own = Key::of::<Standard<Domain>>(&call.tenant.id, &id);
    let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
        let known = turn.unborn::<Standard<Domain>>(&own)?;
        if domain.is_verified && !deciding.authority.may(turn, GIVE_HOSTS, &Owner::system())? {
            return Err(permission_denied(GIVE_HOSTS).into());
        }
        deciding.decide(turn, (&own, &context), known, Asked::Create(domain.clone()))
    };
    let answer = move |decided: &Decided| CreateDomainResponse {
        details: Some(standard::details(&id, decided)),
        challenge: challenge.clone(),
    };
    commands.execute_with(&call, &request, decide, answer).await
}

pub(super) async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchDomainRequest,
) -> Result<Answer<PatchDomainResponse>, Error> {
    let name = request.domain.clone().unwrap_or_default().domain;
    let patch = DomainPatch { name, ..DomainPatch::default() };
    commands.patch::<Domain, _, _>(&call, &request, patch, Into::into).await
}

pub(super) async fn delete(
    commands: Arc<Commands>,
    call: Call,
    request: DeleteDomainRequest,
) -> Result<Answer<DeleteDomainResponse>, Error> {
    let (key, id) = (key::<Domain>(&call, &request.id)?, request.id.clone());
    let owner = Owner::instance(&call.tenant.id);
    let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
        let known = turn.known::<Standard<Domain>>(&key)?;
        let is_primary = known.state.as_ref().as_ref().is_some_and(|domain| domain.is_primary);
        let context = known.place.owner.clone().unwrap_or_else(|| owner.clone());
        let decided = deciding.decide(turn, (&key, &owner), known, Asked::Delete)?;
        if is_primary && context.kind != OwnerType::Organization {
            let reason = "the issuer of the instance is made of it; make another one primary";
            return Err(Rejection::Precondition(reason).into());
        }
        if is_primary {
            tell_primary(turn, deciding, (&key, &context), None)?;
        }
        Ok(decided)
    };
    commands.execute_with(&call, &request, decide, move |decided| standard::details(&id, decided).into()).await
}

/// The challenge is looked for outside of the turn. The turn verifies only what was looked for.
pub(super) async fn validate(
    commands: Arc<Commands>,
    call: Call,
    request: ValidateRequest,
) -> Result<Answer<ValidateResponse>, Error> {
    let place = match request.validation_type() {
        DomainValidationType::Http => Place::Http,
        DomainValidationType::Dns | DomainValidationType::Unspecified => Place::Dns,
    };
    let key = key::<Domain>(&call, &request.id)?;
    let (seen, _) = commands.look::<Domain>(&call, &key).await?;
    if !seen.is_verified {
        commands.challenges.find(&call.tenant.id, &seen, place).await?;
    }
    let (id, owner) = (request.id.clone(), Owner::instance(&call.tenant.id));
    let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
        let known = turn.known::<Standard<Domain>>(&key)?;
        let is_other = |now: &Domain| now.name != seen.name || seen.is_verified && !now.is_verified;
        let has_changed = known.state.as_ref().as_ref().is_some_and(|domain| is_other(domain));
        let verified = DomainPatch { is_verified: Some(true), ..DomainPatch::default() };
        let decided = deciding.decide(turn, (&key, &owner), known, Asked::Patch(verified))?;
        if has_changed {
            let reason = "its name was changed meanwhile; validate it again";
            return Err(Rejection::Precondition(reason).into());
        }
        Ok(decided)
    };
    commands.execute_with(&call, &request, decide, move |decided| standard::details(&id, decided).into()).await
}

pub(super) async fn set_as_primary(
    commands: Arc<Commands>,
    call: Call,
    request: SetAsPrimaryRequest,
) -> Result<Answer<SetAsPrimaryResponse>, Error> {
    let (key, id) = (key::<Domain>(&call, &request.id)?, request.id.clone());
    let of_instance = commands.keyring.key(&call.tenant.id, Purpose::Claim).await.map_err(unavailable)?;
    let of_system = commands.keyring.key(SYSTEM, Purpose::Claim).await.map_err(unavailable)?;
    let (instance, host) = (Owner::instance(&call.tenant.id), call.tenant.primary_domain.clone());
    let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
        let known = turn.known::<Standard<Domain>>(&key)?;
        let context = known.place.owner.clone().unwrap_or_else(|| instance.clone());
        let first = turn.holder(&claim_hash(&of_instance, &Domain::primary_claim(&context)));
        // One of an older build holds its name only.
        let older = (context == instance).then(|| turn.holder(&claim_hash(&of_system, &Domain::claim(None, &host))));
        turn.complete()?;
        let first = first.flatten().or(older.flatten().flatten()).filter(|first| *first != key);
        // What is cached of the instance may be older than another instance's domain of that name.
        let first = first.filter(|first| first.instance_id == key.instance_id);
        let before = first.as_ref().map(|first| turn.get::<Standard<Domain>>(first)).transpose()?;
        turn.complete()?;
        let set = |is_primary| {
            let context = Some(context.clone());
            Asked::Patch(DomainPatch { is_primary: Some(is_primary), context, ..DomainPatch::default() })
        };
        if let (Some(first), Some(Some(before))) = (first, before)
            && before.state.as_ref().as_ref().is_some_and(|domain| domain.is_primary)
        {
            deciding.follow(turn, (&first, &context), before, set(false))?;
        }
        let name = known.state.as_ref().as_ref().map(|domain| domain.name.clone());
        let decided = deciding.decide(turn, (&key, &context), known, set(true))?;
        tell_primary(turn, deciding, (&key, &context), name)?;
        Ok(decided)
    };
    commands.execute_with(&call, &request, decide, move |decided| standard::details(&id, decided).into()).await
}

/// Tells the context of a domain which one is its primary now.
fn tell_primary(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    (domain, context): (&Key, &Owner),
    name: Option<String>,
) -> Result<(), Stop> {
    let (instance_id, id) = (&domain.instance_id, &context.id);
    if context.kind == OwnerType::Organization {
        let key = Key::of::<Standard<Organization>>(instance_id, id);
        let known = turn.known::<Standard<Organization>>(&key)?;
        let patch = OrganizationPatch { primary_domain: Some(name), ..OrganizationPatch::default() };
        deciding.follow(turn, (&key, &Owner::instance(instance_id)), known, Asked::Patch(patch))?;
    } else {
        let key = Key::of::<Standard<Instance>>(instance_id, instance_id);
        let known = turn.known::<Standard<Instance>>(&key)?;
        let patch = InstancePatch { primary_domain: name, ..InstancePatch::default() };
        deciding.follow(turn, (&key, &Owner::system()), known, Asked::Patch(patch))?;
    }
    Ok(())
}
