//! Headers of requests that do not depend on the operation.

use http::{HeaderMap, Uri, header};

use crate::error::{Error, Reason};

/// The header that names the organization of a request whose body names none.
pub(crate) const ORGANIZATION: &str = "x-platform-orgid";

/// The longest name of a host, in bytes (RFC 1035, section 2.3.4).
const LONGEST_HOST: usize = 255;

/// The host that a request names, without port, in lower case. A trusted proxy's forwarded host is in place already.
///
/// # Errors
/// When it names none, several, or one that is too long to be one: nothing is cached or looked up for that.
pub fn host(uri: &Uri, headers: &HeaderMap) -> Result<String, Error> {
    let missing = || Error::new(Reason::InvalidRequest, "the request must name exactly one host");
    let mut hosts = headers.get_all(header::HOST).iter();
    let authority = match (uri.authority(), hosts.next(), hosts.next()) {
        (Some(authority), _, None) => authority.clone(),
        (None, Some(host), None) => host.to_str().ok().and_then(|host| host.parse().ok()).ok_or_else(missing)?,
        (_, _, Some(_)) | (None, None, None) => return Err(missing()),
    };
    let port = authority.as_str().strip_prefix(authority.host());
    let has_port = |port: &str| port.is_empty() || port == ":" || authority.port_u16().is_some();
    // User info before the host is refused, too.
    if !port.is_some_and(has_port) {
        return Err(missing());
    }
    if authority.host().len() > LONGEST_HOST {
        return Err(Error::new(Reason::InvalidRequest, format!("the host must have at most {LONGEST_HOST} bytes")));
    }
    Ok(authority.host().to_ascii_lowercase())
}

/// The caller's name for a write.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    match one(headers, "idempotency-key")? {
        Some(key) if !(1..=200).contains(&key.len()) => {
            Err(Error::new(Reason::InvalidRequest, "the Idempotency-Key must have 1 to 200 characters"))
        }
        key => Ok(key.map(str::to_owned)),
    }
}

/// The `traceparent` of a request, if it is well-formed (W3C Trace Context, section 3.2): events store it for ever.
pub(crate) fn trace_context(headers: &HeaderMap) -> Option<&str> {
    let given = text(headers, "traceparent")?;
    let lengths: Vec<usize> = given.split('-').map(str::len).collect();
    let is_lower_hex = |byte: u8| matches!(byte, b'-' | b'0'..=b'9' | b'a'..=b'f');
    (lengths == [2, 32, 16, 2] && given.bytes().all(is_lower_hex)).then_some(given)
}

/// A header that affects the outcome: absent, or exactly one of visible ASCII.
pub(crate) fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Error> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) if value.to_str().is_ok() => Ok(value.to_str().ok()),
        _ => Err(Error::new(Reason::InvalidRequest, format!("{name} must be given once, in visible ASCII characters"))),
    }
}

/// A header as text; one that is not text is treated as absent.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
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
        assert!(of(&"a".repeat(255)).is_some() && of(&"a".repeat(256)).is_none());
        for malformed in ["", "a b", "user@id.example", "id.example:http", "id.example:99999", "id.example/path"] {
            assert_eq!(of(malformed), None, "{malformed}");
        }
    }
}
