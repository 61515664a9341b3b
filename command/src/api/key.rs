//! Keys of apps and of service users as they are written.

use std::{sync::Arc, time::Duration};

use api::key::{Create as _, KeyHolder, made, private_key};
use base::key_pair::{self, KeyPair};
use domain::{rejection::Rejection, resource::key::Key};
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, Reason},
    handler::Mounting,
};
use proto::{
    key::{KeyType, key::Source},
    shape::Request,
};
use tokio::time::timeout;

use crate::{
    execute::Commands,
    held::{Give, end, holder},
    standard::{Plain, details},
    turn::Decided,
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
    let expires_at = end("key.expiration_date", wanted.expiration_date)?;
    let (holder, id) = (holder::<H>(&call, &request)?, commands.ids.next());
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
    let new = Key::new(&holder.id, public, expires_at);
    let command = Give::<H, Key<H>>::new(&call, holder, (&id, new));
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

async fn delete<H: KeyHolder>(
    commands: Arc<Commands>,
    call: Call,
    request: H::Delete,
) -> Result<Answer<<H::Delete as Request>::Response>, Error>
where
    <H::Delete as Request>::Response: Plain,
{
    commands.take::<H, Key<H>, _>(&call, &request).await
}
