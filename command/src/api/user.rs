//! Users as they are written.

use std::sync::Arc;

use api::user as words;
use domain::{
    resource::user::{User, UserPatch},
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use futures::FutureExt;
use prost::Message;
use proto::{
    object::Details,
    shape::Identified,
    user::{
        CreateUserRequest, CreateUserResponse, DeactivateUserRequest, DeleteUserRequest, GenerateUserSecretRequest,
        GenerateUserSecretResponse, LockUserRequest, PatchUserRequest, ReactivateUserRequest, UnlockUserRequest,
    },
};
use view::settings::instance_of;

use crate::{
    authority::Object,
    client_secret::NewSecret,
    escalation,
    execute::{Command, Commands, Deciding},
    removal::remove,
    signing_keys::Choosing,
    standard::{Answering, Create, Plain, details, key},
    turn::{Decided, Refusal, Turn},
};

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(asks(|request: &PatchUserRequest| Asked::Patch(words::patch(request))))
        .on(asks(|_: &DeleteUserRequest| Asked::Delete))
        .on(asks(|_: &DeactivateUserRequest| Asked::Switch(false)))
        .on(asks(|_: &ReactivateUserRequest| Asked::Switch(true)))
        .on(asks(|_: &LockUserRequest| Asked::Lock(true)))
        .on(asks(|_: &UnlockUserRequest| Asked::Lock(false)))
        .on(generate_secret)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateUserRequest,
) -> Result<Answer<CreateUserResponse>, Error> {
    let (id, resource) = (commands.ids.next(), words::new(&request));
    let chosen = [&resource.access_token_alg, &resource.id_token_alg].map(Clone::clone);
    let key = AggregateKey::of::<Standard<User>>(instance_of(&call.tenant.id, &call.context), &id);
    let command = Choosing::new(&call, chosen, Create { key, owner: call.context.clone(), resource });
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A handler of requests that say by their type, or by what is in them, what is asked of a user.
fn asks<I>(asked: fn(&I) -> Asked<User>) -> impl Fn(Arc<Commands>, Call, I) -> Answering<I::Response>
where
    I: Identified,
    I::Response: Plain,
{
    move |commands, call, request| {
        async move { change(&commands, &call, &request, asked(&request), Into::into).await }.boxed()
    }
}

async fn generate_secret(
    commands: Arc<Commands>,
    call: Call,
    request: GenerateUserSecretRequest,
) -> Result<Answer<GenerateUserSecretResponse>, Error> {
    let new = NewSecret::draw(&commands, &call, &request.id, request.previous_expiration).await?;
    let NewSecret { secret: client_secret, renewal, previous_valid_until } = new;
    let patch = UserPatch { renewal: Some(renewal), ..UserPatch::default() };
    let answer = move |details| GenerateUserSecretResponse {
        details: Some(details),
        client_secret: client_secret.clone(),
        previous_valid_until: previous_valid_until.map(Into::into),
    };
    change(&commands, &call, &request, Asked::Patch(patch), answer).await
}

/// Changes a user, if the caller may do that to one with such roles. What it holds goes with a user that is deleted.
async fn change<I: Message + Identified, O: Message + Default>(
    commands: &Commands,
    call: &Call,
    request: &I,
    asked: Asked<User>,
    answer: impl Fn(Details) -> O + Send + Sync + 'static,
) -> Result<Answer<O>, Error> {
    let chosen = match &asked {
        Asked::Patch(patch) => [&patch.access_token_alg, &patch.id_token_alg].map(|chosen| chosen.clone().flatten()),
        _ => [None, None],
    };
    let (key, id) = (key::<User>(call, request.id())?, request.id().to_owned());
    let command = Choosing::new(call, chosen, Change { key, asked });
    commands.execute(call, request, command, move |decided, ()| answer(details(&id, decided))).await
}

/// What is asked of a user.
struct Change {
    key: AggregateKey,
    asked: Asked<User>,
}

impl Command for Change {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<User>>(&self.key);
        if current.resource().is_some() {
            let owner = current.owner()?;
            let object = Object { name: User::NAME, exists: true, user_id: Some(self.key.id.clone()) };
            deciding.permit(turn, owner, &object)?;
            if has_power(&self.asked) && !deciding.authority.is_caller(&self.key.id) {
                escalation::check_user(turn, deciding, &self.key, owner)?;
            }
        }
        let decided = match &self.asked {
            Asked::Delete => remove(turn, deciding, current)?,
            asked => deciding.decide(turn, current, asked.clone())?,
        };
        Ok((decided, ()))
    }
}

/// Whether what is asked gives the caller the roles of the user, or takes the user away from those who gave them.
fn has_power(asked: &Asked<User>) -> bool {
    match asked {
        Asked::Patch(patch) => {
            let allows = patch.allow_token_endpoint_audience == Some(true);
            patch.username.is_some() || patch.renewal.is_some() || allows
        }
        _ => true,
    }
}
