//! Authorization requests: what an app has asked for, while it waits for a person.

use base::explain::explain;
use domain::resource::app::oidc::ResponseType;
use eventlog::log::LogFailure;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Oidc, callback::Callback, error::Error};

/// The longest stored request, in bytes: the limit leaves room for the requests of other instances.
const LONGEST: usize = 5 * 1024;

/// The outcome of storing a request.
pub(crate) enum Put {
    /// The request waits under this id.
    Waits(String),
    /// The instance has as many pending requests as are allowed.
    Full,
    /// The request is too long.
    Long,
}

/// What an app has requested, after the checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuthRequest {
    /// The app.
    pub(crate) client_id: String,
    /// The project of the app.
    pub(crate) project_id: String,
    /// What the app is answered with.
    pub(crate) response: ResponseType,
    /// Where the app is answered.
    pub(crate) callback: Callback,
    /// The requested scopes that are known, space-delimited.
    pub(crate) scope: String,
    /// The PKCE challenge of the verifier that the app will send (RFC 7636, section 4.2).
    pub(crate) challenge: Option<String>,
    /// The value that the ID token repeats.
    pub(crate) nonce: Option<String>,
    /// How the person is to be prompted.
    pub(crate) prompts: Vec<String>,
    /// The maximum age of the login, in seconds before the request began.
    pub(crate) max_age: Option<u32>,
    /// The login name or contact that the login page may suggest.
    pub(crate) login_hint: Option<String>,
    /// The languages that the person reads.
    pub(crate) ui_locales: Vec<String>,
    /// The user that has to log in.
    pub(crate) hint_user_id: Option<String>,
    /// The organization that the user must belong to.
    pub(crate) organization_id: Option<String>,
}

/// An authorization request that waits.
pub(crate) struct PendingRequest {
    pub(crate) request: AuthRequest,
    /// When it began.
    pub(crate) since: Timestamp,
}

impl AuthRequest {
    /// Stores the request until a person logs in. Limits apply to the instance, and to the origin in it.
    pub(crate) async fn wait(&self, oidc: &Oidc, instance_id: &str, origin: &str) -> Result<Put, Error> {
        let value = serde_json::to_vec(self).map_err(|_| Error::Server)?;
        if value.len() > LONGEST {
            return Ok(Put::Long);
        }
        let waits = oidc.flow.put(instance_id, origin, value.into()).await.map_err(lost)?;
        Ok(waits.map_or(Put::Full, Put::Waits))
    }

    /// Returns the pending request of an instance with this id.
    pub(crate) async fn waiting(oidc: &Oidc, instance_id: &str, id: &str) -> Result<Option<PendingRequest>, Error> {
        let Some(found) = oidc.flow.find(instance_id, id).await.map_err(lost)? else { return Ok(None) };
        // Another build may have written it in another format: the person begins anew.
        let request = serde_json::from_slice(&found.value).ok();
        Ok(request.map(|request| PendingRequest { request, since: found.since }))
    }
}

impl PendingRequest {
    /// Returns the time after which the person must have authenticated, in milliseconds since the Unix epoch.
    pub(crate) fn checked_since(&self) -> Option<i64> {
        let begun = self.since.as_millisecond();
        if self.request.prompts.iter().any(|prompt| prompt == "login") {
            return Some(begun);
        }
        Some(begun.saturating_sub(i64::from(self.request.max_age?) * 1000))
    }
}

/// Logs that pending requests cannot be read or written, and returns the error for the client.
#[expect(clippy::needless_pass_by_value, reason = "it is what failures are mapped by")]
pub(crate) fn lost(failure: LogFailure) -> Error {
    tracing::warn!(error = explain(&failure), "what is under way cannot be read or written");
    Error::Unavailable
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callback::Mode;

    fn example() -> AuthRequest {
        AuthRequest {
            client_id: "8".into(),
            response: ResponseType::Code,
            project_id: "7".into(),
            callback: Callback { redirect_uri: "https://shop.example/cb".into(), state: None, mode: Mode::Query },
            scope: "openid".into(),
            challenge: None,
            nonce: None,
            prompts: vec![],
            max_age: None,
            login_hint: None,
            ui_locales: vec![],
            hint_user_id: None,
            organization_id: None,
        }
    }

    #[test]
    fn a_login_is_as_new_as_the_app_asks_for() {
        let since = |prompts: &[&str], max_age| {
            let prompts = prompts.iter().map(|prompt| (*prompt).to_owned()).collect();
            let request = AuthRequest { prompts, max_age, ..example() };
            PendingRequest { request, since: Timestamp::from_second(1000).unwrap() }.checked_since()
        };
        assert_eq!(since(&[], None), None);
        assert_eq!(since(&["select_account"], Some(60)), Some(940_000));
        assert_eq!(since(&["login"], Some(60)), Some(1_000_000));
        assert_eq!(since(&[], Some(0)), Some(1_000_000));
    }
}
