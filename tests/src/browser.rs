//! A browser without scripts: it stores cookies, sends where its requests come from, and follows no redirect by itself.

use std::{collections::BTreeMap, path::Path};

use reqwest::{
    Method, StatusCode,
    header::{COOKIE, HOST, HeaderMap, LOCATION, SET_COOKIE},
    redirect::Policy,
};

use crate::{client::http, process::run};

/// A browser of one node.
#[derive(Debug, Clone)]
pub struct Browser {
    http: reqwest::Client,
    base: String,
    /// The host that it names, where a proxy leads it to nodes.
    host: Option<String>,
    /// The cookies, by name.
    pub cookies: BTreeMap<String, String>,
    /// The headers that name where its forms come from.
    pub sent_from: Vec<(&'static str, String)>,
}

/// A page that was shown.
#[derive(Debug, Clone)]
pub struct Page {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The page.
    pub text: String,
}

impl Browser {
    /// Returns a browser without cookies, for a node at this address.
    pub fn new(base: &str) -> Self {
        let http = http(base).redirect(Policy::none()).build().expect("a client");
        let sent_from = vec![("sec-fetch-site", "same-origin".to_owned()), ("origin", "null".to_owned())];
        let base = base.trim_end_matches('/').to_owned();
        Self { http, base, host: None, cookies: BTreeMap::new(), sent_from }
    }

    /// Returns a browser for an issuer, which a proxy leads to nodes ([`Browser::led_to`]).
    pub fn behind_proxy(issuer: &str) -> Self {
        let host = issuer.split_once("://").map(|(_, host)| host.to_owned());
        Self { host, ..Self::new(issuer) }
    }

    /// Leads the browser to a node at this address.
    pub fn led_to(&mut self, node: &str) {
        node.clone_into(&mut self.base);
    }

    /// Returns a browser that has signed in with a sign-in link.
    pub async fn signed_in(base: &str, link: &str) -> Self {
        let mut browser = Self::new(base);
        let form = browser.get(path_of(link)).await;
        assert_eq!(form.status, StatusCode::OK, "{}", form.text);
        let shown = browser.post("/ui/operate/sign-in", &form.hidden()).await;
        assert_eq!((shown.status, shown.location()), (StatusCode::SEE_OTHER, "/ui/operate"), "{}", shown.text);
        browser
    }

    /// Opens a page.
    pub async fn get(&mut self, path: &str) -> Page {
        self.try_get(path).await.expect("the node answers")
    }

    /// Opens a page of a node that may not answer.
    pub async fn try_get(&mut self, path: &str) -> reqwest::Result<Page> {
        let request = self.http.request(Method::GET, format!("{}{path}", self.base));
        // A page may be opened from anywhere on the same site, without a header for that.
        let said = self.sent_from.iter().filter(|(_, value)| value == "cross-site");
        self.send(said.fold(request, |request, (name, value)| request.header(*name, value))).await
    }

    /// Opens a stream that a page follows.
    pub async fn follow(&self, path: &str) -> reqwest::Response {
        let request = self.http.request(Method::GET, format!("{}{path}", self.base));
        let request = request.header("sec-fetch-site", "same-origin").header(COOKIE, self.cookie());
        request.send().await.expect("the node answers")
    }

    /// Sends a form.
    pub async fn post(&mut self, path: &str, form: &[(String, String)]) -> Page {
        self.try_post(path, form).await.expect("the node answers")
    }

    /// Sends a form to a node that may not answer.
    pub async fn try_post(&mut self, path: &str, form: &[(String, String)]) -> reqwest::Result<Page> {
        let mut request = self.http.request(Method::POST, format!("{}{path}", self.base)).form(form);
        for (name, value) in &self.sent_from {
            request = request.header(*name, value);
        }
        self.send(request).await
    }

    fn cookie(&self) -> String {
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        cookies.join("; ")
    }

    async fn send(&mut self, request: reqwest::RequestBuilder) -> reqwest::Result<Page> {
        let request = self.host.iter().fold(request, |request, host| request.header(HOST, host));
        let request = if self.cookies.is_empty() { request } else { request.header(COOKIE, self.cookie()) };
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await?;
        for line in headers.get_all(SET_COOKIE) {
            let line = line.to_str().expect("a cookie is text");
            let (name, value) = line.split(';').next().and_then(|pair| pair.split_once('=')).expect("it has a name");
            if !value.is_empty() {
                assert_is_kept_from_others(name, line);
            }
            if line.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(Page { status, headers, text })
    }
}

impl Page {
    /// Returns the location that it redirects to.
    pub fn location(&self) -> &str {
        self.headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Fails where another site may frame the page, a browser stores it, or code from elsewhere can run in it.
    pub fn assert_guarded(&self) {
        let header = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let policy = header("content-security-policy");
        for part in [
            "default-src 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "trusted-types 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "53: {part}: {policy}");
        }
        let is_open = policy.contains("unsafe") || policy.contains('*') || policy.contains("script-src 'self'");
        assert!(!is_open, "{policy}");
        for (name, wanted) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("content-type", "text/html; charset=utf-8"),
            ("access-control-allow-origin", ""),
        ] {
            assert_eq!(header(name), wanted, "53, 54: {name}: {}", self.text);
        }
        assert!(!self.text.contains("style=\"") && !self.text.contains("onclick"), "{}", self.text);
    }

    /// Returns the hidden fields of the last form of the page; every page with a menu has the form for signing out
    /// before it.
    pub fn hidden(&self) -> Vec<(String, String)> {
        let form = self.last_form();
        let fields = form.split("<input type=\"hidden\" name=\"").skip(1);
        let of = |field: &str| {
            let (name, rest) = field.split_once("\" value=\"").expect("it has a value");
            (name.to_owned(), unescaped(rest.split('"').next().unwrap_or_default()))
        };
        fields.map(of).collect()
    }

    fn last_form(&self) -> &str {
        self.text.rfind("<form method=\"post\"").map_or("", |at| &self.text[at..])
    }

    /// Returns the URL that the last form of the page is sent to.
    pub fn action(&self) -> String {
        let action = self.last_form().split_once("action=\"").map_or("", |(_, rest)| rest);
        unescaped(action.split('"').next().unwrap_or_default())
    }

    /// Returns the hidden fields of the last form, with more fields.
    pub fn form(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.hidden().into_iter().chain(more).collect()
    }
}

/// Fails unless scripts cannot read a cookie, forms of other sites are sent without it, and it belongs to this host alone.
fn assert_is_kept_from_others(name: &str, line: &str) {
    let flags: Vec<String> = line.split(';').skip(1).map(|flag| flag.trim().to_ascii_lowercase()).collect();
    // The cookies of Apache become stricter after a while; the platform's own must be sent with a link of an app.
    let same_site = if name.starts_with("mod_auth_openidc") { "samesite=" } else { "samesite=lax" };
    for wanted in ["httponly", same_site, "path=/"] {
        assert!(flags.iter().any(|flag| flag.starts_with(wanted)), "{wanted} is missing: {line}");
    }
    assert_eq!(name.starts_with("__Host-"), flags.iter().any(|flag| flag == "secure"), "{line}");
    assert!(!flags.iter().any(|flag| flag.starts_with("domain")), "{line}");
}

fn unescaped(text: &str) -> String {
    text.replace("&#38;", "&").replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\"").replace("&#39;", "'")
}

/// Returns a sign-in link to the pages of operators, for the system user of a data directory.
pub fn link(data: &Path, more: &[&str]) -> String {
    let data = data.display().to_string();
    let (is_done, link, told) = run(&[&["operate", "--data-dir", &data], more].concat());
    assert!(is_done, "{told}");
    link.trim().to_owned()
}

/// Returns what follows the host of a link.
pub fn path_of(link: &str) -> &str {
    link.find("/ui/").map_or("", |at| &link[at..])
}
