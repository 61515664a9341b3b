//! The site of a page: its origin, and the names of its cookies.

use http::{HeaderMap, Uri, header, uri::Authority};

/// The origin that a browser has requested, if pages are served there: over https, and on this machine over http, since
/// anybody could listen to sessions otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The origin as browsers write it.
    pub origin: String,
    is_secure: bool,
    port: u16,
}

impl Site {
    /// The site of a request that came over this scheme.
    pub fn of(scheme: &str, uri: &Uri, headers: &HeaderMap) -> Option<Self> {
        let named = || headers.get(header::HOST)?.to_str().ok()?.parse::<Authority>().ok();
        let authority = uri.authority().cloned().or_else(named)?;
        let host = authority.host().to_ascii_lowercase();
        let is_secure = scheme == "https";
        if !is_secure && !is_loopback(&host) {
            return None;
        }
        let usual = if is_secure { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(usual);
        let suffix = if port == usual { String::new() } else { format!(":{port}") };
        Some(Self { origin: format!("{scheme}://{host}{suffix}"), is_secure, port })
    }

    /// The name of a cookie on this site. Browsers let nobody else set one with the prefix `__Host-`; cookies of a host
    /// are shared by its ports, so over http each port has its own.
    pub fn cookie(&self, name: &str) -> String {
        if self.is_secure { format!("__Host-{name}") } else { format!("{name}-{}", self.port) }
    }

    /// Whether cookies are sent over https only.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }
}

/// Whether a host is this machine, regardless of name resolution (RFC 6761, section 6.3).
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(scheme: &str, host: &str) -> Option<Site> {
        let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
        Site::of(scheme, &Uri::from_static("/ui/operate"), &headers)
    }

    #[test]
    fn pages_are_served_over_https_and_on_this_machine() {
        for host in ["localhost:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:8080", "a.localhost"] {
            assert!(site("http", host).is_some(), "{host}");
        }
        for host in ["id.example.com", "localhost.example.com", "10.0.0.1", "128.0.0.1", "notlocalhost", "[::2]"] {
            assert_eq!(site("http", host), None, "{host}");
            assert!(site("https", host).is_some(), "{host}");
        }
    }

    #[test]
    fn an_origin_is_what_browsers_say_and_names_of_cookies_are_its_own() {
        let secure = site("https", "ID.example.com:443").unwrap();
        assert_eq!((secure.origin.as_str(), secure.cookie("x")), ("https://id.example.com", "__Host-x".to_owned()));
        let (one, other) = (site("http", "localhost:8080").unwrap(), site("http", "localhost:8081").unwrap());
        assert_eq!(one.origin, "http://localhost:8080");
        assert_ne!(one.cookie("x"), other.cookie("x"));
    }
}
