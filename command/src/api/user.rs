//! Users as they are written.

use std::{sync::Arc, time::Duration};

use domain::{
    context::Owner,
    resource::{
        membership::Membership,
        user::{Renewal, User, UserPatch},
    },
    standard::{Command as Asked, Resource, Standard},
};
use jiff::Timestamp;
use prost::Message;
use proto::{
    object::Details,
    shape::Identified,
    user::{
        CreateUserRequest, CreateUserResponse, DeactivateUserRequest, DeactivateUserResponse, DeleteUserRequest,
        DeleteUserResponse, GenerateUserSecretRequest, GenerateUserSecretResponse, PatchUserRequest, PatchUserResponse,
        ReactivateUserRequest, ReactivateUserResponse, patch_user, user,
    },
};
use store::{
    clock,
    database::Failure,
    directory::Name,
    keyring::{Purpose, client_secret_hash},
    projection::ACCESS,
    record::Key,
    secret::random_secret,
};
use transport::{
    consistency::unavailable,
    edge::{Call, permission_denied, read_model},
    error::Error,
    mount::Answer,
};

use crate::{
    authority::Object,
    execute::{Commands, Deciding},
    standard::{details, key},
    turn::{Known, Stop, Turn},
};

/// The permission to give roles.
const GIVE_ROLES: &str = "membership.write";

pub(super) async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateUserRequest,
) -> Result<Answer<CreateUserResponse>, Error> {
    let wanted = request.user.clone().unwrap_or_default();
    let service = wanted.r#type.map(|user::Type::Service(service)| service).unwrap_or_default();
    let user = User {
        username: wanted.username,
        name: service.name,
        description: service.description,
        is_active: true,
        ..User::default()
    };
    commands.create(&call, &request, (call.context.clone(), user), Into::into).await
}

pub(super) async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchUserRequest,
) -> Result<Answer<PatchUserResponse>, Error> {
    let wanted = request.user.clone().unwrap_or_default();
    let service = wanted.r#type.map(|patch_user::Type::Service(service)| service).unwrap_or_default();
    let (name, description) = (service.name, service.description);
    let patch = UserPatch { username: wanted.username, name, description, renewal: None };
    change(&commands, &call, &request, Asked::Patch(patch), Into::into).await
}

/// Its roles go with it.
pub(super) async fn delete(
    commands: Arc<Commands>,
    call: Call,
    request: DeleteUserRequest,
) -> Result<Answer<DeleteUserResponse>, Error> {
    change(&commands, &call, &request, Asked::Delete, Into::into).await
}

pub(super) async fn deactivate(
    commands: Arc<Commands>,
    call: Call,
    request: DeactivateUserRequest,
) -> Result<Answer<DeactivateUserResponse>, Error> {
    change(&commands, &call, &request, Asked::Switch(false), Into::into).await
}

pub(super) async fn reactivate(
    commands: Arc<Commands>,
    call: Call,
    request: ReactivateUserRequest,
) -> Result<Answer<ReactivateUserResponse>, Error> {
    change(&commands, &call, &request, Asked::Switch(true), Into::into).await
}

pub(super) async fn generate_secret(
    commands: Arc<Commands>,
    call: Call,
    request: GenerateUserSecretRequest,
) -> Result<Answer<GenerateUserSecretResponse>, Error> {
    let secrets = commands.keyring.key(&call.tenant.id, Purpose::ClientSecret).await.map_err(unavailable)?;
    let secret = random_secret();
    let expiration = request.previous_expiration.and_then(|duration| Duration::try_from(duration).ok());
    let previous_until = expiration
        .filter(|left| !left.is_zero())
        .map(|left| clock::now().as_millisecond().saturating_add(i64::try_from(left.as_millis()).unwrap_or(i64::MAX)));
    let renewal = Renewal { secret: client_secret_hash(&secrets, &request.id, &secret), previous_until };
    let patch = UserPatch { renewal: Some(renewal), ..UserPatch::default() };
    let previous_valid_until = previous_until.and_then(|until| Timestamp::from_millisecond(until).ok());
    let answer = move |details| GenerateUserSecretResponse {
        details: Some(details),
        client_secret: secret.clone(),
        previous_valid_until: previous_valid_until.map(Into::into),
    };
    change(&commands, &call, &request, Asked::Patch(patch), answer).await
}

/// Changes a user, if the caller may do that to one with these roles.
async fn change<I: Message + Identified, O: Message + Default>(
    commands: &Commands,
    call: &Call,
    request: &I,
    asked: Asked<User>,
    answer: impl Fn(Details) -> O + Send + Sync + 'static,
) -> Result<Answer<O>, Error> {
    let (key, id) = (key::<User>(call, request.id())?, request.id().to_owned());
    let newest = commands.progress.of(&ACCESS).borrow().sequence;
    let standing = match commands.directory.standing(&call.tenant.id, Name::Id(id.clone()), newest).await {
        // Who must be stopped is stopped while Postgres is away; what cannot be undone waits.
        Err(error) if matches!(asked, Asked::Switch(false)) && !matches!(*error, Failure::Inconsistent { .. }) => None,
        read => read.map_err(read_model)?,
    };
    let mut contexts = Owner::instance(&call.tenant.id).chain(&call.tenant.id);
    contexts.extend(standing.iter().flat_map(|user| &user.memberships).map(|held| held.context.clone()));
    let nowhere = Owner::instance(&call.tenant.id);
    let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
        let known = turn.get::<Standard<User>>(&key)?;
        turn.complete()?;
        let Some(known) = known else { return Err(Stop::Missing) };
        let owner = known.place.owner.clone().unwrap_or_else(|| nowhere.clone());
        let mut memberships = vec![];
        if known.state.is_some() {
            deciding.permit(turn, &owner, &Object { name: User::NAME, exists: true })?;
            let mut contexts = contexts.clone();
            contexts.push(owner.clone());
            memberships = powers(turn, deciding, &key.id, (contexts, &asked))?;
        }
        let decided = deciding.decide(turn, (&key, &owner), known, asked.clone())?;
        for (key, known) in memberships {
            deciding.follow(turn, (&key, &owner), known, Asked::Delete)?;
        }
        Ok(decided)
    };
    commands.execute_with(call, request, decide, move |decided| answer(details(&id, decided))).await
}

/// A membership, and what is known of it.
type Held = (Key, Known<Standard<Membership>>);

/// Refuses what would give the caller the roles of the user, or take the user away from those who gave them: only who may
/// give roles somewhere may do that to one who holds some there. Gives the memberships that end with what is asked.
///
/// The contexts are those that the read model knows: one in another organization than the user's own that it has not heard
/// of yet is missed.
fn powers(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    user_id: &str,
    (mut contexts, asked): (Vec<Owner>, &Asked<User>),
) -> Result<Vec<Held>, Stop> {
    let is_harmless = match asked {
        Asked::Patch(patch) => patch.username.is_none() && patch.renewal.is_none(),
        _ => false,
    };
    let (authority, mut held) = (&deciding.authority, vec![]);
    if is_harmless {
        return Ok(held);
    }
    contexts.sort_by_key(|context| (context.kind as u8, context.id.clone()));
    contexts.dedup();
    for context in contexts {
        for key in authority.memberships(turn, user_id, std::slice::from_ref(&context))? {
            if !authority.is_caller(user_id) && !authority.may(turn, GIVE_ROLES, &context)? {
                return Err(Stop::Refused(Box::new(permission_denied(GIVE_ROLES))));
            }
            let known = turn.get::<Standard<Membership>>(&key)?;
            turn.complete()?;
            held.extend(known.map(|known| (key, known)));
        }
    }
    if !matches!(asked, Asked::Delete) {
        held.clear();
    }
    Ok(held)
}
