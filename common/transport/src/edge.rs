//! Admission: what every request must pass before its body is looked at.

use std::{sync::Arc, time::Duration};

use action::Actions;
use domain::context::Owner;
use http::{HeaderMap, Uri, header, request::Parts};
use prost::Message;
use proto::operation::Facts;
use store::{
    directory::{Directory, Named, Standing, Tenant},
    ended::Ended,
    explain::explain,
};

use crate::{
    caller::{External, SystemUsers, Verified, Verifier},
    consistency::{Consistency, Tokens},
    error::{Error, Reason},
    precondition::IfMatch,
    trigger::Triggered,
};

pub(crate) const REQUEST_ID: &str = "x-request-id";
/// Names the organization that a request is about, where its body names none.
pub(crate) const ORGANIZATION: &str = "x-platform-orgid";
/// The longest request id that is taken over from the caller, in bytes.
const REQUEST_ID_LIMIT: usize = 128;

/// What a node needs to admit requests.
pub struct Edge {
    /// Who is who.
    pub directory: Directory,
    /// Who is no more.
    pub ended: Ended,
    /// Consistency tokens.
    pub tokens: Tokens,
    /// How instances are reached from outside.
    pub external: External,
    /// What executions need.
    pub actions: Actions,
    pub(crate) verifier: Verifier,
}

/// A request that was admitted.
#[derive(Debug, Clone)]
pub struct Call {
    /// Names the request in logs and answers.
    pub request_id: String,
    /// What is asked for.
    pub operation: &'static Facts,
    /// The instance that the request is about: that of the host, unless an operator of the platform names another.
    pub tenant: Arc<Tenant>,
    /// The context that the request is about.
    pub context: Owner,
    /// The instance of the host, which is the caller's.
    pub home: Arc<Tenant>,
    /// Who asks.
    pub caller: Arc<Standing>,
    /// What it showed.
    pub(crate) token: Arc<Verified>,
    /// Whether that is a system user, whose roles are those of the configuration.
    pub is_system: bool,
    /// What the answer must not be older than.
    pub consistency: Consistency,
    /// The caller's name for this write.
    pub idempotency_key: Option<String>,
    /// The sequences that the object may have.
    pub if_match: Option<IfMatch>,
    /// How long a write shall wait until the read models have it.
    pub wait: Option<Duration>,
    /// The W3C `traceparent` of the request.
    pub trace_context: String,
    /// How many calls of targets it is nested in.
    pub depth: u32,
    /// The executions that it triggers.
    pub triggered: Option<Arc<Triggered>>,
    /// The organization that a header names.
    pub(crate) organization: Option<String>,
}

impl Call {
    /// What the client asked, encoded: the request, before targets have changed it.
    pub fn asked(&self, request: &impl Message) -> Vec<u8> {
        let asked = self.triggered.as_ref().and_then(|triggered| triggered.asked());
        asked.map_or_else(|| request.encode_to_vec(), <[u8]>::to_vec)
    }
}

impl Edge {
    /// An edge with an empty cache of verified tokens.
    pub fn new(
        (directory, ended): (Directory, Ended),
        tokens: Tokens,
        (external, system): (External, SystemUsers),
        actions: Actions,
    ) -> Self {
        Self { directory, ended, tokens, verifier: Verifier::new(external.clone(), system), external, actions }
    }

    /// Whether a request names an instance and has a token for it: what can be said before it is known what is asked.
    pub async fn recognises(&self, parts: &Parts) -> bool {
        let tenant = self.tenant(parts, 0).await;
        tenant.is_ok_and(|tenant| self.verifier.verify(&parts.headers, &tenant).is_ok())
    }

    /// The instance that a request without a caller is for.
    ///
    /// # Errors
    /// Where there is none, or it may not be used.
    pub async fn open_tenant(&self, parts: &Parts) -> Result<Arc<Tenant>, Error> {
        let tenant = self.tenant(parts, 0).await?;
        is_open(&tenant, &self.ended)?;
        Ok(tenant)
    }

    /// The instance that a request is for, by its host. Errors name the request.
    pub async fn tenant(&self, parts: &Parts, sequence: u64) -> Result<Arc<Tenant>, Error> {
        let found = self.tenant_of(parts, sequence).await;
        found.map_err(|error| error.request_id(text(&parts.headers, REQUEST_ID).unwrap_or_default()))
    }

    async fn tenant_of(&self, parts: &Parts, sequence: u64) -> Result<Arc<Tenant>, Error> {
        let host = host(&parts.uri, &parts.headers)?;
        let tenant = self.directory.tenant(Named::Domain(host.clone()), sequence).await.map_err(read_model)?;
        if let Some(tenant) = &tenant {
            tracing::Span::current().record("instance", tenant.id.as_str());
        }
        tenant.ok_or_else(|| {
            Error::new(Reason::InstanceNotFound, format!("no instance answers under the host {host}"))
                .with("host", host)
        })
    }
}

/// The host that a request names, without port, in lower case. What trusted proxies forward was put there before.
pub(crate) fn host(uri: &Uri, headers: &HeaderMap) -> Result<String, Error> {
    let missing = || Error::new(Reason::InvalidRequest, "the request must name exactly one host");
    let mut hosts = headers.get_all(header::HOST).iter();
    let authority = match (uri.authority(), hosts.next(), hosts.next()) {
        (Some(authority), _, None) => authority.clone(),
        (None, Some(host), None) => host.to_str().ok().and_then(|host| host.parse().ok()).ok_or_else(missing)?,
        (_, _, Some(_)) | (None, None, None) => return Err(missing()),
    };
    let port = authority.as_str().strip_prefix(authority.host());
    let has_port = |port: &str| port.is_empty() || port == ":" || authority.port_u16().is_some();
    // What stands before the host is no part of a host either.
    if !port.is_some_and(has_port) {
        return Err(missing());
    }
    Ok(authority.host().to_ascii_lowercase())
}

/// The caller's request id, where it is one that can be logged as it is, else a new one.
pub fn request_id(headers: &HeaderMap) -> String {
    let given = text(headers, REQUEST_ID);
    let plain =
        |id: &&str| (1..=REQUEST_ID_LIMIT).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    given.filter(plain).map_or_else(new_request_id, str::to_owned)
}

/// It names, and keeps no secret.
fn new_request_id() -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(22).collect()
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    match one(headers, "idempotency-key")? {
        Some(key) if !(1..=200).contains(&key.len()) => {
            Err(Error::new(Reason::InvalidRequest, "the Idempotency-Key must have 1 to 200 characters"))
        }
        key => Ok(key.map(str::to_owned)),
    }
}

/// The `traceparent` of a request, where it is one (W3C Trace Context, section 3.2): events keep it for ever.
pub(crate) fn trace_context(headers: &HeaderMap) -> Option<&str> {
    let given = text(headers, "traceparent")?;
    let lengths: Vec<usize> = given.split('-').map(str::len).collect();
    let is_lower_hex = |byte: u8| matches!(byte, b'-' | b'0'..=b'9' | b'a'..=b'f');
    (lengths == [2, 32, 16, 2] && given.bytes().all(is_lower_hex)).then_some(given)
}

/// A header that decides something: absent, or exactly one of visible ASCII.
pub(crate) fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Error> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) if value.to_str().is_ok() => Ok(value.to_str().ok()),
        _ => Err(Error::new(Reason::InvalidRequest, format!("there must be one {name}, of visible ASCII characters"))),
    }
}

/// A header as text; what is no text is treated as absent.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Whether an instance may be used by those who belong to it.
pub(crate) fn is_open(tenant: &Tenant, ended: &Ended) -> Result<(), Error> {
    if tenant.instance.limits.block {
        return Err(Error::new(Reason::InstanceBlocked, "the instance is blocked; ask the operator of the platform"));
    }
    if !tenant.instance.is_active || ended.is_off(&tenant.id, tenant.processed) {
        return Err(Error::new(Reason::InstanceInactive, "the instance is switched off"));
    }
    Ok(())
}

/// A token that may be dead is not taken for one that is alive.
pub(crate) fn unheard() -> Error {
    let message = "this node has not heard for too long whether tokens have ended";
    Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(5))
}

/// A feature that is switched off for the instance.
pub fn feature_disabled(feature: &str) -> Error {
    Error::new(Reason::FeatureDisabled, format!("the feature {feature} is not enabled")).with("feature", feature)
}

/// A permission that the caller has not.
pub fn permission_denied(permission: &str) -> Error {
    let message = format!("the caller lacks the permission {permission}");
    Error::new(Reason::PermissionDenied, message).with("permission", permission)
}

/// A read model that cannot be read at the moment.
#[expect(clippy::needless_pass_by_value, reason = "it is used with map_err")]
pub fn read_model(failure: Arc<store::database::Failure>) -> Error {
    tracing::warn!(error = %explain(&*failure), "the read model cannot be read");
    let message = "the read model cannot be read at the moment";
    Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_trace_context_is_kept() {
        let whole = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let kept = |given: &str| {
            let headers =
                HeaderMap::from_iter([(http::HeaderName::from_static("traceparent"), given.parse().unwrap())]);
            trace_context(&headers).map(str::to_owned)
        };
        assert_eq!(kept(whole).as_deref(), Some(whole));
        for other in ["", "junk", &"a".repeat(5000), &whole.to_uppercase(), &format!("{whole}-x"), &whole[1..]] {
            assert_eq!(kept(other), None, "{other}");
        }
    }

    #[test]
    fn a_host_has_a_port_or_none() {
        let of = |given: &str| {
            let (parts, ()) = http::Request::get("/").header("host", given).body(()).unwrap().into_parts();
            host(&parts.uri, &parts.headers).ok()
        };
        for given in ["ID.example", "id.example:", "id.example:8080"] {
            assert_eq!(of(given).as_deref(), Some("id.example"), "{given}");
        }
        assert_eq!(of("[::1]:80").as_deref(), Some("[::1]"));
        for malformed in ["", "a b", "user@id.example", "id.example:http", "id.example:99999", "id.example/path"] {
            assert_eq!(of(malformed), None, "{malformed}");
        }
    }
}
