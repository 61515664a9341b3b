//! More modules of the OpenID Foundation's conformance suite, under their names: of the plan for basic providers those
//! that are not in `conformance`, and of the plan for dynamic ones those that need no registration by the client.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::client::{Answer, send};

use super::{
    flow::{API, App, CALLBACK, Flow, Parameters, access_token, answered, location},
    token::parts,
};

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
async fn oidcc_alternate_happy_flow() {
    let flow = Flow::start().await;
    let mut asked = flow.authorize_parameters(&[("scope", "email profile openid")]);
    asked.reverse();
    let answer = ended(&flow, &flow.sent(&asked).await).await;
    assert_eq!((answer["state"].as_str(), &answer["iss"]), ("a b&c", &flow.tenant.bootstrap.issuer));
    let tokens = flow.redeemed(&answer["code"]).await;
    let [_, claims] = parts(tokens["id_token"].as_str().expect("there is one"));
    assert_eq!((&claims["sub"], &claims["nonce"]), (&json!(flow.person.0), &json!("n-0S6_WzA2Mj")));
    let granted: BTreeSet<_> = tokens["scope"].as_str().expect("it is told").split(' ').collect();
    assert_eq!(granted, BTreeSet::from(["email", "openid", "profile"]));
}

#[tokio::test]
async fn oidcc_scope_all() {
    let flow = Flow::start().await;
    let (tokens, _) = flow.tokens(&[("scope", "openid profile email address phone")]).await;
    let said = flow.userinfo(access_token(&tokens)).await.body;
    for claim in ["sub", "name", "given_name", "family_name", "preferred_username", "locale", "email", "phone_number"] {
        assert!(said[claim].is_string(), "{claim}: {said}");
    }
    for claim in ["email_verified", "phone_number_verified"] {
        assert!(said[claim].is_boolean(), "{claim}: {said}");
    }
    assert_eq!(said["address"], json!({ "country": "US" }), "{said}");
    assert!(said.as_object().expect("it is one").values().all(|value| !value.is_null()), "none is null: {said}");
}

#[tokio::test]
async fn oidcc_ensure_request_object_with_redirect_uri() {
    let flow = Flow::start().await;
    // {"alg":"none"} and {"redirect_uri":"https://evil.example/"}.
    let object = "eyJhbGciOiJub25lIn0.eyJyZWRpcmVjdF91cmkiOiJodHRwczovL2V2aWwuZXhhbXBsZS8ifQ.";
    let url = location(&flow.sent(&flow.authorize_parameters(&[("request", object)])).await);
    assert!(url.starts_with(&format!("{CALLBACK}?error=request_not_supported")), "{url}");
    let without = flow.authorize_parameters(&[("request", object), ("redirect_uri", "")]);
    assert_stays(&flow.sent(&without).await);
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
