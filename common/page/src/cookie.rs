//! Cookies of pages: no script can read them, and other sites' pages have them sent only by a link.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};

use crate::site::Site;

/// The value of a cookie of a site, if there is exactly one of its name: of two, somebody else has set one.
pub fn read<'a>(headers: &'a HeaderMap, site: &Site, name: &str) -> Option<&'a str> {
    let name = site.cookie(name);
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(given, _)| *given == name).map(|(_, value)| value);
    let value = found.next()?;
    (found.next().is_none() && !value.is_empty()).then_some(value)
}

/// Sets a cookie for a time. Its value may have letters, digits, `-`, `_` and `.` only; otherwise it is not set.
pub fn set(site: &Site, name: &str, value: &str, lasts: Duration) -> Option<HeaderValue> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !value.bytes().all(is_plain) {
        return None;
    }
    let secure = if site.is_secure() { "; Secure" } else { "" };
    let (name, age) = (site.cookie(name), lasts.as_secs());
    format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}").parse().ok()
}

/// Removes a cookie.
pub fn remove(site: &Site, name: &str) -> Option<HeaderValue> {
    set(site, name, "", Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use http::Uri;

    use super::*;

    fn site(scheme: &str, host: &str) -> Site {
        let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
        Site::of(scheme, &Uri::from_static("/"), &headers).unwrap()
    }

    #[test]
    fn a_cookie_is_bound_to_its_site_and_hidden_from_scripts() {
        let hour = Duration::from_hours(1);
        let set_on = |scheme, host| set(&site(scheme, host), "session", "a.B-_9", hour).unwrap();
        assert_eq!(
            set_on("https", "id.example.com"),
            "__Host-session=a.B-_9; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure"
        );
        assert_eq!(
            set_on("http", "localhost:8080"),
            "session-8080=a.B-_9; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax"
        );
        assert_eq!(set(&site("https", "a"), "session", "a; Domain=b", hour), None);
    }

    #[test]
    fn of_two_cookies_of_a_name_none_is_read() {
        let read_from = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (header::COOKIE, line.parse().unwrap()));
            read(&lines.collect::<HeaderMap>(), &site("http", "localhost:80"), "s").map(str::to_owned)
        };
        assert_eq!(read_from(&["a=b; s-80=x"]).as_deref(), Some("x"));
        assert_eq!(read_from(&["s=x", "s-81=x", "s-80="]), None);
        assert_eq!(read_from(&["s-80=x; s-80=y"]), None);
    }
}
