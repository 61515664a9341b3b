//! Refresh tokens (RFC 6749, section 1.5), by which an app gets new tokens for a person who has logged in to it,
//! without asking again. A token carries its contents, sealed so that only the platform can read them; whether it is
//! the newest of its family is known to the writer only.

use base::{clock, explain::explain, secret::SymmetricKey};
use domain::{setting::oidc::Oidc as Settings, settings::Milliseconds};
use serde::{Deserialize, Serialize};
use view::{directory::Tenant, keyring::Purpose};

use crate::{Oidc, app_login::AppLogin, error::Error, lifetime};

/// The prefix, by which refresh tokens are distinguished from others, also by secret scanners.
const PREFIX: &str = "rt-";
/// The longest accepted token, in bytes.
const LONGEST: usize = 8 * 1024;
/// The purpose of the key that seals refresh tokens.
const SEALED: &str = "refresh tokens";

/// The contents of a refresh token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefreshToken {
    /// The login that the token was issued for.
    pub(crate) logged_in: AppLogin,
    /// The id of the family: that of the code or request that its first token was issued for.
    pub(crate) grant_id: String,
    /// The position of the token in its family.
    pub(crate) generation: u64,
    /// When it expires, if nobody uses it, in milliseconds since the Unix epoch.
    pub(crate) expires_at: i64,
    /// When the family expires, in milliseconds since the Unix epoch.
    pub(crate) family_ends: i64,
}

/// Whether a text has the prefix of refresh tokens.
pub(crate) fn is_one(token: &str) -> bool {
    token.starts_with(PREFIX)
}

/// Returns when a new family expires, in milliseconds since the Unix epoch: no later than the session.
pub(crate) fn family_ends(oidc: &Oidc, logged_in: &AppLogin) -> i64 {
    let absolute = after(oidc, &logged_in.instance_id, |settings| settings.refresh_token_absolute_lifetime.as_ref());
    absolute.min(logged_in.session_ends)
}

/// Returns the time after one of an instance's lifetimes, in milliseconds since the Unix epoch.
fn after(oidc: &Oidc, instance_id: &str, which: fn(&Settings) -> Option<&Milliseconds>) -> i64 {
    let seconds = lifetime::of(oidc, instance_id, which).whole_seconds();
    let lifetime = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
    clock::now().as_millisecond().saturating_add(lifetime)
}

impl RefreshToken {
    /// Makes the token of a generation, which expires after the idle lifetime or with its family.
    pub(crate) fn of(oidc: &Oidc, grant_id: &str, generation: u64, logged_in: AppLogin, family_ends: i64) -> Self {
        let idle = after(oidc, &logged_in.instance_id, |settings| settings.refresh_token_idle_lifetime.as_ref());
        let expires_at = idle.min(family_ends);
        Self { logged_in, grant_id: grant_id.to_owned(), generation, expires_at, family_ends }
    }

    /// Returns the token as it is sent.
    pub(crate) async fn sealed(&self, oidc: &Oidc) -> Result<String, Error> {
        let said = serde_json::to_vec(self).map_err(|error| {
            tracing::error!(error = explain(&error), "a refresh token cannot be sealed");
            Error::Server
        })?;
        let instance_id = &self.logged_in.instance_id;
        Ok(format!("{PREFIX}{}", key(oidc, instance_id).await?.seal(&purpose(instance_id), &said)))
    }

    /// Opens a token, if this instance has issued it and it has not expired. Whether it is the newest of its family is
    /// not checked.
    ///
    /// # Errors
    /// When the key of the instance is not available.
    pub(crate) async fn open(oidc: &Oidc, tenant: &Tenant, sent: &str) -> Result<Option<Self>, Error> {
        let Some(sealed) = sent.strip_prefix(PREFIX).filter(|_| sent.len() <= LONGEST) else { return Ok(None) };
        let Ok(said) = key(oidc, &tenant.id).await?.open(&purpose(&tenant.id), sealed) else { return Ok(None) };
        let token = serde_json::from_slice::<Self>(&said).ok();
        Ok(token.filter(|token| {
            token.logged_in.instance_id == tenant.id && token.expires_at > clock::now().as_millisecond()
        }))
    }
}

async fn key(oidc: &Oidc, instance_id: &str) -> Result<SymmetricKey, Error> {
    Ok(oidc.keyring.key(instance_id, Purpose::ClientSecret).await?.derived(SEALED))
}

/// What the ciphertext is bound to.
fn purpose(instance_id: &str) -> String {
    format!("refresh token of {instance_id}")
}
