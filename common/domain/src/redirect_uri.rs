//! Redirect URIs: which can work at all, and what a URI says of where it leads. That they are absolute URIs of RFC 3986 is said
//! in the proto.

/// Schemes that browsers run or open by themselves: nobody answers there, and what is run is what somebody wrote.
const DANGEROUS: [&str; 9] =
    ["about", "blob", "chrome", "data", "file", "filesystem", "javascript", "vbscript", "view-source"];
/// What an answer adds to the query: a URI that has one of these already would say it twice.
const ANSWERED: [&str; 9] =
    ["access_token", "code", "error", "error_description", "id_token", "iss", "response", "session_state", "state"];

/// The parts of a URI that rules are about, as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// What stands before the first colon.
    pub scheme: &'a str,
    /// User, host and port, where there may be any.
    authority: Option<&'a str>,
    /// The path.
    path: &'a str,
    /// What follows the question mark.
    query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// Those of a text, if it has a scheme.
    pub fn of(uri: &'a str) -> Option<Self> {
        let (scheme, rest) = uri.split_once(':')?;
        let is_scheme = scheme.starts_with(|char: char| char.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let after = rest.strip_prefix("//");
        let (authority, path) = match after {
            Some(after) => {
                let end = after.find('/').unwrap_or(after.len());
                (Some(&after[..end]), &after[end..])
            }
            None => (None, rest),
        };
        is_scheme.then_some(Self { scheme, authority, path, query })
    }

    /// Whether it is of http.
    pub fn is_http(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("http")
    }

    /// Whether it is of a scheme of its own, which only an app on a device hears of.
    pub fn is_custom(&self) -> bool {
        !self.is_http() && !self.scheme.eq_ignore_ascii_case("https")
    }

    /// Whether it leads to the machine that opens it.
    pub fn is_loopback(&self) -> bool {
        let host = self.host().to_ascii_lowercase();
        ["localhost", "127.0.0.1", "[::1]"].contains(&host.as_str())
    }

    /// Whether it is all of an origin and nothing else.
    fn is_origin(&self) -> bool {
        !self.host().is_empty() && self.path.is_empty() && self.query.is_none()
    }

    fn host(&self) -> &'a str {
        let authority = self.authority.unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        host.rsplit_once(':').filter(|(_, port)| digits(port)).map_or(host, |(host, _)| host)
    }
}

/// Why nobody can be sent to a URI, if nobody can.
pub fn refused(uri: &str, has_wildcards: bool) -> Option<&'static str> {
    let is_plain = uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte));
    let Some(parts) = Parts::of(uri).filter(|_| is_plain) else {
        return Some("must be an absolute URI, of the characters that URIs have");
    };
    if DANGEROUS.iter().any(|scheme| parts.scheme.eq_ignore_ascii_case(scheme)) {
        return Some(
            "must not be of a scheme that browsers run or open by themselves, such as javascript, data or file",
        );
    }
    if uri.contains('#') {
        return Some("must not have a fragment");
    }
    if parts.authority.is_some_and(|authority| authority.contains('@')) {
        return Some("must not have a user or a password");
    }
    if !parts.is_custom() && parts.host().is_empty() {
        return Some("must have a host");
    }
    if uri.contains('*') && !has_wildcards {
        return Some("must not have a wildcard (*), save under development (dev_mode)");
    }
    let mut names = parts.query.unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    if names.any(|name| ANSWERED.contains(&name)) {
        return Some("must not have a parameter that answers have, such as code, state, iss or error");
    }
    None
}

/// Why no page has an origin, if none has.
pub fn refused_origin(origin: &str, has_wildcards: bool) -> Option<&'static str> {
    let is_origin = Parts::of(origin).is_some_and(|parts| parts.is_origin());
    refused(origin, has_wildcards)
        .or((!is_origin).then_some("must be an origin: a scheme and a host, with a port or without, and nothing else"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_work_is_taken_as_it_is() {
        for uri in [
            "https://shop.example/callback",
            "https://shop.example:8443/callback?tenant=1&states=2",
            "https://xn--bcher-kva.example/%C3%A4",
            "HTTPS://shop.example",
            "http://localhost/callback",
            "http://127.0.0.1:3000/",
            "http://[::1]:3000/callback",
            "com.example.shop:/callback",
            "com.example.shop://callback",
            "shop:callback",
        ] {
            assert_eq!(refused(uri, false), None, "{uri}");
        }
        for uri in ["https://*.shop.example/*", "http://localhost:*/callback"] {
            assert_eq!(refused(uri, true), None, "{uri}");
        }
    }

    #[test]
    fn what_can_never_work_is_refused_for_a_reason() {
        for (uri, reason) in [
            ("", "absolute"),
            ("/callback", "absolute"),
            ("//shop.example/callback", "absolute"),
            ("shop.example/callback", "absolute"),
            ("1https://shop.example", "absolute"),
            ("https://shop.example/a b", "characters"),
            ("https://shop.example/\ta", "characters"),
            ("https://shop.example/\n", "characters"),
            ("https://shop.example/\u{0}", "characters"),
            ("https://shop.example\\@evil.example", "characters"),
            ("https://bücher.example/", "characters"),
            ("https://shop.example/#", "fragment"),
            ("https://shop.example/callback#part", "fragment"),
            ("com.example.shop:/callback#part", "fragment"),
            ("https://user@shop.example/", "user"),
            ("https://user:password@shop.example/", "user"),
            ("http://localhost:80@evil.example/", "user"),
            ("https:///callback", "host"),
            ("https:callback", "host"),
            ("http://:80/", "host"),
            ("https://?a=b", "host"),
            ("https://*.shop.example/", "wildcard"),
            ("https://shop.example/*", "wildcard"),
            ("javascript:alert(1)", "scheme"),
            ("JavaScript://shop.example/%0aalert(1)", "scheme"),
            ("data:text/html,a", "scheme"),
            ("vbscript:a", "scheme"),
            ("file:///etc/passwd", "scheme"),
            ("blob:https://shop.example/a", "scheme"),
            ("https://shop.example/?code=1", "parameter"),
            ("https://shop.example/?a=b&state=1", "parameter"),
            ("https://shop.example/?iss", "parameter"),
            ("https://shop.example/?error=a", "parameter"),
        ] {
            let found = refused(uri, false).unwrap_or_else(|| panic!("{uri} is refused"));
            assert!(found.contains(reason), "{uri}: {found}");
        }
    }

    #[test]
    fn a_uri_says_where_it_leads() {
        let parts = |uri| Parts::of(uri).expect("it has a scheme");
        for uri in
            ["http://localhost", "http://LOCALHOST:80/a", "http://127.0.0.1:1/", "http://[::1]", "http://[::1]:2/"]
        {
            assert!(parts(uri).is_loopback() && parts(uri).is_http(), "{uri}");
        }
        for uri in ["http://localhost.example", "http://127.0.0.1.example/", "http://a/localhost", "https://[::2]/"] {
            assert!(!parts(uri).is_loopback() && !parts(uri).is_custom(), "{uri}");
        }
        assert!(parts("com.example.shop:/a").is_custom() && !parts("com.example.shop:/a").is_http());
    }

    #[test]
    fn an_origin_is_that_and_nothing_else() {
        for origin in ["https://shop.example", "http://localhost:3000", "capacitor://localhost"] {
            assert_eq!(refused_origin(origin, false), None, "{origin}");
        }
        for origin in ["https://shop.example/", "https://shop.example?a", "https://a@b", "shop:callback", "data:a", "a"]
        {
            assert!(refused_origin(origin, false).is_some(), "{origin}");
        }
    }
}
