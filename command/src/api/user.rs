//! Users as they are written.

use std::{sync::Arc, time::Duration};

use api::user as words;
use base::{clock, secret::random_secret};
use domain::{
    context::Owner,
    resource::{
        membership::Membership,
        user::{Renewal, User, UserPatch},
    },
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use jiff::Timestamp;
use prost::Message;
use proto::{
    object::Details,
    shape::Identified,
    user::{
        CreateUserRequest, CreateUserResponse, DeactivateUserRequest, DeactivateUserResponse, DeleteUserRequest,
        DeleteUserResponse, GenerateUserSecretRequest, GenerateUserSecretResponse, LockUserRequest, LockUserResponse,
        PatchUserRequest, PatchUserResponse, ReactivateUserRequest, ReactivateUserResponse, UnlockUserRequest,
        UnlockUserResponse,
    },
};
use view::{
    directory::Name,
    keyring::{self, client_secret_hash},
};

use crate::{
    authority::{self, Object},
    escalation::{RoleContexts, RoleFreshness},
    execute::{Command, Commands, Deciding},
    standard::{details, key},
    turn::{Current, Decided, Refusal, Turn},
};

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(create).on(patch).on(delete).on(deactivate).on(reactivate).on(lock).on(unlock).on(generate_secret)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateUserRequest,
) -> Result<Answer<CreateUserResponse>, Error> {
    commands.create(&call, &request, (call.context.clone(), words::new(&request)), Into::into).await
}

async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchUserRequest,
) -> Result<Answer<PatchUserResponse>, Error> {
    change(&commands, &call, &request, Asked::Patch(words::patch(&request)), Into::into).await
}

/// Its roles go with it.
async fn delete(
    commands: Arc<Commands>,
    call: Call,
    request: DeleteUserRequest,
) -> Result<Answer<DeleteUserResponse>, Error> {
    change(&commands, &call, &request, Asked::Delete, Into::into).await
}

async fn deactivate(
    commands: Arc<Commands>,
    call: Call,
    request: DeactivateUserRequest,
) -> Result<Answer<DeactivateUserResponse>, Error> {
    change(&commands, &call, &request, Asked::Switch(false), Into::into).await
}

async fn reactivate(
    commands: Arc<Commands>,
    call: Call,
    request: ReactivateUserRequest,
) -> Result<Answer<ReactivateUserResponse>, Error> {
    change(&commands, &call, &request, Asked::Switch(true), Into::into).await
}

async fn lock(
    commands: Arc<Commands>,
    call: Call,
    request: LockUserRequest,
) -> Result<Answer<LockUserResponse>, Error> {
    change(&commands, &call, &request, Asked::Lock(true), Into::into).await
}

async fn unlock(
    commands: Arc<Commands>,
    call: Call,
    request: UnlockUserRequest,
) -> Result<Answer<UnlockUserResponse>, Error> {
    change(&commands, &call, &request, Asked::Lock(false), Into::into).await
}

async fn generate_secret(
    commands: Arc<Commands>,
    call: Call,
    request: GenerateUserSecretRequest,
) -> Result<Answer<GenerateUserSecretResponse>, Error> {
    let secrets = commands.keyring.key(&call.tenant.id, keyring::Purpose::ClientSecret).await.map_err(unavailable)?;
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

/// Changes a user, if the caller may do that to one with these roles: those that are found by their claims, because they
/// are in the user's own organization or above, and those in other organizations, which the read model knows.
async fn change<I: Message + Identified, O: Message + Default>(
    commands: &Commands,
    call: &Call,
    request: &I,
    asked: Asked<User>,
    answer: impl Fn(Details) -> O + Send + Sync + 'static,
) -> Result<Answer<O>, Error> {
    let (key, id) = (key::<User>(call, request.id())?, request.id().to_owned());
    let stops = matches!(asked, Asked::Switch(false) | Asked::Lock(true));
    let freshness = if stops { RoleFreshness::BestEffort } else { RoleFreshness::Required };
    let newest = commands.roles_processed(call, freshness).await;
    let principal = commands.directory.principal(&call.tenant.id, Name::Id(id.clone()), newest).await;
    let principal = freshness.accept(principal, None)?;
    let known_up_to = freshness.known_up_to(principal.as_ref().map_or(newest, |user| user.processed));
    let mut contexts = Owner::instance(&call.tenant.id).chain(&call.tenant.id);
    contexts.extend(principal.iter().flat_map(|user| &user.memberships).map(|held| held.context.clone()));
    let command = Change { key, asked, contexts, known_up_to };
    commands.execute(call, request, command, move |decided, ()| answer(details(&id, decided))).await
}

/// What is asked of a user.
struct Change {
    key: AggregateKey,
    asked: Asked<User>,
    /// Where it may hold roles, beside its organization.
    contexts: Vec<Owner>,
    /// Up to which sequence that is known.
    known_up_to: u64,
}

impl Command for Change {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<User>>(&self.key);
        let mut memberships = vec![];
        if current.resource().is_some() {
            let owner = current.owner()?;
            let object = Object { name: User::NAME, exists: true, user_id: Some(self.key.id.clone()) };
            deciding.permit(turn, owner, &object)?;
            if has_power(&self.asked) {
                memberships = self.memberships(turn, deciding, owner)?;
            }
        }
        let decided = deciding.decide(turn, current, self.asked.clone())?;
        if matches!(self.asked, Asked::Delete) {
            for membership in memberships {
                deciding.follow(turn, membership, Asked::Delete)?;
            }
        }
        Ok((decided, ()))
    }
}

impl Change {
    /// The memberships of the user, if the caller could give them.
    fn memberships(
        &self,
        turn: &mut Turn<'_>,
        deciding: &Deciding,
        owner: &Owner,
    ) -> Result<Vec<Current<Standard<Membership>>>, Refusal> {
        let contexts = self.contexts.iter().chain([owner]);
        let memberships = authority::memberships(turn, &deciding.keys.instance, &self.key.id, contexts);
        if !deciding.authority.is_caller(&self.key.id) {
            let contexts = memberships.iter().filter_map(Current::resource).map(|held| held.context.clone()).collect();
            RoleContexts { contexts, known_up_to: self.known_up_to }.check_escalation(turn, deciding, &self.key)?;
        }
        Ok(memberships)
    }
}

/// Whether what is asked gives the caller the roles of the user, or takes the user away from those who gave them.
fn has_power(asked: &Asked<User>) -> bool {
    match asked {
        Asked::Patch(patch) => patch.username.is_some() || patch.renewal.is_some(),
        _ => true,
    }
}
