//! Access tokens at the API: only a whole, unexpired one of this instance and for the platform gets in.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, Header};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, send},
    platform::Platform,
    secrets::Secrets,
};

async fn with(client: &Client, token: &str) -> Answer {
    send(client.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token)).await
}

#[expect(clippy::disallowed_methods, reason = "a test that forges tokens needs the time")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs()
}

#[tokio::test]
async fn a_token_that_is_not_whole_or_not_for_here_is_refused() {
    let (platform, other) = (Platform::start().await, Platform::start().await);
    let client = platform.client().await;
    let token = client.token.clone();
    assert_eq!(with(&client, &token).await.status, StatusCode::NOT_FOUND, "the right one gets in");

    let none = send(client.anonymous(Method::GET, &format!("{TARGETS}/1"))).await;
    none.assert_refused("none", 401, "TOKEN_MISSING");
    assert_eq!(none.headers["www-authenticate"], "Bearer");
    for length in (1..token.len()).step_by(37) {
        with(&client, &token[..length]).await.assert_refused("truncated", 401, "TOKEN_INVALID");
    }
    let (claims, signature) = token.rsplit_once('.').expect("a token has parts");
    let swapped: String = signature.chars().rev().collect();
    let unsigned = format!("eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0.{}.", claims.split('.').nth(1).unwrap_or_default());
    for (case, forged) in [
        ("garbage", "garbage".to_owned()),
        ("another signature", format!("{claims}.{swapped}")),
        ("no signature", format!("{claims}.")),
        ("alg none", unsigned),
        ("of another platform", other.client().await.token),
        ("very long", "x".repeat(9000)),
    ] {
        let answer = with(&client, &forged).await;
        answer.assert_refused(case, 401, "TOKEN_INVALID");
        assert!(answer.headers["www-authenticate"].to_str().is_ok_and(|value| value.contains("invalid_token")));
    }
    let twice = client.request(Method::GET, &format!("{TARGETS}/1")).header("authorization", "Bearer x");
    assert_eq!(send(twice).await.status, StatusCode::UNAUTHORIZED, "two tokens are none");
    let lower =
        client.anonymous(Method::GET, &format!("{TARGETS}/1")).header("authorization", format!("bearer {token}"));
    assert_eq!(send(lower).await.status, StatusCode::NOT_FOUND, "the scheme has no case");
}

#[tokio::test]
async fn a_rightly_signed_token_with_a_wrong_claim_is_refused() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let secrets = Secrets::of(&platform).await;
    let keys = send(client.anonymous(Method::GET, "/oauth/v2/keys")).await;
    let kid = keys.body["keys"][0]["kid"].as_str().map(str::to_owned);
    let header = Header { typ: Some("at+jwt".into()), kid, ..Header::new(Algorithm::ES256) };
    let bootstrap = &platform.bootstrap;
    let claims = |changes: Value| {
        let mut claims = json!({
            "iss": bootstrap.issuer, "sub": bootstrap.service_user.user_id, "aud": [bootstrap.project_id],
            "exp": now() + 60, "iat": now(), "nbf": now(), "jti": "1", "client_id": "x", "scope": "openid", "seq": 0,
        });
        for (name, value) in changes.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        claims
    };
    let right = with(&client, &secrets.sign(&header, &claims(json!({})))).await;
    assert_eq!(right.status, StatusCode::NOT_FOUND, "a forged one with right claims gets in: {}", right.body);
    for (case, changes, reason) in [
        ("expired", json!({ "exp": now() - 1 }), "TOKEN_EXPIRED"),
        ("not yet valid", json!({ "nbf": now() + 60 }), "TOKEN_INVALID"),
        ("another issuer", json!({ "iss": "https://elsewhere.example" }), "TOKEN_INVALID"),
        ("another audience", json!({ "aud": ["1"] }), "TOKEN_INVALID"),
        ("an unknown user", json!({ "sub": "1" }), "TOKEN_INVALID"),
    ] {
        with(&client, &secrets.sign(&header, &claims(changes))).await.assert_refused(case, 401, reason);
    }
    let id_token = Header { typ: Some("JWT".into()), ..header.clone() };
    with(&client, &secrets.sign(&id_token, &claims(json!({})))).await.assert_refused(
        "another type",
        401,
        "TOKEN_INVALID",
    );
    let other_key = Header { kid: Some("1".into()), ..header };
    with(&client, &secrets.sign(&other_key, &claims(json!({})))).await.assert_refused(
        "another key",
        401,
        "TOKEN_INVALID",
    );
}
