//! Handlers that put and delete metadata of users. The values of people are sealed before the turn.

use std::sync::Arc;

use domain::{
    rejection::Rejection,
    resource::{
        user::{Human, User},
        user_metadata::{UserMetadata, value_fault},
    },
    standard::{Command as Asked, Resource, Standard},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use eventlog::record::AggregateKey;
use proto::metadata::{DeleteUserMetadataRequest, PutUserMetadataRequest, PutUserMetadataResponse};

use crate::{
    execute::{Command, Commands, Deciding},
    existence,
    holder::holder,
    person_key,
    standard::{self, details, named},
    turn::{Decided, Refusal, Turn},
    writer::writer_unavailable,
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(put).on(standard::delete::<UserMetadata, DeleteUserMetadataRequest>)
}

async fn put(
    commands: Arc<Commands>,
    call: Call,
    request: PutUserMetadataRequest,
) -> Result<Answer<PutUserMetadataResponse>, Error> {
    let value = request.metadata.clone().unwrap_or_default().value;
    if let Some(rule) = value_fault(&value) {
        return Err(Rejection::invalid("metadata.value", rule).into());
    }
    let (user, key) = (holder::<User>(&call, &request)?, named::<UserMetadata>(&call, &request)?);
    let new = UserMetadata { user_id: user.id.clone(), key: request.id.clone(), value: Some(value), sealed: None };
    let new = match commands.read_ahead::<User>(&call, &user).await?.and_then(|user| user.human) {
        Some(human) => sealed_metadata(&commands, &call, &key, &human, new).await?,
        None => new,
    };
    let id = request.id.clone();
    commands.execute(&call, &request, Put { user, key, new }, move |decided, ()| details(&id, decided).into()).await
}

/// Seals the value of an entry with the key of its person; an existing ciphertext of the same value is reused.
async fn sealed_metadata(
    commands: &Commands,
    call: &Call,
    key: &AggregateKey,
    human: &Human,
    UserMetadata { user_id, key: name, value, .. }: UserMetadata,
) -> Result<UserMetadata, Error> {
    let (sealing, _) = person_key::key_of_person(commands, &call.tenant.id, &user_id, human).await?;
    let before = commands.read_ahead::<UserMetadata>(call, key).await?.and_then(|entry| entry.sealed);
    let value = value.unwrap_or_default();
    let sealed = sealing.resealed_metadata(&name, &value, before);
    Ok(UserMetadata { user_id, key: name, value: None, sealed: Some(sealed) })
}

/// An entry that is created or replaced.
struct Put {
    user: AggregateKey,
    key: AggregateKey,
    new: UserMetadata,
}

impl Command for Put {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let user = turn.get::<Standard<User>>(&self.user);
        existence::require_existing(turn, &user)?;
        let found = user.resource().ok_or(Rejection::NotFound(User::NAME))?;
        deciding.permit_on(turn, &user)?;
        if found.human.is_some() != self.new.sealed.is_some() {
            return Err(writer_unavailable("the user was changed meanwhile: send the request again").into());
        }
        let current = turn.get::<Standard<UserMetadata>>(&self.key).owned_by(user.owner()?);
        Ok((deciding.decide(turn, current, Asked::Put(self.new.clone()))?, ()))
    }
}
