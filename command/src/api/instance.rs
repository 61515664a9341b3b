//! Handlers that create, change, limit and delete instances.

use std::{collections::HashSet, sync::Arc};

use api::instance::limits;
use base::secret::random_secret;
use domain::{
    context::Owner,
    newcomer::Newcomer,
    rejection::Rejection,
    resource::instance::{Instance, InstancePatch},
    role::IAM_OWNER,
    setting::features::{FLAGS, Features},
    settings::Chain,
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use jiff::Timestamp;
use proto::instance::{
    BulkLimitRequest, BulkLimitResponse, CreateInstanceRequest, CreateInstanceResponse, DeactivateInstanceRequest,
    DeactivateInstanceResponse, DeleteInstanceRequest, DeleteInstanceResponse, FirstLogin,
    FirstPerson as FirstPersonSent, FirstUser, LimitRequest, LimitResponse, PatchInstanceRequest,
    ReactivateInstanceRequest,
};
use view::keyring::{Purpose, SYSTEM};

use crate::{
    authority::Object,
    execute::{Command, Commands, Deciding},
    founding::Founding,
    person_key::key_unavailable,
    seat,
    setup::{ADMIN, FirstPerson, Plan, ServiceUser},
    standard::{self, details, key},
    turn::{Decided, Refusal, Turn},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(standard::patch::<PatchInstanceRequest>)
        .on(delete)
        .on(deactivate)
        .on(standard::reactivate::<Instance, ReactivateInstanceRequest>)
        .on(limit)
        .on(bulk_limit)
}

/// Creates an instance, with the feature flags of the instance that the caller belongs to.
async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateInstanceRequest,
) -> Result<Answer<CreateInstanceResponse>, Error> {
    let wanted = request.instance.clone().unwrap_or_default();
    let or = |text: &str, other: &str| if text.is_empty() { other } else { text }.to_owned();
    let first = ServiceUser {
        user_id: commands.ids.next(),
        client_id: or(&wanted.service_username, ADMIN),
        client_secret: random_secret(),
        roles: vec![IAM_OWNER.name.to_owned()],
    };
    let plan = Plan {
        instance_id: commands.ids.next(),
        organization_name: or(&wanted.organization_name, &wanted.name),
        name: wanted.name,
        hosts: vec![wanted.domain],
        organization_id: commands.ids.next(),
        project_id: commands.ids.next(),
        service_users: vec![first.clone()],
        person: wanted.person.map(|person| FirstPerson::new(commands.ids.next(), newcomer(person))),
        features: flags(&commands, &call),
    };
    let system = commands.keyring.key(SYSTEM, Purpose::Claim).await.map_err(unavailable)?;
    let (keyring, ids, planned) = (commands.keyring.clone(), commands.ids.clone(), plan.clone());
    let drawn =
        seat::generate(&commands, &call.tenant.id, move || Founding::draw(&keyring, &ids, planned, system)).await?;
    let founding = drawn.sealed(&commands.persons).await.map_err(key_unavailable)?;
    let issuer = commands.external.url(&plan.hosts[0]);
    let login = plan.person.as_ref().map(|person| first_login(&issuer, person));
    let answer = move |decided: &Decided, (): &()| CreateInstanceResponse {
        details: Some(details(&plan.instance_id, decided)),
        issuer: issuer.clone(),
        organization_id: plan.organization_id.clone(),
        project_id: plan.project_id.clone(),
        service_user: Some(FirstUser {
            user_id: first.user_id.clone(),
            client_id: first.client_id.clone(),
            client_secret: first.client_secret.clone(),
        }),
        first_login: login.clone(),
    };
    commands.execute(&call, &request, Create { founding }, answer).await
}

fn newcomer(FirstPersonSent { username, given_name, family_name, email }: FirstPersonSent) -> Newcomer {
    Newcomer { username, given_name, family_name, email }
}

/// How a first person logs in.
fn first_login(issuer: &str, FirstPerson { user_id, person, password, expires_at }: &FirstPerson) -> FirstLogin {
    FirstLogin {
        user_id: user_id.clone(),
        login_url: format!("{issuer}/ui/login"),
        username: person.username.clone(),
        one_time_password: password.clone(),
        expiration_date: Timestamp::from_millisecond(*expires_at).ok().map(Into::into),
    }
}

/// A new instance with all that it needs to serve.
struct Create {
    founding: Founding,
}

impl Command for Create {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        deciding.permit(turn, &Owner::system(), &Object::of_nobody(Instance::NAME, false))?;
        Ok((self.founding.write_all(turn, &deciding.cause)?, ()))
    }
}

/// Returns the feature flags that the caller's instance sets itself. Flags that it inherits are inherited by the new
/// one, too.
fn flags(commands: &Commands, call: &Call) -> Vec<String> {
    let id = &call.home.id;
    let effective = commands.settings.effective::<Features>(id, &Owner::instance(id)).chain;
    let own = Chain { above: vec![], ..effective };
    FLAGS.into_iter().filter(|flag| own.has(flag)).map(str::to_owned).collect()
}

async fn delete(
    commands: Arc<Commands>,
    call: Call,
    request: DeleteInstanceRequest,
) -> Result<Answer<DeleteInstanceResponse>, Error> {
    // So one instance is always left under whose host operators are served.
    of_another(&call, &request.id)?;
    standard::delete_named::<Instance, _, _>(&commands, &call, &request).await
}

async fn deactivate(
    commands: Arc<Commands>,
    call: Call,
    request: DeactivateInstanceRequest,
) -> Result<Answer<DeactivateInstanceResponse>, Error> {
    keeps_in(&call, &request.id)?;
    standard::deactivate::<Instance, _>(commands, call, request).await
}

/// Refuses to switch off or block the caller's own instance, so that an operator who is a user of it is not locked out.
fn keeps_in(call: &Call, id: &str) -> Result<(), Error> {
    if call.is_system { Ok(()) } else { of_another(call, id) }
}

fn of_another(call: &Call, id: &str) -> Result<(), Error> {
    if id == call.home.id {
        return Err(Rejection::Precondition("this instance is serving the request: send it to another instance").into());
    }
    Ok(())
}

async fn limit(commands: Arc<Commands>, call: Call, request: LimitRequest) -> Result<Answer<LimitResponse>, Error> {
    let patch = limits(request.limits.unwrap_or_default());
    if patch.block == Some(true) {
        keeps_in(&call, &request.id)?;
    }
    standard::patch_with::<Instance, _, _>(&commands, &call, &request, patch, Into::into).await
}

async fn bulk_limit(
    commands: Arc<Commands>,
    call: Call,
    request: BulkLimitRequest,
) -> Result<Answer<BulkLimitResponse>, Error> {
    let mut seen = HashSet::new();
    if request.limits.is_empty() || !request.limits.iter().all(|limits| seen.insert(&limits.id)) {
        return Err(Rejection::invalid("limits", "must name at least one instance, and none twice").into());
    }
    let wanted = request.limits.iter().map(|one| {
        let patch = limits(one.limits.unwrap_or_default());
        if patch.block == Some(true) {
            keeps_in(&call, &one.id)?;
        }
        Ok((key::<Instance>(&call, &one.id)?, patch))
    });
    let wanted = wanted.collect::<Result<Vec<_>, Error>>()?;
    let last = request.limits.last().map(|limits| limits.id.clone()).unwrap_or_default();
    commands.execute(&call, &request, Limit { wanted }, move |decided, ()| details(&last, decided).into()).await
}

/// A change of the limits of several instances: all of them change, or none.
struct Limit {
    wanted: Vec<(AggregateKey, InstancePatch)>,
}

impl Command for Limit {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let all: Vec<_> = self.wanted.iter().map(|(key, _)| turn.get::<Standard<Instance>>(key)).collect();
        if all.len() > 1 {
            deciding.compare_none()?;
        }
        let mut last = None;
        for (current, (key, patch)) in all.into_iter().zip(&self.wanted) {
            if current.resource().is_none() {
                return Err(Error::from(Rejection::NotFound(Instance::NAME)).with("id", key.id.clone()).into());
            }
            last = Some(deciding.decide(turn, current, Asked::Patch(patch.clone()))?);
        }
        Ok((last.ok_or(Rejection::NotFound(Instance::NAME))?, ()))
    }
}
