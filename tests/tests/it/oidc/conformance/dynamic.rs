//! The modules of the plan Dynamic that need no registration by the client.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::client::{Answer, send};

use super::super::flow::{API, App, CALLBACK, Flow, Parameters, answered, location};

/// Starts an app with these redirect URIs.
async fn registered(uris: &[&str]) -> Flow {
    let mut settings = App::public();
    settings["redirectUris"] = json!(uris);
    Flow::with(settings).await
}

/// Fails unless a browser is not redirected.
fn assert_stays(answer: &Answer) {
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
    assert!(!answer.headers.contains_key("location"), "{answer:?}");
}

/// Finishes a request with a new session, and returns the answer to the app.
async fn ended(flow: &Flow, led: &Answer) -> Parameters {
    let request = answered(&location(led)).remove("authRequest").expect("it waits");
    let (_, token) = flow.session().await;
    let finished = flow.finished(&request, &token).await;
    answered(finished.body["callbackUrl"].as_str().unwrap_or_else(|| panic!("it is finished: {}", finished.body)))
}

#[tokio::test]
async fn oidcc_ensure_redirect_uri_in_authorization_request() {
    let flow = registered(&[CALLBACK, "https://shop.example/other"]).await;
    // 9: where several are registered, none is meant by saying none.
    assert_stays(&flow.sent(&flow.authorize_parameters(&[("redirect_uri", "")])).await);
    for uri in [CALLBACK, "https://shop.example/other"] {
        assert!(!flow.waiting(&[("redirect_uri", uri)]).await.is_empty(), "{uri}");
    }
}

#[tokio::test]
async fn oidcc_redirect_uri_query_ok() {
    let uri = "https://shop.example/callback?foo=bar";
    let flow = registered(&[uri]).await;
    let led = flow.sent(&flow.authorize_parameters(&[("redirect_uri", uri)])).await;
    let answer = ended(&flow, &led).await;
    assert_eq!((answer["foo"].as_str(), answer["state"].as_str()), ("bar", "a b&c"));
    let tokens = send(flow.redeeming(&answer["code"], &[("redirect_uri", uri)])).await;
    assert_eq!(tokens.status, StatusCode::OK, "{}", tokens.body);
}

#[tokio::test]
async fn oidcc_redirect_uri_query_mismatch() {
    let flow = registered(&["https://shop.example/callback?foo=bar"]).await;
    let other = flow.authorize_parameters(&[("redirect_uri", "https://shop.example/callback?bar=foo")]);
    assert_stays(&flow.sent(&other).await);
}

#[tokio::test]
async fn oidcc_redirect_uri_query_added() {
    let flow = Flow::start().await;
    let added = flow.authorize_parameters(&[("redirect_uri", "https://shop.example/callback?foo=bar")]);
    assert_stays(&flow.sent(&added).await);
}

#[tokio::test]
async fn oidcc_redirect_uri_regfrag() {
    let flow = Flow::start().await;
    let oidc = json!({ "redirectUris": ["https://shop.example/callback#foo"] });
    let app = json!({ "projectId": flow.project, "name": "Shop", "oidc": oidc });
    let made = send(flow.admin.request(Method::POST, &format!("{API}/apps")).json(&app)).await;
    made.assert_refused("a fragment", 400, "INVALID_REQUEST");
}

#[tokio::test]
async fn oidcc_login_hint_and_oidcc_ui_locales_of_any_kind() {
    let flow = Flow::start().await;
    // 36 and 37
    for (name, value) in [
        ("login_hint", "nobody@id.example"),
        ("login_hint", "o'hara+1@id.example"),
        ("login_hint", "j\u{fc}rgen"),
        ("ui_locales", "tlh-x-klingon de-DE-1996 *"),
        ("ui_locales", " "),
    ] {
        let led = flow.sent(&flow.authorize_parameters(&[(name, value)])).await;
        assert!(ended(&flow, &led).await.contains_key("code"), "{name}: {value}");
    }
}
