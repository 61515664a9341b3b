//! Access tokens at the API: only complete, unexpired ones of this instance and for the platform are accepted.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, ServiceUser, TARGETS, send},
    platform::Platform,
    secrets::Secrets,
    tenant::Tenant,
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
    let (tenant, other) = (Tenant::start().await, Platform::start().await);
    let client = tenant.client().await;
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
    let theirs = other.client().await.create_target("theirs").await.expect("it is created");
    let consistency = other.client().await.get_target(&theirs, None).await.consistency();
    let foreign = client.get_target("1", Some(&consistency)).await;
    foreign.assert_refused("a consistency token of another platform", 400, "CONSISTENCY_TOKEN_INVALID");
    let twice = client.request(Method::GET, &format!("{TARGETS}/1")).header("authorization", "Bearer x");
    assert_eq!(send(twice).await.status, StatusCode::UNAUTHORIZED, "two tokens are none");
    let lower =
        client.anonymous(Method::GET, &format!("{TARGETS}/1")).header("authorization", format!("bearer {token}"));
    assert_eq!(send(lower).await.status, StatusCode::NOT_FOUND, "the scheme has no case");
}

#[tokio::test]
async fn a_token_that_somebody_else_signed_is_refused() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let keys = send(client.anonymous(Method::GET, "/oauth/v2/keys")).await.body["keys"].clone();
    let (head, rest) = client.token.split_once('.').expect("a token has parts");
    let (claims, _) = rest.split_once('.').expect("a token has parts");
    let mut decoded: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).expect("base64url")).expect("JSON");
    decoded["exp"] = json!(now() + 1_000_000);
    let kid = keys[0]["kid"].as_str().map(str::to_owned);
    let header = |algorithm| Header { typ: Some("at+jwt".into()), kid: kid.clone(), ..Header::new(algorithm) };

    let mine = base::signing::es256(kid.as_deref().unwrap_or_default());
    let private = EncodingKey::from_ec_der(&mine.private);
    let jwk = serde_json::from_value(mine.public).ok();
    let es256 = header(Algorithm::ES256);
    let path = Some("../../../../dev/null".to_owned());
    let url = Some("https://evil.example/keys".to_owned());
    let mut forged = vec![
        ("another key under the right name", es256.clone()),
        ("its own key", Header { jwk, ..es256.clone() }),
        ("keys from elsewhere", Header { jku: url.clone(), ..es256.clone() }),
        ("a certificate from elsewhere", Header { x5u: url, ..es256.clone() }),
        ("no key named", Header { kid: None, ..es256.clone() }),
        ("a path as the key", Header { kid: path, ..es256.clone() }),
        ("SQL as the key", Header { kid: Some("' or 1=1 --".into()), ..es256 }),
    ]
    .into_iter()
    .map(|(case, header)| (case, encode(&header, &decoded, &private).expect("it is signed")))
    .collect::<Vec<_>>();
    for secret in [keys[0].to_string(), keys[0]["x"].to_string(), String::new()] {
        let secret = EncodingKey::from_secret(secret.as_bytes());
        forged.push((
            "HMAC with what is public",
            encode(&header(Algorithm::HS256), &decoded, &secret).expect("it is signed"),
        ));
    }
    for (case, signature) in [("r and s of 0", [0; 64]), ("the largest r and s", [255; 64])] {
        forged.push((case, format!("{head}.{claims}.{}", URL_SAFE_NO_PAD.encode(signature))));
    }
    forged.push(("longer claims", format!("{head}.{}.AAAA", URL_SAFE_NO_PAD.encode(decoded.to_string()))));
    forged.push(("a fourth part", format!("{}.AAAA", client.token)));
    forged.push(("padding", format!("{}==", client.token)));
    for (case, token) in forged {
        with(&client, &token).await.assert_refused(case, 401, "TOKEN_INVALID");
    }
}

#[tokio::test]
async fn a_token_without_the_platforms_audience_is_for_others() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let ServiceUser { client_id, client_secret, .. } = &tenant.bootstrap.service_user;
    let ask = |scope: &str| {
        let form = [("grant_type", "client_credentials"), ("scope", scope)];
        send(client.anonymous(Method::POST, "/oauth/v2/token").basic_auth(client_id, Some(client_secret)).form(&form))
    };
    for scope in
        ["openid", "openid urn:platform:iam:org:project:id:1:aud", "openid urn:platform:iam:org:project:id::aud"]
    {
        let granted = ask(scope).await;
        assert_eq!(granted.body["scope"], "openid", "99: {scope}: {}", granted.body);
        let token = granted.body["access_token"].as_str().unwrap_or_default();
        let refused = with(&client, token).await;
        refused.assert_refused(scope, 401, "TOKEN_INVALID");
        let message = refused.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("urn:platform:iam:org:project:id:platform:aud"), "it says what is missing: {message}");
    }
    for project in ["platform", &tenant.bootstrap.project_id] {
        let scope = format!("urn:platform:iam:org:project:id:{project}:aud");
        let granted = ask(&scope).await;
        let token = granted.body["access_token"].as_str().unwrap_or_default();
        let refused = with(&client, token).await;
        refused.assert_refused(project, 403, "INSUFFICIENT_SCOPE");
        let challenge = refused.headers["www-authenticate"].to_str().unwrap_or_default();
        assert!(challenge.starts_with("Bearer error=\"insufficient_scope\""), "{challenge}");
        let granted = ask(&format!("openid {scope}")).await;
        let token = granted.body["access_token"].as_str().unwrap_or_default();
        assert_eq!(with(&client, token).await.status, StatusCode::NOT_FOUND, "{project}");
    }
}

#[tokio::test]
async fn a_rightly_signed_token_with_a_wrong_claim_is_refused() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let secrets = Secrets::of(&tenant).await;
    let keys = send(client.anonymous(Method::GET, "/oauth/v2/keys")).await;
    let kid = keys.body["keys"][0]["kid"].as_str().map(str::to_owned);
    let header = Header { typ: Some("at+jwt".into()), kid, ..Header::new(Algorithm::ES256) };
    let bootstrap = &tenant.bootstrap;
    let claims = |changes: Value| {
        let mut claims = json!({
            "iss": bootstrap.issuer, "sub": bootstrap.service_user.user_id, "aud": [bootstrap.project_id],
            "exp": now() + 60, "iat": now(), "nbf": now(), "jti": "1", "client_id": bootstrap.service_user.user_id, "scope": "openid", "seq": 0,
        });
        for (name, value) in changes.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        claims
    };
    let right = with(&client, &secrets.sign(&header, &claims(json!({})))).await;
    assert_eq!(right.status, StatusCode::NOT_FOUND, "a forged one with right claims gets in: {}", right.body);
    let ahead = claims(json!({ "iat": now() + 9, "nbf": now() + 9 }));
    let ahead = with(&client, &secrets.sign(&header, &ahead)).await;
    assert_eq!(ahead.status, StatusCode::NOT_FOUND, "the clock of its issuer may be ahead: {}", ahead.body);
    for (case, changes, reason) in [
        ("expired", json!({ "exp": now() - 1 }), "TOKEN_EXPIRED"),
        ("not yet valid", json!({ "nbf": now() + 13 }), "TOKEN_INVALID"),
        ("issued later", json!({ "iat": now() + 13 }), "TOKEN_INVALID"),
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
