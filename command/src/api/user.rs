//! Handlers that create, change and delete users.

use std::sync::Arc;

use api::user as words;
use domain::{
    rejection::Rejection,
    resource::user::{Human, User, UserPatch},
    standard::{Command as Asked, Standard},
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
        GenerateUserSecretResponse, LockUserRequest, PatchUserRequest, PatchUserResponse, ReactivateUserRequest,
        SetPasswordRequest, SetPasswordResponse, UnlockUserRequest,
    },
};
use view::settings::instance_of;

use crate::{
    client_secret::NewSecret,
    escalation,
    execute::{Command, Commands, Deciding},
    new_user::NewUser,
    password::{self, SetAnother},
    person,
    removal::remove,
    signing_keys::Choosing,
    standard::{Answering, Plain, details, key},
    turn::{Decided, Refusal, Turn},
    writer::writer_unavailable,
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting
        .on(create)
        .on(patch)
        .on(handler(|_: &DeleteUserRequest| Asked::Delete))
        .on(handler(|_: &DeactivateUserRequest| Asked::Switch(false)))
        .on(handler(|_: &ReactivateUserRequest| Asked::Switch(true)))
        .on(handler(|_: &LockUserRequest| Asked::Lock(true)))
        .on(handler(|_: &UnlockUserRequest| Asked::Lock(false)))
        .on(generate_secret)
        .on(set_password)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateUserRequest,
) -> Result<Answer<CreateUserResponse>, Error> {
    if let Some(new) = words::person(&request) {
        return person::create_person(&commands, &call, &request, new).await;
    }
    if !request.user_id.is_empty() {
        return Err(Rejection::invalid("user_id", "is for people only; a service user gets a generated id").into());
    }
    let (id, resource) = (commands.ids.next(), words::new(&request));
    let chosen = [&resource.access_token_alg, &resource.id_token_alg].map(Clone::clone);
    let key = AggregateKey::of::<Standard<User>>(instance_of(&call.tenant.id, &call.context), &id);
    let new = NewUser { key, owner: call.context.clone(), user: resource, password: None };
    let command = Choosing::new(&call, chosen, new);
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// Returns a handler of requests whose type determines what happens to a user.
fn handler<I>(asked: fn(&I) -> Asked<User>) -> impl Fn(Arc<Commands>, Call, I) -> Answering<I::Response>
where
    I: Identified,
    I::Response: Plain,
{
    move |commands, call, request| {
        async move { change(&commands, &call, &request, asked(&request), Into::into).await }.boxed()
    }
}

/// How often a patch is tried while something else changes the person meanwhile.
const TRIES: u32 = 5;

async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchUserRequest,
) -> Result<Answer<PatchUserResponse>, Error> {
    let key = key::<User>(&call, &request.id)?;
    let is_of_person = words::is_of_person(&request);
    if !is_of_person && words::patch(&request).username.is_none() {
        return change(&commands, &call, &request, Asked::Patch(words::patch(&request)), Into::into).await;
    }
    // The command itself refuses a caller who may not see the user, and reports that there is none.
    let mut seen = person::find_visible(&commands, &call, &key).await;
    for _ in 1..TRIES {
        let answered = patch_seen(&commands, &call, &request, &key, seen.clone()).await;
        let now = if answered.is_ok() { seen.clone() } else { person::find_visible(&commands, &call, &key).await };
        if now == seen {
            return answered;
        }
        seen = now;
    }
    patch_seen(&commands, &call, &request, &key, seen).await
}

/// Patches a user, if the person, where it is one, still is as it was seen.
async fn patch_seen(
    commands: &Commands,
    call: &Call,
    request: &PatchUserRequest,
    key: &AggregateKey,
    seen: Option<Human>,
) -> Result<Answer<PatchUserResponse>, Error> {
    let mut patch = words::patch(request);
    let mut of_person = OfPerson { is_asked: words::is_of_person(request), gives_power: false, seen };
    if let Some(human) = &of_person.seen {
        patch.username = None;
        if let Some(changed) = person::changed_person(commands, call, &key.id, human, request).await? {
            (patch.human, of_person.gives_power) = (Some(changed.human), changed.gives_power);
        }
    }
    let change = Change { key: key.clone(), asked: Asked::Patch(patch), of_person };
    change_user(commands, call, request, change, PatchUserResponse::from).await
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

async fn set_password(
    commands: Arc<Commands>,
    call: Call,
    request: SetPasswordRequest,
) -> Result<Answer<SetPasswordResponse>, Error> {
    let key = key::<User>(&call, &request.id)?;
    let asked = request.password.clone().unwrap_or_default();
    let another = password::another_password(&commands, &call, &key, &asked).await?;
    let id = key.id.clone();
    commands
        .execute(&call, &request, SetAnother { key, another }, move |decided, ()| details(&id, decided).into())
        .await
}

/// Changes a user, if the caller may do that to a user with such roles. What a user holds is deleted with it.
async fn change<I: Message + Identified, O: Message + Default>(
    commands: &Commands,
    call: &Call,
    request: &I,
    asked: Asked<User>,
    answer: impl Fn(Details) -> O + Send + Sync + 'static,
) -> Result<Answer<O>, Error> {
    let change = Change { key: key::<User>(call, request.id())?, asked, of_person: OfPerson::default() };
    change_user(commands, call, request, change, answer).await
}

async fn change_user<I: Message, O: Message + Default>(
    commands: &Commands,
    call: &Call,
    request: &I,
    change: Change,
    answer: impl Fn(Details) -> O + Send + Sync + 'static,
) -> Result<Answer<O>, Error> {
    let chosen = match &change.asked {
        Asked::Patch(patch) => [&patch.access_token_alg, &patch.id_token_alg].map(|chosen| chosen.clone().flatten()),
        _ => [None, None],
    };
    let id = change.key.id.clone();
    let command = Choosing::new(call, chosen, change);
    commands.execute(call, request, command, move |decided, ()| answer(details(&id, decided))).await
}

/// A change of a user.
struct Change {
    key: AggregateKey,
    asked: Asked<User>,
    of_person: OfPerson,
}

/// The state of a person from before the turn that a patch depends on.
#[derive(Default)]
struct OfPerson {
    /// Whether the patch changes what only people have.
    is_asked: bool,
    /// Whether the patch changes a name or an address of the person: whoever is reached by mail or phone may come to
    /// log in as that person.
    gives_power: bool,
    /// The person as it was seen before the turn.
    seen: Option<Human>,
}

impl OfPerson {
    fn check(&self, current: &User, asked: &Asked<User>) -> Result<(), Refusal> {
        let Asked::Patch(patch) = asked else { return Ok(()) };
        if self.is_asked && current.human.is_none() {
            return Err(Rejection::Precondition("the user is a service user, and has no data of a person").into());
        }
        let concerns_person = self.is_asked || self.seen.is_some() || patch.username.is_some();
        if concerns_person && self.seen != current.human {
            return Err(writer_unavailable("the person was changed meanwhile: send the request again").into());
        }
        Ok(())
    }
}

impl Command for Change {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<User>>(&self.key);
        if let Some(user) = current.resource() {
            escalation::permit_user(turn, deciding, &current, has_power(&self.asked) || self.of_person.gives_power)?;
            self.of_person.check(user, &self.asked)?;
        }
        let decided = match &self.asked {
            Asked::Delete => remove(turn, deciding, current)?,
            asked => deciding.decide(turn, current, asked.clone())?,
        };
        Ok((decided, ()))
    }
}

/// Whether a change gives the caller the roles of the user, or takes the user away from those who gave them.
fn has_power(asked: &Asked<User>) -> bool {
    match asked {
        Asked::Patch(patch) => {
            let allows = patch.allow_token_endpoint_audience == Some(true);
            patch.username.is_some() || patch.renewal.is_some() || allows
        }
        _ => true,
    }
}
