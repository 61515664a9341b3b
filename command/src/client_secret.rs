//! New secrets of clients and of tokens: drawn outside of the turn, because a command may be decided more than once.

use std::time::Duration;

use base::{clock, secret::random_secret};
use domain::{client_secret::Renewal, secret::Hashed};
use edge::{call::Call, consistency::unavailable, error::Error};
use jiff::Timestamp;
use proto::wellknown;
use view::keyring::{Purpose, secret_hash};

use crate::execute::Commands;

/// Generates a secret for the object with an id in an instance, and returns it with the keyed hash that is stored of
/// it.
pub(crate) async fn draw(commands: &Commands, instance_id: &str, id: &str) -> Result<(String, Hashed), Error> {
    let secret = random_secret();
    let hash = hash_of(commands, instance_id, id, &secret).await?;
    Ok((secret, hash))
}

/// Returns the keyed hash of a secret of the object with an id in an instance.
pub(crate) async fn hash_of(commands: &Commands, instance_id: &str, id: &str, secret: &str) -> Result<Hashed, Error> {
    let key = commands.keyring.key(instance_id, Purpose::ClientSecret).await.map_err(unavailable)?;
    Ok(secret_hash(&key, id, secret))
}

/// A new client secret, and how long the previous one remains valid.
pub(crate) struct NewSecret {
    /// The secret in clear, for the answer.
    pub(crate) secret: String,
    /// The renewal that is stored, with the hash of the secret.
    pub(crate) renewal: Renewal,
    /// Until when the previous secret is valid, if that was requested.
    pub(crate) previous_valid_until: Option<Timestamp>,
}

impl NewSecret {
    /// Generates a secret for the client with an id. The previous secret remains valid for the given time.
    pub(crate) async fn draw(
        commands: &Commands,
        call: &Call,
        id: &str,
        previous_expiration: Option<wellknown::Duration>,
    ) -> Result<Self, Error> {
        let (secret, hash) = draw(commands, &call.tenant.id, id).await?;
        let expiration = previous_expiration.and_then(|duration| Duration::try_from(duration).ok());
        let left = expiration.filter(|left| !left.is_zero());
        let left = left.map(|left| i64::try_from(left.as_millis()).unwrap_or(i64::MAX));
        let previous_until = left.map(|left| clock::now().as_millisecond().saturating_add(left));
        let previous_valid_until = previous_until.and_then(|until| Timestamp::from_millisecond(until).ok());
        let renewal = Renewal { secret: hash, previous_until };
        Ok(Self { secret, renewal, previous_valid_until })
    }
}
