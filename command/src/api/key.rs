//! Handlers that create and delete keys of apps and of service users.

use std::sync::Arc;

use api::key::{self as words, Create as _, KeyHolder, private_key};
use base::key_pair;
use domain::{rejection::Rejection, resource::key::Key};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use proto::{
    key::{KeyType, key::Source},
    shape::Request,
};

use crate::{
    execute::Commands,
    holder::{self, Give, end, holder},
    seat,
    standard::{Plain, details},
    turn::Decided,
};

/// Mounts the operations on the keys of one type of holder.
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
    let wanted = request.requested_key();
    let expires_at = end("key.expiration_date", wanted.expiration_date)?;
    let (holder, id) = (holder::<H>(&call, &request)?, commands.ids.next());
    let (public, private_key) = match wanted.source {
        Some(Source::PublicKey(text)) => {
            let public = key_pair::public_key(&text).map_err(|rule| Rejection::invalid("key.public_key", rule))?;
            (public, None)
        }
        made => {
            // No key pair is generated for a holder that does not exist.
            commands.read::<H>(&call, &holder).await?;
            let r#type = if let Some(Source::KeyType(r#type)) = made { r#type } else { 0 };
            let r#type = KeyType::try_from(r#type).unwrap_or_default();
            let pair =
                seat::generate(&commands, &call.tenant.id, move || key_pair::generate(words::key_type(r#type))).await?;
            (pair.public.clone(), Some(private_key(&pair, &id)))
        }
    };
    let new = Key::new(&holder.id, public, expires_at);
    let command = Give::<H, Key<H>>::new(&call, holder, &id, new);
    let answer = move |decided: &Decided, (): &()| H::Create::response(details(&id, decided), private_key.clone());
    commands.execute(&call, &request, command, answer).await
}

async fn delete<H: KeyHolder>(
    commands: Arc<Commands>,
    call: Call,
    request: H::Delete,
) -> Result<Answer<<H::Delete as Request>::Response>, Error>
where
    <H::Delete as Request>::Response: Plain,
{
    holder::take::<H, Key<H>, _>(&commands, &call, &request).await
}
