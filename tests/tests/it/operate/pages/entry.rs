//! Signing in by a link, and attempts that fail.

use std::time::Duration;

use reqwest::StatusCode;
use tests::{
    browser::{Browser, Page, link, path_of},
    client::{Client, send},
    clock::Clock,
    platform::Platform,
    tenant::Tenant,
};

use super::{assert_closed, open};

const SIGN_IN: &str = "/ui/operate/sign-in";
const PAGES: [&str; 7] = ["", "/nodes", "/projections", "/projections/targets", "/failed", "/log", "/log/1"];

fn link_of(tenant: &Tenant) -> String {
    link(&tenant.data(), &["--issuer", &tenant.bootstrap.issuer])
}

fn assert_refused(case: &str, shown: &Page, what: &str) {
    assert_eq!(shown.status, StatusCode::FORBIDDEN, "{case}: {}", shown.text);
    assert!(shown.text.contains(what), "{case}: {}", shown.text);
    assert_closed(shown);
}

#[tokio::test]
async fn a_link_is_looked_at_often_and_used_once_by_its_button() {
    let tenant = Tenant::start().await;
    let (base, link) = (&tenant.bootstrap.issuer, link_of(&tenant));
    let mut browser = Browser::new(base);
    for _ in 0..2 {
        assert_closed(&browser.get(path_of(&link)).await);
    }
    assert_refused("no session", &browser.get("/ui/operate").await, "platform operate");

    let form = browser.get(path_of(&link)).await.hidden();
    let mut other = Browser::new(base);
    assert_refused("no cookie", &other.post(SIGN_IN, &form).await, "Press the button again");
    for sent_from in [
        vec![],
        vec![("sec-fetch-site", "cross-site".to_owned())],
        vec![("origin", "https://evil.example".to_owned())],
        vec![("origin", "null".to_owned())],
    ] {
        let mut foreign = browser.clone();
        foreign.sent_from = sent_from;
        assert_refused("another site", &foreign.post(SIGN_IN, &form).await, "Nothing was done");
    }
    let mut forged = form.clone();
    let other = if forged[0].1.as_bytes()[30] == b'-' { "_" } else { "-" };
    forged[0].1.replace_range(30..31, other);
    assert_refused("another token", &browser.clone().post(SIGN_IN, &forged).await, "Press the button again");

    let entered = browser.post(SIGN_IN, &form).await;
    assert_eq!((entered.status, entered.location()), (StatusCode::SEE_OTHER, "/ui/operate"), "{}", entered.text);
    let cookies: Vec<_> = entered.headers.get_all("set-cookie").iter().filter_map(|line| line.to_str().ok()).collect();
    assert!(
        cookies.iter().all(|line| line.contains("HttpOnly; SameSite=Lax") && line.contains("Path=/")),
        "{cookies:?}"
    );
    for page in PAGES {
        open(&mut browser, &format!("/ui/operate{page}")).await;
    }
    assert_refused(
        "the same link",
        &Browser::new(base).get(path_of(&link)).await.form_sent(base, &form).await,
        "has been used",
    );
}

/// Sends a form with the cookie of another one.
trait FormSent {
    async fn form_sent(&self, base: &str, form: &[(String, String)]) -> Page;
}

impl FormSent for Page {
    async fn form_sent(&self, base: &str, form: &[(String, String)]) -> Page {
        let mut browser = Browser::new(base);
        let cookie = self.headers["set-cookie"].to_str().expect("it is text");
        let (name, value) = cookie.split(';').next().and_then(|pair| pair.split_once('=')).expect("it has a name");
        browser.cookies.insert(name.to_owned(), value.to_owned());
        let link = form.iter().find(|(name, _)| name == "link").expect("it has a link").clone();
        let own = self.hidden().into_iter().filter(|(name, _)| name != "link").chain([link]).collect::<Vec<_>>();
        browser.post(SIGN_IN, &own).await
    }
}

#[tokio::test]
async fn a_session_is_of_one_instance_and_cannot_be_made() {
    let (tenant, other) = (Tenant::start().await, Tenant::start().await);
    let base = &tenant.bootstrap.issuer;
    let mut browser = Browser::signed_in(base, &link_of(&tenant)).await;
    let (name, session) =
        browser.cookies.iter().next().map(|(name, value)| (name.clone(), value.clone())).expect("it has one");
    let unused = link_of(&tenant);
    let sealed = unused.split_once("link=").expect("it has one").1;
    let with = |base: &str, value: &str| {
        let mut browser = Browser::new(base);
        browser.cookies.insert(name.clone(), value.to_owned());
        browser
    };
    for (case, value) in [
        ("a link as session", sealed.to_owned()),
        ("cut", session[1..].to_owned()),
        ("longer", format!("{session}A")),
        ("changed", format!("{}{}", if session.starts_with("AQ") { "AB" } else { "AA" }, &session[2..])),
        ("a token", tenant.operator().await.token),
    ] {
        assert_refused(case, &with(base, &value).get("/ui/operate").await, "Your session has ended");
    }
    assert_refused("another instance", &with(&other.bootstrap.issuer, &session).get("/ui/operate").await, "has ended");
    let foreign = Browser::new(&other.bootstrap.issuer).get(path_of(&unused)).await;
    assert_refused("a link of another instance", &foreign, "has been used or is older");

    let shown = open(&mut browser, "/ui/operate").await;
    let out = browser.post("/ui/operate/sign-out", &shown.hidden()).await;
    assert_eq!(out.status, StatusCode::OK);
    assert!(browser.cookies.is_empty(), "{:?}", browser.cookies);
    assert_refused("signed out", &browser.get("/ui/operate/failed").await, "You are not signed in");
}

#[tokio::test]
async fn only_system_users_get_a_link_and_only_where_pages_are() {
    let tenant = Tenant::start().await;
    let base = &tenant.bootstrap.issuer;
    let post = async |client: &Client| send(client.request(reqwest::Method::POST, "/ui/operate/link")).await;
    post(&tenant.client().await).await.assert_refused("a user of the instance", 403, "PERMISSION_DENIED");
    let nobody = tenant.operator().await.with("x".to_owned());
    post(&nobody).await.assert_refused("nobody", 401, "TOKEN_INVALID");

    let mut browser = Browser::signed_in(base, &link_of(&tenant)).await;
    for path in ["/x", "/failed/x", "/failed/123", "/projections/none", "/log/0", "/log/99999999999", "/log/x"] {
        let shown = browser.get(&format!("/ui/operate{path}")).await;
        assert_eq!(shown.status, StatusCode::NOT_FOUND, "{path}: {}", shown.text);
        assert_closed(&shown);
    }
    let long = browser.get(&format!("/ui/operate/failed?instance={}", "a".repeat(201))).await;
    assert_eq!(long.status, StatusCode::BAD_REQUEST, "{}", long.text);
    assert!(
        long.text.contains("This filter finds nothing") && long.text.contains("Error: Failed events"),
        "{}",
        long.text
    );
    for path in ["/failed?aggregate=none", "/log?actor=nobody"] {
        assert!(open(&mut browser, &format!("/ui/operate{path}")).await.text.contains("None matches."), "{path}");
    }
    let live = "/ui/operate/live?page=projections";
    let mut led = browser.clone();
    led.sent_from = vec![("sec-fetch-site", "cross-site".to_owned())];
    assert_eq!(led.get(live).await.status, StatusCode::FORBIDDEN);
    for nothing in ["/ui/operate/live", "/ui/operate/live?page=none"] {
        assert_eq!(browser.get(nothing).await.status, StatusCode::NOT_FOUND, "{nothing}");
    }
    assert_eq!(browser.get("/ui/operate/").await.location(), "/ui/operate");
    let mut own = browser.follow(live).await;
    assert_eq!(own.headers()["content-type"], "text/event-stream");
    let first = own.chunk().await.expect("it tells").expect("it tells at once");
    assert!(String::from_utf8_lossy(&first).contains("\"e-targets\":"), "{first:?}");
}

#[tokio::test]
async fn links_and_sessions_end() {
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    platform.ready().await;
    let base = &platform.bootstrap.issuer;
    let (late, used) = (link(&platform.data(), &[]), link(&platform.data(), &[]));
    let mut browser = Browser::signed_in(base, &used).await;
    clock.set_ahead(Duration::from_secs(301));
    assert_refused("a late link", &Browser::new(base).get(path_of(&late)).await, "older than five minutes");
    open(&mut browser, "/ui/operate").await;
    clock.set_ahead(Duration::from_secs(3601));
    assert_refused("a late session", &browser.get("/ui/operate").await, "Your session has ended");
}
