//! Keys of apps and of service users as they are written.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use api::key::{Create as _, KeyHolder, made, private_key};
use base::{
    clock,
    key_pair::{self, KeyPair},
};
use domain::{
    context::Owner,
    rejection::Rejection,
    resource::{key::Key, user::User},
    standard::{Command as Asked, Resource, Standard},
};
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, Reason},
    handler::Mounting,
};
use eventlog::record::AggregateKey;
use jiff::Timestamp;
use proto::{
    key::{KeyType, key::Source},
    shape::{Identified, Request},
};
use tokio::time::timeout;

use crate::{
    escalation,
    execute::{Command, Commands, Deciding},
    existence,
    standard::{Plain, details, key},
    turn::{Decided, Refusal, Turn},
};

/// How long one waits for a key pair to be made before one's own.
const SEAT_WAIT: Duration = Duration::from_secs(5);

/// Mounts what is written of the keys of something.
pub(super) fn mount<H: KeyHolder>(mounting: Mounting<Commands>) -> Mounting<Commands>
where
    <H::Delete as Request>::Response: Plain,
{
    mounting.on(create::<H>).on(delete::<H>)
}

async fn create<H: KeyHolder>(
    commands: Arc<Commands>,
    call: Call,
    request: H::Create,
) -> Result<Answer<<H::Create as Request>::Response>, Error> {
    let wanted = request.wanted();
    let expires_at = wanted.expiration_date.and_then(|date| Timestamp::try_from(date).ok());
    let expires_at = expires_at.unwrap_or_default().as_millisecond();
    if expires_at <= clock::now().as_millisecond() {
        return Err(Rejection::invalid("key.expiration_date", "must be in the future").into());
    }
    let (holder, id) = (key::<H>(&call, request.holder().unwrap_or_default())?, commands.ids.next());
    let (public, private_key) = match wanted.source {
        Some(Source::PublicKey(text)) => {
            let public = key_pair::public_key(&text).map_err(|rule| Rejection::invalid("key.public_key", rule))?;
            (public, None)
        }
        made => {
            // Nobody has a pair made for what is not there.
            commands.look::<H>(&call, &holder).await?;
            let r#type = if let Some(Source::KeyType(r#type)) = made { r#type } else { 0 };
            let pair = commands.pair(&call, KeyType::try_from(r#type).unwrap_or_default()).await?;
            (pair.public.clone(), Some(private_key(&pair, &id)))
        }
    };
    let key = AggregateKey::of::<Standard<Key<H>>>(&call.tenant.id, &id);
    let command = Create::<H> { key, new: Key::new(&holder.id, public, expires_at), holder };
    let answer = move |decided: &Decided, (): &()| H::Create::response(details(&id, decided), private_key.clone());
    commands.execute(&call, &request, command, answer).await
}

impl Commands {
    /// A new key pair: outside of the turn, and off the threads that serve others.
    async fn pair(&self, call: &Call, r#type: KeyType) -> Result<KeyPair, Error> {
        let seat = timeout(SEAT_WAIT, self.pairs.take(&call.tenant.id)).await.ok().flatten().ok_or_else(busy)?;
        let pair = tokio::task::spawn_blocking(move || {
            let _seat = seat;
            key_pair::generate(made(r#type))
        });
        pair.await.map_err(|failure| Error::internal(&failure))
    }
}

fn busy() -> Error {
    let message = "too many key pairs are made at the moment";
    Error::new(Reason::WriterUnavailable, message).retry_after(Duration::from_secs(1))
}

/// A new key.
struct Create<H> {
    key: AggregateKey,
    holder: AggregateKey,
    new: Key<H>,
}

impl<H: KeyHolder> Command for Create<H> {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let owner = owner::<H>(turn, deciding, &self.holder)?;
        let current = turn.unborn::<Standard<Key<H>>>(&self.key, &owner)?;
        Ok((deciding.decide(turn, current, Asked::Create(self.new.clone()))?, ()))
    }
}

async fn delete<H: KeyHolder>(
    commands: Arc<Commands>,
    call: Call,
    request: H::Delete,
) -> Result<Answer<<H::Delete as Request>::Response>, Error>
where
    <H::Delete as Request>::Response: Plain,
{
    let (holder, id) = (key::<H>(&call, request.holder().unwrap_or_default())?, request.id().to_owned());
    let command = Delete::<H> { key: key::<Key<H>>(&call, &id)?, holder, of: PhantomData };
    commands.execute(&call, &request, command, move |decided, ()| details(&id, decided).into()).await
}

/// A key that goes.
struct Delete<H> {
    key: AggregateKey,
    holder: AggregateKey,
    of: PhantomData<fn() -> H>,
}

impl<H: KeyHolder> Command for Delete<H> {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Standard<Key<H>>>(&self.key);
        existence::insist(turn, &current)?;
        if current.resource().is_none_or(|key| key.holder_id != self.holder.id) {
            return Err(Rejection::NotFound(Key::<H>::NAME).into());
        }
        deciding.permit_on(turn, &current)?;
        check_power(turn, deciding, &self.holder, current.owner()?)?;
        Ok((deciding.decide(turn, current, Asked::Delete)?, ()))
    }
}

/// Where the keys of something belong that is there and that the caller may give keys.
fn owner<H: KeyHolder>(turn: &mut Turn<'_>, deciding: &Deciding, holder: &AggregateKey) -> Result<Owner, Refusal> {
    let current = turn.get::<Standard<H>>(holder);
    existence::insist(turn, &current)?;
    if current.resource().is_none() {
        return Err(Rejection::NotFound(H::NAME).into());
    }
    deciding.permit_on(turn, &current)?;
    let owner = current.owner()?.clone();
    check_power(turn, deciding, holder, &owner)?;
    Ok(owner)
}

/// A key of a user gives whoever has it the roles of the user, and without it others cannot act as the user any more.
fn check_power(turn: &mut Turn<'_>, deciding: &Deciding, holder: &AggregateKey, owner: &Owner) -> Result<(), Refusal> {
    if holder.aggregate_type == User::NAME && !deciding.authority.is_caller(&holder.id) {
        escalation::check_user(turn, deciding, holder, owner)?;
    }
    Ok(())
}
