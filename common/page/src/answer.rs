//! Answers that are pages, with headers that keep other sites from interfering.

use askama::Template;
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use base::explain::explain;
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::site::Site;

/// What a page may do, beyond showing itself with files of its own site.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The paths of the scripts that run on it; no other file does, wherever it comes from.
    pub scripts: Vec<String>,
    /// Whether scripts may send requests to this site.
    pub connects: bool,
    /// Whether a form of the page may lead to another site: browsers check every redirect that follows a form.
    pub leaves: bool,
}

impl Policy {
    /// The Content-Security-Policy of a page on a site.
    pub fn text(&self, site: &Site) -> String {
        let scripts: Vec<String> = self.scripts.iter().map(|path| format!("{}{path}", site.origin)).collect();
        let scripts = if scripts.is_empty() { "'none'".to_owned() } else { scripts.join(" ") };
        let forms = if self.leaves { "" } else { "form-action 'self'; " };
        let connects = if self.connects { "'self'" } else { "'none'" };
        format!(
            "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; {forms}style-src 'self'; \
             img-src 'self'; font-src 'self'; connect-src {connects}; script-src {scripts}; trusted-types 'none'; \
             require-trusted-types-for 'script'"
        )
    }
}

/// Headers that every page has, whatever it shows.
const HEADERS: [(&str, &str); 7] = [
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// An answer in place of the requested page.
#[derive(Debug)]
pub struct Instead(Box<Response>);

impl From<Response> for Instead {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

impl IntoResponse for Instead {
    fn into_response(self) -> Response {
        *self.0
    }
}

/// Renders a page.
pub fn page(status: StatusCode, template: &impl Template, policy: &str) -> Response {
    let (status, text) = match template.render() {
        Ok(text) => (status, text),
        Err(failure) => {
            tracing::error!(error = explain(&failure), "a page was not rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "The page cannot be shown. Try again later.".to_owned())
        }
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    secure(&mut response);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(policy) = HeaderValue::from_str(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Adds the time until the next try is allowed to a page (RFC 9110, section 10.2.3), in seconds.
pub fn retry_after(mut page: Response, wait_seconds: u64) -> Response {
    page.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait_seconds));
    page
}

/// Redirects a browser after a POST to a GET (RFC 9110, section 15.4.4). The path is on this site.
pub fn see_other(path: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    secure(&mut response);
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}

/// Adds the headers that every answer to a browser has.
pub fn secure(response: &mut Response) {
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Uri};

    use super::*;

    #[test]
    fn a_policy_names_each_script_and_nothing_more() {
        let host = HeaderMap::from_iter([(header::HOST, "localhost:8080".parse().unwrap())]);
        let site = Site::of("http", &Uri::from_static("/"), &host).unwrap();
        let text = Policy { scripts: vec!["/ui/static/a.js".to_owned()], connects: true, leaves: true }.text(&site);
        assert!(
            text.contains("script-src http://localhost:8080/ui/static/a.js;") && text.contains("connect-src 'self'")
        );
        let closed = Policy::default().text(&site);
        assert!(closed.contains("script-src 'none'") && closed.contains("connect-src 'none'"));
        assert!(closed.contains("form-action 'self';") && !text.contains("form-action"));
        for text in [text, closed] {
            assert!(!text.contains("unsafe") && !text.contains('*') && !text.contains("data:"), "{text}");
        }
    }
}
