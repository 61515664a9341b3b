//! Handlers that create, activate and delete web keys.

use std::sync::Arc;

use api::web_key as words;
use base::signing;
use domain::{
    aggregate::Aggregate,
    context::Owner,
    rejection::Rejection,
    resource::signing_key::{SigningKey, Stage},
    standard::{Command as Asked, Standard},
};
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use jiff::Timestamp;
use proto::web_key::{
    ActivateWebKeyRequest, ActivateWebKeyResponse, CreateWebKeyRequest, CreateWebKeyResponse, DeleteWebKeyRequest,
    DeleteWebKeyResponse,
};
use view::keyring::Purpose;

use crate::{
    execute::{Command, Commands, Deciding},
    existence,
    removal::remove,
    seat,
    signing_keys::{Succession, are_enough, sealed},
    standard::{details, key},
    turn::{Decided, Refusal, Turn},
};

/// How long a key must remain after it has ceased to sign, in milliseconds: the clocks of nodes differ.
const CLOCKS: i64 = 60 * 1000;

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(create).on(activate).on(delete)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateWebKeyRequest,
) -> Result<Answer<CreateWebKeyResponse>, Error> {
    let (id, signs) = (commands.ids.next(), words::key_spec(&request));
    let data_key = commands.keyring.key(&call.tenant.id, Purpose::SigningKey).await.map_err(unavailable)?;
    let kid = id.clone();
    let generated = seat::generate(&commands, &call.tenant.id, move || signing::generate(signs, &kid)).await?;
    let key = AggregateKey::of::<Standard<SigningKey>>(&call.tenant.id, &id);
    let command = Create { key, new: sealed(&call.tenant.id, &data_key, generated) };
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

async fn activate(
    commands: Arc<Commands>,
    call: Call,
    request: ActivateWebKeyRequest,
) -> Result<Answer<ActivateWebKeyResponse>, Error> {
    let known = call.tenant.signing_keys.iter().map(|(id, _)| id.clone()).collect();
    let command = Activate { key: key::<SigningKey>(&call, &request.id)?, known };
    let id = request.id.clone();
    let answer = move |decided: &Decided, signs_from: &Option<i64>| ActivateWebKeyResponse {
        details: Some(details(&id, decided)),
        signs_from: signs_from.and_then(|from| Timestamp::from_millisecond(from).ok()).map(Into::into),
    };
    commands.execute(&call, &request, command, answer).await
}

async fn delete(
    commands: Arc<Commands>,
    call: Call,
    request: DeleteWebKeyRequest,
) -> Result<Answer<DeleteWebKeyResponse>, Error> {
    let command = Delete { key: key::<SigningKey>(&call, &request.id)? };
    let id = request.id.clone();
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A new key, which signs nothing yet.
struct Create {
    key: AggregateKey,
    new: SigningKey,
}

impl Command for Create {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let instance_id = &self.key.instance_id;
        let are_enough = are_enough(turn, instance_id);
        let current = turn.unborn::<Standard<SigningKey>>(&self.key, &Owner::instance(instance_id))?;
        if are_enough {
            deciding.permit_on(turn, &current)?;
            return Err(Rejection::Precondition("the instance has 30 keys: delete some that do not sign").into());
        }
        Ok((deciding.decide(turn, current, Asked::Create(self.new.clone()))?, ()))
    }
}

/// The activation of a key, which signs instead of the current one from some time on.
struct Activate {
    key: AggregateKey,
    /// See [`Succession::known`].
    known: Vec<String>,
}

impl Command for Activate {
    /// When the key begins to sign, in milliseconds since the Unix epoch.
    type Outcome = Option<i64>;

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, Option<i64>), Refusal> {
        let next = turn.get::<Standard<SigningKey>>(&self.key);
        existence::require_existing(turn, &next)?;
        let found = next.resource().ok_or(Rejection::NotFound(<Standard<SigningKey> as Aggregate>::NAME))?;
        let (instance_id, algorithm) = (self.key.instance_id.clone(), found.algorithm.clone());
        let (is_last, signs_from, signs_until) = (found.is_last(), found.signs_from, found.signs_until);
        deciding.permit_on(turn, &next)?;
        if is_last {
            deciding.compare(&next)?;
            return Ok((deciding.change_nothing(turn, next)?, signs_from));
        }
        if signs_until.is_some() {
            return Err(Rejection::Precondition("another key has replaced this one: create a new one").into());
        }
        let succession = Succession { instance_id, algorithm, known: self.known.clone() };
        let begins = succession.begin(turn, &deciding.keys, &deciding.cause)?;
        let from = begins.signs_from;
        Ok((deciding.decide(turn, next, Asked::Patch(begins))?, from))
    }
}

/// The deletion of a key.
struct Delete {
    key: AggregateKey,
}

impl Command for Delete {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<SigningKey>>(&self.key);
        existence::require_existing(turn, &current)?;
        let now = turn.now().as_millisecond();
        let signs = |key: &SigningKey| key.signs_from.is_some() && key.stage(now - CLOCKS) != Stage::Inactive;
        if current.resource().is_some_and(signs) {
            deciding.permit_on(turn, &current)?;
            let message = "the key signs, will sign, or signed within the last minute: activate another key of its \
                           algorithm, and delete this one when the other signs";
            return Err(Rejection::Precondition(message).into());
        }
        Ok((remove(turn, deciding, current)?, ()))
    }
}
