//! Redirect URIs: which can work at all, and where a URI leads. That they are absolute URIs of RFC 3986 is stated in
//! the proto.

/// Schemes that browsers run or open by themselves: no app answers there, and what is run is whatever somebody wrote.
const DANGEROUS: [&str; 9] =
    ["about", "blob", "chrome", "data", "file", "filesystem", "javascript", "vbscript", "view-source"];
/// The parameters that an answer adds to the query: a URI that already has one of these would contain it twice.
const ANSWERED: [&str; 9] =
    ["access_token", "code", "error", "error_description", "id_token", "iss", "response", "session_state", "state"];

/// The parts of a URI that rules are about, as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UriParts<'a> {
    /// The part before the first colon.
    pub scheme: &'a str,
    /// User, host and port, if the URI has an authority.
    authority: Option<&'a str>,
    /// The path.
    path: &'a str,
    /// The part after the question mark.
    query: Option<&'a str>,
}

impl<'a> UriParts<'a> {
    /// Splits a text into its parts, if it has a scheme.
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

    /// Whether the scheme is http.
    pub fn is_http(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("http")
    }

    /// Whether the scheme is neither http nor https: only an app on a device handles it.
    pub fn is_custom(&self) -> bool {
        !self.is_http() && !self.scheme.eq_ignore_ascii_case("https")
    }

    /// Whether the URI leads to the machine that opens it.
    pub fn is_loopback(&self) -> bool {
        let host = self.host().to_ascii_lowercase();
        ["localhost", "127.0.0.1", "[::1]"].contains(&host.as_str())
    }

    /// Returns the origin, if the URI is in the web and has no wildcard there.
    pub fn origin(&self) -> Option<String> {
        let authority = self.authority.filter(|authority| !self.is_custom() && !authority.contains('*'))?;
        Some(format!("{}://{authority}", self.scheme))
    }

    /// Whether the URI is an origin and nothing else.
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

/// Returns why nobody can be sent to a URI, if so.
pub fn refused(uri: &str, has_wildcards: bool) -> Option<&'static str> {
    let is_plain = uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte));
    let Some(parts) = UriParts::of(uri).filter(|_| is_plain) else {
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
    if names.any(|name| ANSWERED.contains(&decoded(name).as_str())) {
        return Some("must not have a parameter that answers have, such as code, state, iss or error");
    }
    None
}

/// Decodes a name as its reader would: percent-encoding may hide what it is.
fn decoded(name: &str) -> String {
    let mut parts = name.split('%');
    let begins = parts.next().unwrap_or_default().as_bytes().to_vec();
    let plain = parts.fold(begins, |mut plain, part| {
        match part
            .get(..2)
            .filter(|digits| !digits.starts_with('+'))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
        {
            Some(byte) => {
                plain.push(byte);
                plain.extend(&part.as_bytes()[2..]);
            }
            None => plain.extend(part.as_bytes()),
        }
        plain
    });
    String::from_utf8_lossy(&plain).into_owned()
}

/// The differences that are allowed between a URI and a registered one.
#[derive(Debug, Clone, Copy)]
pub struct Leniency {
    /// Whether the app runs on a device of its user, where a port is free only by chance (RFC 8252, section 7.3).
    pub any_port: bool,
    /// Whether `*` stands for any characters of one part of a URI.
    pub wildcards: bool,
}

/// Whether somebody may be sent to a URI if this one is registered: they must be the same, character by character,
/// except for what the app is allowed.
pub fn is_registered(registered: &str, uri: &str, Leniency { any_port, wildcards }: Leniency) -> bool {
    if refused(uri, false).is_some() {
        return false;
    }
    let on_loopback = |uri: &str| UriParts::of(uri).is_some_and(|parts| parts.is_http() && parts.is_loopback());
    let same_but_port = || {
        on_loopback(registered)
            && on_loopback(uri)
            && without_port(registered).is_some_and(|registered| without_port(uri) == Some(registered))
    };
    registered == uri || any_port && same_but_port() || wildcards && is_match(registered.as_bytes(), uri.as_bytes())
}

/// Returns a URI without its port, if that is a number.
fn without_port(uri: &str) -> Option<(&str, &str)> {
    let host = uri.find("//")? + 2;
    let end = uri[host..].find(['/', '?']).map_or(uri.len(), |end| host + end);
    // An IPv6 address has colons, and ends with a bracket.
    let port = uri[host..end].rfind(':').map(|colon| host + colon).filter(|colon| !uri[*colon..end].contains(']'));
    let Some(colon) = port else { return Some((&uri[..end], &uri[end..])) };
    let digits = &uri[colon + 1..end];
    let is_port = digits.parse::<u16>().is_ok() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_port.then_some((&uri[..colon], &uri[end..]))
}

/// Whether a text matches a pattern. A `*` stands for none of the characters that separate parts, so where the first of
/// two could end later, the second could not do better.
fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, read));
            at += 1;
        } else if pattern.get(at) == Some(&text[read]) {
            (at, read) = (at + 1, read + 1);
        } else {
            // The last wildcard takes one more character.
            let Some((begun, taken)) = star.filter(|(_, taken)| !b"/?#:@&=".contains(&text[*taken])) else {
                return false;
            };
            star = Some((begun, taken + 1));
            (at, read) = (begun + 1, taken + 1);
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns an origin as browsers send it (RFC 6454, section 6.2): in lower case, without the default port of its
/// scheme.
pub fn said_origin(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let usual = match origin.split_once(':') {
        Some(("https", _)) => ":443",
        Some(("http", _)) => ":80",
        _ => return origin,
    };
    origin.strip_suffix(usual).map_or(origin.clone(), str::to_owned)
}

/// Returns why no page can have this origin, if so.
pub fn refused_origin(origin: &str, has_wildcards: bool) -> Option<&'static str> {
    let is_origin = UriParts::of(origin).is_some_and(|parts| parts.is_origin());
    refused(origin, has_wildcards)
        .or((!is_origin).then_some("must be an origin: a scheme and a host, with a port or without, and nothing else"))
}

#[cfg(test)]
mod generated;

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Leniency = Leniency { any_port: false, wildcards: false };

    #[test]
    fn a_uri_is_registered_character_by_character() {
        let registered = "https://shop.example/callback?tenant=1";
        assert!(is_registered(registered, registered, EXACT));
        for other in [
            "https://shop.example/callback",
            "https://shop.example/callback?tenant=1&x=2",
            "https://shop.example/callback?tenant=1#",
            "https://Shop.example/callback?tenant=1",
            "https://shop.example:443/callback?tenant=1",
            "https://shop.example/callback/?tenant=1",
            "https://shop.example/%63allback?tenant=1",
            "http://shop.example/callback?tenant=1",
            "",
        ] {
            assert!(!is_registered(registered, other, EXACT), "{other}");
        }
        assert!(!is_registered("javascript:a", "javascript:a", EXACT), "what is registered from before a rule");
    }

    #[test]
    fn to_a_device_any_port_leads_and_nothing_else_differs() {
        let native = Leniency { any_port: true, ..EXACT };
        for (registered, uri, is_it) in [
            ("http://127.0.0.1/cb", "http://127.0.0.1:1234/cb", true),
            ("http://127.0.0.1:80/cb", "http://127.0.0.1/cb", true),
            ("http://[::1]:1/cb", "http://[::1]:2/cb", true),
            ("http://[::1]/cb", "http://[::1]:2/cb", true),
            ("http://localhost/cb", "http://localhost:2/cb", true),
            ("http://127.0.0.1/cb", "http://[::1]:1234/cb", false),
            ("http://127.0.0.1/cb", "http://localhost:1234/cb", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1234/cb/", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1234/cb?a", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:65536/cb", false),
            ("http://127.0.0.1:65536/cb", "http://127.0.0.1:65537/elsewhere", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:+1/cb", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:80@evil.example/cb", false),
            ("http://127.0.0.1/cb", "http://127.0.0.1:80.evil.example/cb", false),
            ("https://127.0.0.1/cb", "https://127.0.0.1:1234/cb", false),
            ("http://shop.example/cb", "http://shop.example:1234/cb", false),
        ] {
            assert_eq!(is_registered(registered, uri, native), is_it, "{registered} {uri}");
            assert_eq!(is_registered(registered, uri, EXACT), registered == uri, "{registered} {uri}");
        }
    }

    #[test]
    fn a_wildcard_stands_for_characters_of_one_part() {
        let develops = Leniency { wildcards: true, ..EXACT };
        for (registered, uri, is_it) in [
            ("https://*.shop.example/cb", "https://a.shop.example/cb", true),
            ("https://*.shop.example/cb", "https://a.b.shop.example/cb", true),
            ("https://a-*-b-*.example/*/x", "https://a-b-1-b-2.example/p/x", true),
            ("https://shop.example/*", "https://shop.example/", true),
            ("https://*.shop.example/cb", "https://evil.example/.shop.example/cb", false),
            ("https://*.shop.example/cb", "https://evil.example?.shop.example/cb", false),
            ("https://*.shop.example/cb", "https://evil.example:1.shop.example/cb", false),
            ("https://*.shop.example/cb", "https://evil.example@a.shop.example/cb", false),
            ("https://shop.example/*/x", "https://shop.example/a/b/x", false),
            ("https://shop.example/*", "https://shop.example/a?b", false),
            ("https://shop.example/cb?x=*", "https://shop.example/cb?x=1&y=2", false),
            ("https://*.shop.example/cb", "https://*.shop.example/cb", false),
        ] {
            assert_eq!(is_registered(registered, uri, develops), is_it, "{registered} {uri}");
            assert!(!is_registered(registered, uri, EXACT), "{registered} {uri}");
        }
    }

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
        let parts = |uri| UriParts::of(uri).expect("it has a scheme");
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
    fn browsers_say_no_port_that_goes_without_saying() {
        for (origin, said) in [
            ("HTTPS://Shop.example:443", "https://shop.example"),
            ("http://shop.example:80", "http://shop.example"),
            ("http://shop.example:443", "http://shop.example:443"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            assert_eq!(said_origin(origin), said);
        }
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
