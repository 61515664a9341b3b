//! Authorization requests: what an app has asked for, while it waits for a person.

use base::explain::explain;
use domain::resource::app::oidc::ResponseType;
use eventlog::log::LogFailure;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Oidc, callback::Callback, error::Error};

/// The longest request that waits, in bytes, as it is kept: so all that an instance may have leave room for others.
const LONGEST: usize = 5 * 1024;

/// What becomes of a request.
pub(crate) enum Put {
    /// It waits, and has this id.
    Waits(String),
    /// As many of the instance wait as may.
    Full,
    /// It is longer than any may be.
    Long,
}

/// What an app has asked for, after it was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuthRequest {
    /// The app.
    pub(crate) client_id: String,
    /// The project of the app.
    pub(crate) project_id: String,
    /// What it is answered with.
    pub(crate) response: ResponseType,
    /// Where it is answered.
    pub(crate) callback: Callback,
    /// What it asks for, space-delimited, as far as it is known.
    pub(crate) scope: String,
    /// The challenge of the verifier that the app will show (RFC 7636, section 4.2).
    pub(crate) challenge: Option<String>,
    /// What the ID token repeats.
    pub(crate) nonce: Option<String>,
    /// How the person is to be asked.
    pub(crate) prompts: Vec<String>,
    /// How many seconds ago the person may have been checked at most, when the request began.
    pub(crate) max_age: Option<u32>,
    /// What the person may log in with.
    pub(crate) login_hint: Option<String>,
    /// The languages that the person reads.
    pub(crate) ui_locales: Vec<String>,
    /// The user that it must be.
    pub(crate) hint_user_id: Option<String>,
    /// The organization that the user must be of.
    pub(crate) organization_id: Option<String>,
}

/// An authorization request that waits.
pub(crate) struct Waiting {
    pub(crate) request: AuthRequest,
    /// When it began.
    pub(crate) since: Timestamp,
}

impl AuthRequest {
    /// Has it wait for a person who comes from somewhere.
    pub(crate) async fn wait(&self, oidc: &Oidc, from: (&str, &str)) -> Result<Put, Error> {
        let value = serde_json::to_vec(self).map_err(|_| Error::Server)?;
        if value.len() > LONGEST {
            return Ok(Put::Long);
        }
        let waits = oidc.flow.put(from, value.into()).await.map_err(lost)?;
        Ok(waits.map_or(Put::Full, Put::Waits))
    }

    /// The one of an instance that has this id, if it still waits.
    pub(crate) async fn waiting(oidc: &Oidc, instance_id: &str, id: &str) -> Result<Option<Waiting>, Error> {
        let Some(found) = oidc.flow.find(instance_id, id).await.map_err(lost)? else { return Ok(None) };
        // Another build may have written it: the person begins anew.
        let request = serde_json::from_slice(&found.value).ok();
        Ok(request.map(|request| Waiting { request, since: found.since }))
    }
}

impl Waiting {
    /// From when on the person must have been checked, in milliseconds since the Unix epoch.
    pub(crate) fn checked_since(&self) -> Option<i64> {
        let begun = self.since.as_millisecond();
        if self.request.prompts.iter().any(|prompt| prompt == "login") {
            return Some(begun);
        }
        Some(begun.saturating_sub(i64::from(self.request.max_age?) * 1000))
    }
}

/// What is under way cannot be read or written.
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
            Waiting { request, since: Timestamp::from_second(1000).unwrap() }.checked_since()
        };
        assert_eq!(since(&[], None), None);
        assert_eq!(since(&["select_account"], Some(60)), Some(940_000));
        assert_eq!(since(&["login"], Some(60)), Some(1_000_000));
        assert_eq!(since(&[], Some(0)), Some(1_000_000));
    }
}
