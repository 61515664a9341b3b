//! The modules of the OpenID Foundation's conformance suite that apply so far, each under its name.

use std::time::Duration;

use jsonwebtoken::{DecodingKey, Validation, decode, decode_header, jwk::JwkSet};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::client::send;
use tokio::time::sleep;

use super::{
    flow::{API, CALLBACK, Flow, access_token, answered, location},
    token::{assert_error, parts},
};

/// The claims of an ID token, which the key set of the instance verifies.
async fn verified(flow: &Flow, tokens: &Value) -> Value {
    let token = tokens["id_token"].as_str().expect("there is one");
    let keys = send(flow.admin.anonymous(Method::GET, "/oauth/v2/keys")).await.body;
    let keys: JwkSet = serde_json::from_value(keys).expect("they are keys");
    let header = decode_header(token).expect("it is a JWT");
    let key = keys.find(header.kid.as_deref().expect("it names its key")).expect("the key is published");
    let mut validation = Validation::new(header.alg);
    validation.set_audience(&[&flow.app.id]);
    validation.set_issuer(&[&flow.tenant.bootstrap.issuer]);
    let key = DecodingKey::from_jwk(key).expect("it can be used");
    decode::<Value>(token, &key, &validation).expect("it is valid").claims
}

async fn claims(flow: &Flow, others: &[(&str, &str)]) -> Value {
    let (tokens, _) = flow.tokens(others).await;
    let claims = verified(flow, &tokens).await;
    let said = flow.userinfo(access_token(&tokens)).await.body;
    assert_eq!((&claims["sub"], &said["sub"]), (&json!(flow.person.0), &json!(flow.person.0)));
    said
}

/// Whether a login with these parameters succeeds.
async fn succeeds(others: &[(&str, &str)]) {
    claims(&Flow::start().await, others).await;
}

#[tokio::test]
async fn oidcc_server_and_oidcc_idtoken_signature() {
    let flow = Flow::with(json!({})).await;
    let (answer, _) = flow.log_in(&[]).await;
    assert_eq!((answer["state"].as_str(), &answer["iss"]), ("a b&c", &flow.tenant.bootstrap.issuer));
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._~".contains(char);
    assert!(answer["code"].chars().all(is_plain), "{answer:?}");
    let tokens = flow.redeemed(&answer["code"]).await;
    let claims = verified(&flow, &tokens).await;
    let hash = base::signing::half_hash("RS256", access_token(&tokens));
    assert_eq!((&claims["nonce"], &claims["at_hash"]), (&json!("n-0S6_WzA2Mj"), &json!(hash)));
    assert_eq!(decode_header(tokens["id_token"].as_str().unwrap()).unwrap().alg, jsonwebtoken::Algorithm::RS256);
}

#[tokio::test]
async fn oidcc_server_client_secret_post() {
    let flow = Flow::with(json!({ "authMethodType": "OIDC_AUTH_METHOD_TYPE_POST" })).await;
    let (answer, _) = flow.log_in(&[]).await;
    let (id, secret) = (flow.app.id.clone(), flow.app.secret.clone().unwrap());
    let form = [("client_id", id.as_str()), ("client_secret", &secret)];
    let tokens = send(flow.redeeming(&answer["code"], &form)).await;
    verified(&flow, &tokens.body).await;
}

#[tokio::test]
async fn oidcc_ensure_request_without_nonce_succeeds_for_code_flow() {
    let flow = Flow::start().await;
    let (tokens, _) = flow.tokens(&[("nonce", "")]).await;
    assert_eq!(verified(&flow, &tokens).await.get("nonce"), None);
}

#[tokio::test]
async fn oidcc_scopes() {
    let flow = Flow::start().await;
    for (scope, claims_of_it) in [
        ("openid profile", &["name", "given_name", "family_name", "preferred_username", "locale"][..]),
        ("openid email", &["email", "email_verified"]),
        ("openid phone", &["phone_number", "phone_number_verified"]),
        ("phone address email profile openid", &["name", "email", "phone_number"]),
    ] {
        let said = claims(&flow, &[("scope", scope)]).await;
        assert!(claims_of_it.iter().all(|claim| said.get(claim).is_some()), "{scope}: {said}");
    }
}

#[tokio::test]
async fn oidcc_userinfo_get_and_post() {
    let flow = Flow::start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let (token, path) = (access_token(&tokens), "/oidc/v1/userinfo");
    for request in [
        flow.admin.anonymous(Method::GET, path).bearer_auth(token),
        flow.admin.anonymous(Method::POST, path).bearer_auth(token),
        flow.admin.anonymous(Method::POST, path).form(&[("access_token", token)]),
    ] {
        let answer = send(request).await;
        assert_eq!((answer.status, &answer.body["sub"]), (StatusCode::OK, &json!(flow.person.0)));
        assert_eq!(answer.headers["content-type"], "application/json");
    }
}

#[tokio::test]
async fn oidcc_prompt_login_and_max_age() {
    let flow = Flow::start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let first = verified(&flow, &tokens).await["auth_time"].as_i64().unwrap();
    let (_, old) = flow.session().await;
    sleep(Duration::from_secs(2)).await;
    for others in [[("prompt", "login")], [("max_age", "1")]] {
        let request = flow.waiting(&others).await;
        flow.finished(&request, &old).await.assert_refused("it is too old", 400, "PRECONDITION_FAILED");
        let (tokens, _) = flow.tokens(&others).await;
        assert!(verified(&flow, &tokens).await["auth_time"].as_i64().unwrap() > first);
    }
    let request = flow.waiting(&[("max_age", "10000")]).await;
    let answer = flow.finished(&request, &old).await;
    let url = answered(answer.body["callbackUrl"].as_str().expect("the same session is enough"));
    let again = verified(&flow, &flow.redeemed(&url["code"]).await).await["auth_time"].as_i64().unwrap();
    assert!((first..first + 2).contains(&again));
}

#[tokio::test]
async fn oidcc_prompt_none_not_logged_in() {
    let flow = Flow::start().await;
    let told = answered(&location(&flow.sent(&flow.asked(&[("prompt", "none")])).await));
    assert_eq!((told["error"].as_str(), told["state"].as_str()), ("login_required", "a b&c"));
}

#[tokio::test]
async fn oidcc_id_token_hint() {
    let flow = Flow::start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let hint = tokens["id_token"].as_str().unwrap().to_owned();
    claims(&flow, &[("id_token_hint", &hint)]).await;
    let [_, hinted] = parts(&hint);
    assert_eq!(hinted["sub"], json!(flow.person.0));
}

#[tokio::test]
async fn oidcc_display_and_hints_and_locales_and_acr_values() {
    let flow = Flow::start().await;
    for other in [
        ("display", "page"),
        ("display", "popup"),
        ("login_hint", "buffy@id.example"),
        ("ui_locales", "se"),
        ("claims_locales", "se"),
        ("acr_values", "1 2"),
        ("extra", "foobar"),
        ("claims", r#"{"userinfo":{"name":{"essential":true}}}"#),
    ] {
        claims(&flow, &[other]).await;
    }
}

#[tokio::test]
async fn oidcc_ensure_request_with_valid_pkce_succeeds() {
    succeeds(&[("code_challenge_method", "S256")]).await;
}

#[tokio::test]
async fn oidcc_response_type_missing_and_registered_redirect_uri() {
    let flow = Flow::start().await;
    let told = answered(&location(&flow.sent(&flow.asked(&[("response_type", "")])).await));
    assert_eq!(told["error"], "invalid_request");
    let shown = flow.sent(&flow.asked(&[("redirect_uri", "https://evil.example/callback")])).await;
    assert_eq!((shown.status, shown.headers.get("location")), (StatusCode::BAD_REQUEST, None));
}

#[tokio::test]
async fn oidcc_ensure_post_request_succeeds() {
    let flow = Flow::start().await;
    let posted = send(flow.admin.anonymous(Method::POST, "/oauth/v2/authorize").form(&flow.asked(&[]))).await;
    let request = answered(&location(&posted))["authRequest"].clone();
    let read = send(flow.admin.request(Method::GET, &format!("{API}/auth_requests/{request}"))).await;
    assert_eq!(read.body["authRequest"]["redirectUri"], CALLBACK);
}

#[tokio::test]
async fn oidcc_unsigned_request_object_and_request_uri_rejected_as_unsupported() {
    let flow = Flow::start().await;
    for (name, value, error) in [
        ("request", "eyJhbGciOiJub25lIn0.e30.", "request_not_supported"),
        ("request_uri", "https://shop.example/request", "request_uri_not_supported"),
    ] {
        let told = answered(&location(&flow.sent(&flow.asked(&[(name, value)])).await));
        assert_eq!(told["error"], error);
    }
}

#[tokio::test]
async fn oidcc_codereuse() {
    let flow = Flow::start().await;
    let (answer, _) = flow.log_in(&[]).await;
    let tokens = flow.redeemed(&answer["code"]).await;
    assert_error("used again", &send(flow.redeeming(&answer["code"], &[])).await, 400, "invalid_grant");
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::UNAUTHORIZED);
}
