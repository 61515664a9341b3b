//! The session that an app wants ended. It is sealed on its way from one page to another, because an ID token does not
//! belong in URLs.

use std::time::Duration;

use base::{clock, explain::explain, secret::SymmetricKey};
use edge::trigger::trace_of;
use http::HeaderMap;
use proto::bus::{EndSession, internal_command::Command};
use serde::{Deserialize, Serialize};
use view::{directory::Tenant, keyring::Purpose};

use crate::{Oidc, error::Error, revoke};

/// The parameter with the sealed hint.
pub(crate) const PARAMETER: &str = "hint";
/// How long a person may take to answer.
const LIFETIME: Duration = Duration::from_mins(10);

/// The claims of an ID token that name the login.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hinted {
    pub(crate) sub: String,
    pub(crate) azp: String,
    pub(crate) sid: String,
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    #[serde(flatten)]
    hinted: Hinted,
    /// When the hint expires, in milliseconds since the Unix epoch.
    good_until: i64,
}

impl Hinted {
    /// Seals the hint for a URL.
    ///
    /// # Errors
    /// When the key of the instance is not available.
    pub(crate) async fn sealed(&self, oidc: &Oidc, tenant: &Tenant) -> Result<String, Error> {
        let sealed = Sealed { hinted: self.clone(), good_until: clock::millis_after(LIFETIME) };
        let said = serde_json::to_vec(&sealed).map_err(|error| {
            tracing::error!(error = explain(&error), "a hint cannot be sealed");
            Error::Server
        })?;
        Ok(key(oidc, tenant).await?.seal(&purpose(tenant), &said))
    }

    /// Opens a hint that was sealed for the instance and has not expired.
    ///
    /// # Errors
    /// When the key of the instance is not available.
    pub(crate) async fn open(oidc: &Oidc, tenant: &Tenant, sealed: &str) -> Result<Option<Self>, Error> {
        let Ok(said) = key(oidc, tenant).await?.open(&purpose(tenant), sealed) else { return Ok(None) };
        let opened = serde_json::from_slice::<Sealed>(&said).ok();
        let opened = opened.filter(|opened| opened.good_until > clock::now().as_millisecond());
        Ok(opened.map(|opened| opened.hinted))
    }

    /// Ends the session with all tokens that were issued in it, if it still exists.
    ///
    /// # Errors
    /// When it cannot be determined whether the session has ended.
    pub(crate) async fn end(self, oidc: &Oidc, tenant: &Tenant, headers: &HeaderMap) -> Result<(), Error> {
        let Self { sub: user_id, azp: client_id, sid: session_id } = self;
        let command = Command::EndSession(EndSession { session_id, user_id, client_id });
        revoke::have_ended(oidc, tenant, command, &trace_of(headers)).await
    }
}

async fn key(oidc: &Oidc, tenant: &Tenant) -> Result<SymmetricKey, Error> {
    Ok(oidc.keyring.key(&tenant.id, Purpose::ClientSecret).await?.derived("hints of logouts"))
}

fn purpose(tenant: &Tenant) -> String {
    format!("hint of a logout at {}", tenant.id)
}
