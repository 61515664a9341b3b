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
        return Some("must be an absolute URI, with only characters that URIs may have");
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
        return Some("must not have a wildcard (*), except in development mode (dev_mode)");
    }
    let mut names = parts.query.unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    if names.any(|name| ANSWERED.contains(&decoded(name).as_str())) {
        return Some("must not have a parameter of authorization responses, such as code, state, iss or error");
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
            None => {
                plain.push(b'%');
                plain.extend(part.as_bytes());
            }
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
            (at, read) = (begun, taken + 1);
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
        .or((!is_origin).then_some("must be an origin: a scheme, a host and optionally a port, and nothing else"))
}

#[cfg(test)]
mod generated;

#[cfg(test)]
mod tests;
