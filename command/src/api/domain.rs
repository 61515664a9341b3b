//! Handlers that create, change, verify and delete domains.

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
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting, refusal::permission_denied};
use eventlog::record::AggregateKey;
use proto::domain::{
    CreateDomainRequest, CreateDomainResponse, DeleteDomainRequest, DeleteDomainResponse, DomainValidationType,
    PatchDomainRequest, SetAsPrimaryRequest, SetAsPrimaryResponse, ValidateRequest, ValidateResponse,
};
use view::keyring::claim_hash;

use crate::{
    challenge::ChallengeMethod,
    execute::{Command, Commands, Deciding},
    standard::{self, key},
    turn::{Current, Decided, Refusal, Turn},
};

/// The permission by which operators of the platform give instances their hosts.
const GIVE_HOSTS: &str = "system.instance.write";
/// How many letters and digits a challenge has.
const CHALLENGE: usize = 32;

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(create).on(standard::patch::<PatchDomainRequest>).on(delete).on(validate).on(set_as_primary)
}

async fn create(
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
    let command = Create { key: AggregateKey::of::<Standard<Domain>>(&call.tenant.id, &id), context, domain };
    let answer = move |decided: &Decided, (): &()| CreateDomainResponse {
        details: Some(standard::details(&id, decided)),
        challenge: challenge.clone(),
    };
    commands.execute(&call, &request, command, answer).await
}

/// A new domain.
struct Create {
    key: AggregateKey,
    context: Owner,
    domain: Domain,
}

impl Command for Create {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.unborn::<Standard<Domain>>(&self.key, &self.context)?;
        if self.domain.is_verified && !deciding.authority.may(turn, GIVE_HOSTS, &Owner::system()) {
            return Err(permission_denied(GIVE_HOSTS).into());
        }
        Ok((deciding.decide(turn, current, Asked::Create(self.domain.clone()))?, ()))
    }
}

async fn delete(
    commands: Arc<Commands>,
    call: Call,
    request: DeleteDomainRequest,
) -> Result<Answer<DeleteDomainResponse>, Error> {
    let (command, id) = (Delete { key: key::<Domain>(&call, &request.id)? }, request.id.clone());
    commands.execute(&call, &request, command, move |decided, ()| standard::details(&id, decided).into()).await
}

/// The deletion of a domain; the primary domain of an instance cannot be deleted.
struct Delete {
    key: AggregateKey,
}

impl Command for Delete {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<Domain>>(&self.key);
        let is_primary = current.resource().is_some_and(|domain| domain.is_primary);
        let decided = deciding.decide(turn, current, Asked::Delete)?;
        if is_primary && decided.owner.kind != OwnerType::Organization {
            let reason = "it is the host of the instance's issuer; make another domain primary first";
            return Err(Rejection::Precondition(reason).into());
        }
        if is_primary {
            note_primary(turn, deciding, &self.key.instance_id, &decided.owner, None)?;
        }
        Ok((decided, ()))
    }
}

/// Looks for the challenge outside of the turn. The turn verifies the domain only as it was when the challenge was
/// found.
async fn validate(
    commands: Arc<Commands>,
    call: Call,
    request: ValidateRequest,
) -> Result<Answer<ValidateResponse>, Error> {
    let place = match request.validation_type() {
        DomainValidationType::Http => ChallengeMethod::Http,
        DomainValidationType::Dns | DomainValidationType::Unspecified => ChallengeMethod::Dns,
    };
    let key = key::<Domain>(&call, &request.id)?;
    let (seen, _) = commands.read::<Domain>(&call, &key).await?;
    if !seen.is_verified {
        commands.challenges.find(&call.tenant.id, &seen, place).await?;
    }
    let (command, id) = (Verify { key, seen }, request.id.clone());
    commands.execute(&call, &request, command, move |decided, ()| standard::details(&id, decided).into()).await
}

/// The verification of a domain whose challenge was found, with the state of the domain at that time.
struct Verify {
    key: AggregateKey,
    seen: Domain,
}

impl Command for Verify {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let (current, seen) = (turn.get::<Standard<Domain>>(&self.key), &self.seen);
        let is_other = |now: &Domain| now.name != seen.name || seen.is_verified && !now.is_verified;
        let has_changed = current.resource().is_some_and(is_other);
        let verified = DomainPatch { is_verified: Some(true), ..DomainPatch::default() };
        let decided = deciding.decide(turn, current, Asked::Patch(verified))?;
        if has_changed {
            let reason = "its name was changed meanwhile; validate it again";
            return Err(Rejection::Precondition(reason).into());
        }
        Ok((decided, ()))
    }
}

async fn set_as_primary(
    commands: Arc<Commands>,
    call: Call,
    request: SetAsPrimaryRequest,
) -> Result<Answer<SetAsPrimaryResponse>, Error> {
    let command = SetAsPrimary { key: key::<Domain>(&call, &request.id)?, host: call.tenant.primary_domain.clone() };
    let id = request.id.clone();
    commands.execute(&call, &request, command, move |decided, ()| standard::details(&id, decided).into()).await
}

/// A command that makes a domain the primary one of its context.
struct SetAsPrimary {
    key: AggregateKey,
    /// The primary domain of the instance so far, as the caller's node knows it.
    host: String,
}

impl Command for SetAsPrimary {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let instance = Owner::instance(&self.key.instance_id);
        let current = turn.get::<Standard<Domain>>(&self.key).owned_by(&instance);
        let context = current.owner()?.clone();
        let before = self.before(turn, deciding, &context);
        let set = |is_primary| {
            let context = Some(context.clone());
            Asked::Patch(DomainPatch { is_primary: Some(is_primary), context, ..DomainPatch::default() })
        };
        if let Some(before) = before {
            deciding.follow(turn, before, set(false))?;
        }
        let name = current.resource().map(|domain| domain.name.clone());
        let decided = deciding.decide(turn, current, set(true))?;
        note_primary(turn, deciding, &self.key.instance_id, &context, name)?;
        Ok((decided, ()))
    }
}

impl SetAsPrimary {
    /// Returns the domain that is the primary one of the context so far, if it is another one.
    fn before(&self, turn: &mut Turn<'_>, deciding: &Deciding, context: &Owner) -> Option<Current<Standard<Domain>>> {
        let primary = turn.holder(&claim_hash(&deciding.keys.instance, &Domain::primary_claim(context)));
        // A domain that an older build wrote holds the claim of its name only.
        let name = claim_hash(&deciding.keys.system, &Domain::claim(None, &self.host));
        let older = if context.kind == OwnerType::Instance { turn.holder(&name) } else { None };
        // The cached host may belong to a domain of another instance by now.
        let is_another = |found: &AggregateKey| *found != self.key && found.instance_id == self.key.instance_id;
        let before = turn.get::<Standard<Domain>>(&primary.or(older).filter(is_another)?);
        before.resource().is_some_and(|domain| domain.is_primary).then_some(before)
    }
}

/// Records the name of the primary domain in the organization or the instance that it belongs to.
fn note_primary(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    instance_id: &str,
    context: &Owner,
    name: Option<String>,
) -> Result<(), Refusal> {
    if context.kind == OwnerType::Organization {
        let organization = turn.get(&AggregateKey::of::<Standard<Organization>>(instance_id, &context.id));
        let patch = OrganizationPatch { primary_domain: Some(name), ..OrganizationPatch::default() };
        deciding.follow::<Standard<Organization>>(turn, organization, Asked::Patch(patch))?;
    } else {
        let instance = turn.get(&AggregateKey::of::<Standard<Instance>>(instance_id, instance_id));
        let patch = InstancePatch { primary_domain: name, ..InstancePatch::default() };
        deciding.follow::<Standard<Instance>>(turn, instance, Asked::Patch(patch))?;
    }
    Ok(())
}
