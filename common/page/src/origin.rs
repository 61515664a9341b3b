//! Checks whether a request that changes something was sent by a page of this site, as far as the browser reveals that.

use http::{HeaderMap, header};

use crate::site::Site;

/// Whether a POST may be processed. If the browser reveals where a request comes from, that must be this site;
/// otherwise the request must name this origin. A page without referrer posts `Origin: null` to its own site, which
/// counts only if the browser declares the same site. A client that forges all of that is no browser, and has no
/// browser's cookie.
pub fn is_own(headers: &HeaderMap, site: &Site) -> bool {
    let Ok(fetched) = one(headers, "sec-fetch-site") else { return false };
    let Ok(origin) = one(headers, header::ORIGIN.as_str()) else { return false };
    match (fetched, origin) {
        (Some("same-origin"), None | Some("null")) => true,
        (Some("same-origin") | None, Some(origin)) => origin == site.origin,
        _ => false,
    }
}

/// Whether a GET was sent by a page of another site, for things that such a page may not have, such as a stream.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    !matches!(one(headers, "sec-fetch-site"), Ok(None | Some("same-origin" | "none")))
}

fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use http::Uri;

    use super::*;

    #[test]
    fn only_what_this_site_has_sent_is_let_in() {
        let host = HeaderMap::from_iter([(header::HOST, "id.example.com".parse().unwrap())]);
        let site = Site::of("https", &Uri::from_static("/"), &host).unwrap();
        let is_let_in = |given: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(*name, value.parse().unwrap());
            }
            is_own(&headers, &site)
        };
        let (fetched, origin) = ("sec-fetch-site", "origin");
        let own = "https://id.example.com";
        for given in [
            vec![(fetched, "same-origin")],
            vec![(fetched, "same-origin"), (origin, "null")],
            vec![(fetched, "same-origin"), (origin, own)],
            vec![(origin, own)],
        ] {
            assert!(is_let_in(&given), "{given:?}");
        }
        for given in [
            vec![],
            vec![(origin, "null")],
            vec![(origin, "https://evil.example")],
            vec![(origin, "http://id.example.com")],
            vec![(origin, "https://id.example.com:8443")],
            vec![(fetched, "cross-site"), (origin, own)],
            vec![(fetched, "same-site"), (origin, "null")],
            vec![(fetched, "none")],
            vec![(fetched, "same-origin"), (origin, "https://evil.example")],
            vec![(fetched, "same-origin"), (fetched, "cross-site")],
            vec![(origin, own), (origin, own)],
        ] {
            assert!(!is_let_in(&given), "{given:?}");
        }
    }
}
