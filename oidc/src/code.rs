//! Authorization codes (RFC 6749, section 4.1.2), which an app exchanges for tokens after a person has logged in. A
//! code is valid once, for a minute, and only while its unused entry exists.

use std::time::Duration;

use base::{
    clock,
    secret::{self, constant_time_eq, random_secret, sha256},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use eventlog::flow::Code;
use serde::{Deserialize, Serialize};

use crate::{
    Oidc,
    app_login::AppLogin,
    auth_request::{AuthRequest, lost},
    error::Error,
};

/// How long a code is valid.
pub(crate) const LIFETIME: Duration = Duration::from_mins(1);
/// The longest code that is looked up, in bytes.
const LONGEST: usize = 200;

/// What a code is bound to in addition to the app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    /// The redirect URI that the code was sent to.
    pub(crate) redirect_uri: String,
    /// The PKCE challenge of the verifier that has to be sent with the code.
    pub(crate) challenge: Option<String>,
    /// The value that the ID token repeats.
    pub(crate) nonce: Option<String>,
}

impl From<&AuthRequest> for Bound {
    fn from(AuthRequest { callback, challenge, nonce, .. }: &AuthRequest) -> Self {
        Self { redirect_uri: callback.redirect_uri.clone(), challenge: challenge.clone(), nonce: nonce.clone() }
    }
}

/// The stored entry of a code.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    logged_in: AppLogin,
    bound: Bound,
    /// The hash of the secret of the code, which has 256 bits.
    secret: String,
    /// When the code expires, in milliseconds since the Unix epoch.
    good_until: i64,
    /// A random value that marks the code as used, and distinguishes concurrent uses.
    used_by: Option<String>,
}

/// Whether a code can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The code can be used.
    Good,
    /// The code was not used in time.
    Late,
    /// The code was used before, in time or not: somebody else may have it.
    Again,
}

impl Entry {
    /// Returns the fate at a time, in milliseconds since the Unix epoch.
    fn fate(&self, now: i64) -> Fate {
        match self.used_by {
            Some(_) => Fate::Again,
            None if self.good_until <= now => Fate::Late,
            None => Fate::Good,
        }
    }
}

/// A code of an instance that a client has sent.
pub(crate) struct PresentedCode {
    /// The id that the tokens issued for the code are known by.
    pub(crate) grant_id: String,
    name: String,
    code: Code,
    entry: Entry,
}

/// Issues a code for a login; `None` where the request was finished before.
pub(crate) async fn draw(
    oidc: &Oidc,
    request_id: &str,
    logged_in: AppLogin,
    bound: Bound,
) -> Result<Option<String>, Error> {
    let secret = random_secret();
    let good_until = clock::millis_after(LIFETIME);
    let entry = Entry { logged_in, bound, secret: hash(&secret), good_until, used_by: None };
    let is_first = oidc.flow.write(request_id, written(&entry)?).await.map_err(lost)?;
    Ok(is_first.then(|| format!("{request_id}-{secret}")))
}

/// Marks a request as ended without a code. Returns whether it had not ended before.
pub(crate) async fn close(oidc: &Oidc, request_id: &str) -> Result<bool, Error> {
    oidc.flow.write(request_id, "closed".into()).await.map_err(lost)
}

/// Returns the code that a client has sent, if it is one of the instance, whether or not it can be used.
pub(crate) async fn find(oidc: &Oidc, instance_id: &str, shown: &str) -> Result<Option<PresentedCode>, Error> {
    let mut parts = shown.splitn(3, '-');
    let (Some(number), Some(grant_id), Some(secret)) = (parts.next(), parts.next(), parts.next()) else {
        return Ok(None);
    };
    if shown.len() > LONGEST {
        return Ok(None);
    }
    let name = format!("{number}-{grant_id}");
    let Some(code) = oidc.flow.read(&name).await.map_err(lost)? else { return Ok(None) };
    // A request that was closed has no entry.
    let Ok(entry) = serde_json::from_slice::<Entry>(&code.value) else { return Ok(None) };
    let is_it = constant_time_eq(entry.secret.as_bytes(), hash(secret).as_bytes())
        && entry.logged_in.instance_id == instance_id;
    let grant_id = grant_id.to_owned();
    Ok(is_it.then_some(PresentedCode { grant_id, name, code, entry }))
}

impl PresentedCode {
    /// Returns the login that the code stands for.
    pub(crate) const fn logged_in(&self) -> &AppLogin {
        &self.entry.logged_in
    }

    /// Returns what the code is bound to.
    pub(crate) const fn bound(&self) -> &Bound {
        &self.entry.bound
    }

    /// Returns whether the code can be used now.
    pub(crate) fn fate(&self) -> Fate {
        self.entry.fate(clock::now().as_millisecond())
    }

    /// Marks the code as used. Returns whether it was unused: of concurrent uses exactly one succeeds.
    pub(crate) async fn use_up(&self, oidc: &Oidc) -> Result<bool, Error> {
        let used = Entry { used_by: Some(secret::random_text(22)), ..self.entry.clone() };
        oidc.flow.replace(&self.name, &self.code, written(&used)?).await.map_err(lost)
    }
}

fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(sha256(secret.as_bytes()))
}

fn written(entry: &Entry) -> Result<bytes::Bytes, Error> {
    serde_json::to_vec(entry).map(Into::into).map_err(|_| Error::Server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_for_a_minute_and_known_to_be_used_beyond() {
        let entry = |used_by: Option<&str>| {
            let logged_in = AppLogin {
                instance_id: "1".into(),
                client_id: "8".into(),
                scope: "openid".into(),
                user_id: "7".into(),
                seen: 1,
                session_id: "5".into(),
                session_ends: 1000,
                checked_at: 0,
            };
            let bound = Bound { redirect_uri: "https://shop.example/cb".into(), challenge: None, nonce: None };
            let used_by = used_by.map(str::to_owned);
            Entry { logged_in, bound, secret: hash("a"), good_until: 60_000, used_by }
        };
        assert_eq!([0, 59_999, 60_000].map(|now| entry(None).fate(now)), [Fate::Good, Fate::Good, Fate::Late]);
        assert_eq!([0, 60_000].map(|now| entry(Some("x")).fate(now)), [Fate::Again; 2]);
    }
}
