//! Redirects of browsers: the redirect URIs of an app, the answers there, and the login pages. The numbers are those of
//! the cases of the design.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::client::{Answer, done, post, send};

use super::flow::{API, App, CALLBACK, Flow, answered, location, parameters};

const PATH: &str = "/oauth/v2/authorize";
/// A redirect URI with a query.
const REGISTERED: &str = "https://shop.example/callback?tenant=1";

/// Fails unless a page is shown, and the browser is not redirected.
fn assert_shown(case: &str, answer: &Answer) {
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{case}: {answer:?}");
    assert!(!answer.headers.contains_key("location"), "{case}: it leads nowhere");
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8", "{case}");
    assert_eq!(answer.headers["cache-control"], "no-store", "{case}");
}

/// Returns the URL that a request is finished with.
fn callback(answer: &Answer) -> &str {
    answer.body["callbackUrl"].as_str().unwrap_or_else(|| panic!("it is finished: {}", answer.body))
}

/// Starts an app whose redirect URI has a query.
async fn with_query() -> Flow {
    let mut settings = App::public();
    settings["redirectUris"] = json!([REGISTERED]);
    Flow::with(settings).await
}

#[tokio::test]
async fn whatever_differs_from_a_redirect_uri_is_another_one() {
    let flow = with_query().await;
    for (case, uri) in [
        ("10: another scheme", "http://shop.example/callback?tenant=1"),
        ("10: the case of the scheme", "HTTPS://shop.example/callback?tenant=1"),
        ("10: the case of the host", "https://Shop.example/callback?tenant=1"),
        ("10: a dot after the host", "https://shop.example./callback?tenant=1"),
        ("10: a host that looks alike", "https://sh\u{3bf}p.example/callback?tenant=1"),
        ("10: a host that goes on", "https://shop.example.evil.example/callback?tenant=1"),
        ("10: the default port", "https://shop.example:443/callback?tenant=1"),
        ("10: a user", "https://shop.example:443@evil.example/callback?tenant=1"),
        ("10: an encoded slash", "https://shop.example%2Fcallback?tenant=1"),
        ("10: an encoded dot", "https://shop.example/%2e/callback?tenant=1"),
        ("10: a folder up", "https://shop.example/a/../callback?tenant=1"),
        ("10: a folder up with a semicolon", "https://shop.example/a/..;/callback?tenant=1"),
        ("10: two slashes", "https://shop.example//callback?tenant=1"),
        ("10: a backslash", r"https://shop.example\callback?tenant=1"),
        ("10: a backslash and a user", r"https://evil.example\@shop.example/callback?tenant=1"),
        ("10: a new line", "https://shop.example/callback?tenant=1\r\nset-cookie: a=b"),
        ("10: a space before it", " https://shop.example/callback?tenant=1"),
        ("10: a space after it", "https://shop.example/callback?tenant=1 "),
        ("10: no query", CALLBACK),
        ("10: another query", "https://shop.example/callback?tenant=2"),
        ("10: an added query", "https://shop.example/callback?tenant=1&a=b"),
        ("15: a code of its own", "https://shop.example/callback?tenant=1&code=x"),
        ("10: a fragment", "https://shop.example/callback?tenant=1#a"),
        ("10: a script", "javascript:alert(1)"),
        ("10: data", "DATA:text/html,a"),
        ("10: no scheme", "//shop.example/callback?tenant=1"),
        ("10: a path", "/callback?tenant=1"),
    ] {
        assert_shown(case, &flow.sent(&flow.authorize_parameters(&[("redirect_uri", uri)])).await);
    }
    assert!(!flow.waiting(&[("redirect_uri", REGISTERED)]).await.is_empty(), "and the same one is the same");
}

#[tokio::test]
async fn the_query_of_a_redirect_uri_stays_and_is_added_to() {
    let flow = with_query().await;
    let own = ("redirect_uri", REGISTERED);
    let refused = location(&flow.sent(&flow.authorize_parameters(&[own, ("scope", "profile")])).await);
    assert!(refused.starts_with(&format!("{REGISTERED}&error=invalid_scope")), "14: {refused}");
    let (_, token) = flow.session().await;
    let finished = flow.finished(&flow.waiting(&[own]).await, &token).await;
    let url = callback(&finished);
    assert!(url.starts_with(&format!("{REGISTERED}&")), "14: {url}");
    let answer = answered(url);
    assert_eq!((answer["tenant"].as_str(), answer["state"].as_str()), ("1", "a b&c"), "{url}");
    let tokens = send(flow.redeeming(&answer["code"], &[own])).await;
    assert_eq!(tokens.status, StatusCode::OK, "60: {}", tokens.body);
}

#[tokio::test]
async fn an_app_is_answered_in_the_way_that_it_asks_for() {
    let flow = Flow::start().await;
    let (_, token) = flow.session().await;
    for (mode, mark) in [("query", '?'), ("fragment", '#')] {
        let request = flow.waiting(&[("response_mode", mode)]).await;
        let finished = flow.finished(&request, &token).await;
        let url = callback(&finished);
        assert!(url.starts_with(&format!("{CALLBACK}{mark}")), "{mode}: {url}");
        assert_eq!(url.matches(['?', '#']).count(), 1, "{mode}: {url}");
        flow.redeemed(&answered(url)["code"]).await;
    }
    let request = flow.waiting(&[("response_mode", "form_post")]).await;
    let finished = flow.finished(&request, &token).await;
    let own = format!("{}/ui/login/answer?answer=", flow.tenant.bootstrap.issuer);
    assert!(callback(&finished).starts_with(&own), "43: by a form of ours: {}", finished.body);
    let long = "s".repeat(2048);
    for (case, state) in [
        ("18: what ends a header", "a\r\nset-cookie: a=b"),
        ("18: a null", "a\u{0}b"),
        ("19: as long as it may be", &long),
        ("19: of all kinds", "+%2B%00?#&=;/\\\"'<>\u{fc}\u{1f600}"),
    ] {
        let refused = flow.sent(&flow.authorize_parameters(&[("state", state), ("scope", "profile")])).await;
        assert!(!refused.headers.contains_key("set-cookie"), "{case}");
        assert_eq!(answered(&location(&refused))["state"], state, "{case}");
        let finished = flow.finished(&flow.waiting(&[("state", state)]).await, &token).await;
        assert_eq!(answered(callback(&finished))["state"], state, "{case}");
    }
}

#[tokio::test]
async fn people_log_in_where_the_app_says() {
    let mut settings = App::public();
    settings["loginUri"] = json!("https://login.example/start?theme=dark");
    let flow = Flow::with(settings).await;
    let url = location(&flow.sent(&flow.authorize_parameters(&[])).await);
    assert!(url.starts_with("https://login.example/start?theme=dark&authRequest="), "{url}");
    assert_eq!(answered(&url).len(), 2, "nothing of the request is in it: {url}");
    for uri in ["/start", "login.example", "javascript:alert(1)", "ftp://login.example/"] {
        let oidc = json!({ "redirectUris": [CALLBACK], "loginUri": uri });
        let app = json!({ "projectId": flow.project, "name": "Shop", "oidc": oidc });
        let refused = post(&flow.admin, &format!("{API}/apps"), app).await;
        refused.assert_refused(uri, 400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn a_form_is_read_as_a_query_is() {
    let flow = Flow::start().await;
    let posted = async |form: &[(String, String)]| send(flow.admin.anonymous(Method::POST, PATH).form(form)).await;
    let refused = posted(&flow.authorize_parameters(&[("scope", "profile")])).await;
    assert_eq!(refused.status, StatusCode::SEE_OTHER, "55");
    assert_eq!(answered(&location(&refused))["error"], "invalid_scope", "45");
    assert_shown("45: an unknown app", &posted(&flow.authorize_parameters(&[("client_id", "1")])).await);
    let twice = [flow.authorize_parameters(&[]), parameters(&[("nonce", "again")])].concat();
    assert_shown("45 and 6: twice", &posted(&twice).await);
    let typed = flow.admin.anonymous(Method::POST, PATH).json(&json!({ "client_id": flow.app.id }));
    assert_shown("45: JSON", &send(typed).await);
    for name in ["prompt", "nonce", "code_challenge", "response_type", "extra"] {
        for (case, value) in [("the same", "login"), ("nothing", "")] {
            let pair = parameters(&[(name, value), (name, value)]);
            let twice = [flow.authorize_parameters(&[(name, "")]), pair].concat();
            assert_shown(&format!("6: {name} twice: {case}"), &flow.sent(&twice).await);
        }
    }
    let preflight = flow.admin.anonymous(Method::OPTIONS, PATH).header("origin", "https://evil.example");
    let preflight = send(preflight.header("access-control-request-method", "GET")).await;
    let headers = &preflight.headers;
    assert!(!headers.contains_key("access-control-allow-origin"), "52: no page of others takes part: {headers:?}");
    assert!(!headers.contains_key("location"), "52: {headers:?}");
}

#[tokio::test]
async fn an_app_sends_nobody_where_it_is_not_or_is_off() {
    let flow = Flow::start().await;
    let elsewhere = Flow::start().await;
    let other = flow.authorize_parameters(&[("client_id", &elsewhere.app.id)]);
    assert_shown("5: of another instance", &flow.sent(&other).await);

    let organization = done(&flow.admin, &format!("{API}/organizations"), json!({ "name": "Beside" })).await.id();
    let project = json!({ "name": "Resold" });
    let project = done(&flow.admin, &format!("{API}/projects?ctx.orgId={organization}"), project).await.id();
    let app = App::create(&flow.admin, &project, App::public()).await;
    let flow = Flow { project, app, ..flow };
    assert!(!flow.waiting(&[]).await.is_empty());
    done(&flow.admin, &format!("{API}/organizations/{organization}/_deactivate"), json!({})).await;
    assert_shown("5: the organization is off", &flow.sent(&flow.authorize_parameters(&[])).await);
    flow.switch_on(&format!("{API}/organizations/{organization}")).await;
    let request = flow.waiting(&[]).await;
    let gone = flow.admin.request(Method::DELETE, &format!("{API}/apps/{}", flow.app.id));
    assert_eq!(send(gone.header("prefer", "wait=10")).await.status, StatusCode::OK);
    assert_shown("5: the app was deleted", &flow.sent(&flow.authorize_parameters(&[])).await);
    let (_, token) = flow.session().await;
    flow.finished(&request, &token).await.assert_refused("its request", 404, "RESOURCE_NOT_FOUND");
}
