//! Authorization codes (RFC 6749, section 4.1.2): what a person has logged in to, until the app gets its tokens. A code is good only
//! while its unused entry is there, once, and for a minute.

use std::time::Duration;

use base::{
    clock,
    secret::{self, random_secret, same, sha256},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use eventlog::flow::Code;
use serde::{Deserialize, Serialize};

use crate::{
    Oidc,
    auth_request::{AuthRequest, lost},
    error::Error,
};

/// How long a code is good.
const LIFETIME: Duration = Duration::from_mins(1);
/// The longest code that is looked at.
const LONGEST: usize = 200;

/// What a code stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Granted {
    /// The instance.
    pub(crate) instance_id: String,
    /// What the app has asked for.
    pub(crate) request: AuthRequest,
    /// Who has logged in.
    pub(crate) user_id: String,
    /// The sequence of the log of which that was true, at least.
    pub(crate) seen: u64,
    /// The session.
    pub(crate) session_id: String,
    /// When it ends, in milliseconds since the Unix epoch.
    pub(crate) session_ends: i64,
    /// When the person was checked, in milliseconds since the Unix epoch.
    pub(crate) checked_at: i64,
}

/// An entry as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    granted: Granted,
    /// The hash of the secret of the code, which has 256 bits.
    secret: String,
    /// Until when it is good, in milliseconds since the Unix epoch.
    good_until: i64,
    /// Who has used it: something random.
    used_by: Option<String>,
}

/// A code that was shown, and is one of an instance.
pub(crate) struct Shown {
    pub(crate) granted: Granted,
    /// What is got by it is known by this.
    pub(crate) grant_id: String,
    name: String,
    code: Code,
    entry: Entry,
}

/// A code for what a person has logged in to; `None` where the request was finished before.
pub(crate) async fn draw(oidc: &Oidc, request_id: &str, granted: Granted) -> Result<Option<String>, Error> {
    let secret = random_secret();
    let lifetime = i64::try_from(LIFETIME.as_millis()).unwrap_or_default();
    let good_until = clock::now().as_millisecond().saturating_add(lifetime);
    let entry = Entry { granted, secret: hash(&secret), good_until, used_by: None };
    let is_first = oidc.flow.write(request_id, written(&entry)?).await.map_err(lost)?;
    Ok(is_first.then(|| format!("{request_id}-{secret}")))
}

/// Marks a request as refused. Whether it was not finished before.
pub(crate) async fn refuse(oidc: &Oidc, request_id: &str) -> Result<bool, Error> {
    oidc.flow.write(request_id, "refused".into()).await.map_err(lost)
}

/// The code that was shown, if it is one of an instance, whether or not it is good.
pub(crate) async fn find(oidc: &Oidc, instance_id: &str, shown: &str) -> Result<Option<Shown>, Error> {
    let mut parts = shown.splitn(3, '-');
    let (Some(number), Some(grant_id), Some(secret)) = (parts.next(), parts.next(), parts.next()) else {
        return Ok(None);
    };
    if shown.len() > LONGEST {
        return Ok(None);
    }
    let name = format!("{number}-{grant_id}");
    let Some(code) = oidc.flow.read(&name).await.map_err(lost)? else { return Ok(None) };
    // One that was refused has no entry.
    let Ok(entry) = serde_json::from_slice::<Entry>(&code.value) else { return Ok(None) };
    let is_it = same(entry.secret.as_bytes(), hash(secret).as_bytes()) && entry.granted.instance_id == instance_id;
    let (granted, grant_id) = (entry.granted.clone(), grant_id.to_owned());
    Ok(is_it.then_some(Shown { granted, grant_id, name, code, entry }))
}

impl Shown {
    /// Whether the time is over in which it could be used.
    pub(crate) fn is_late(&self) -> bool {
        self.entry.good_until <= clock::now().as_millisecond()
    }

    /// Whether it was used.
    pub(crate) fn is_used(&self) -> bool {
        self.entry.used_by.is_some()
    }

    /// Uses it up. Whether it was not used before: of many at once one does.
    pub(crate) async fn use_up(&self, oidc: &Oidc) -> Result<bool, Error> {
        let Entry { granted, secret, good_until, used_by } = &self.entry;
        if used_by.is_some() {
            return Ok(false);
        }
        let (granted, used_by) = (granted.clone(), Some(secret::random_text(22)));
        let used = Entry { granted, secret: secret.clone(), good_until: *good_until, used_by };
        oidc.flow.replace(&self.name, &self.code, written(&used)?).await.map_err(lost)
    }
}

fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(sha256(secret.as_bytes()))
}

fn written(entry: &Entry) -> Result<bytes::Bytes, Error> {
    serde_json::to_vec(entry).map(Into::into).map_err(|_| Error::Server)
}
