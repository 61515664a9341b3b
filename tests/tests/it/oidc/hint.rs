//! Hints of who logs in: ID tokens that an app got before, and look-alikes. The numbers are those of the cases of the
//! design.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, Header};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{client::send, secrets::Secrets};

use super::flow::{API, App, CALLBACK, Flow, access_token, answered, location};

fn now() -> i64 {
    base::clock::now().as_second()
}

/// Returns the claims of an expired ID token, with changes.
fn claims(flow: &Flow, changes: &Value) -> Value {
    let mut claims = json!({
        "iss": flow.tenant.bootstrap.issuer, "sub": flow.person.0, "aud": [flow.app.id], "azp": flow.app.id,
        "iat": now() - 120, "exp": now() - 60, "auth_time": now() - 120,
    });
    claims.as_object_mut().expect("it is one").extend(changes.as_object().expect("it is one").clone());
    claims
}

/// Returns the header of tokens that the instance signs with its ES256 key.
pub(super) async fn header(flow: &Flow) -> Header {
    let keys = send(flow.admin.anonymous(Method::GET, "/oauth/v2/keys")).await.body;
    let key = keys["keys"].as_array().expect("they are a list").iter().find(|key| key["alg"] == "ES256");
    let kid = key.expect("it has one")["kid"].as_str().map(str::to_owned);
    Header { typ: Some("JWT".into()), kid, ..Header::new(Algorithm::ES256) }
}

/// Returns an unsigned token.
fn unsigned(header: &Value, claims: &Value) -> String {
    let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    format!("{header}.{claims}.")
}

#[tokio::test]
async fn a_hint_may_have_expired() {
    let flow = Flow::start().await;
    let secrets = Secrets::of(&flow.tenant).await;
    let hint = secrets.sign(&header(&flow).await, &claims(&flow, &json!({})));
    let request = flow.waiting(&[("id_token_hint", &hint)]).await;
    let read = send(flow.admin.request(Method::GET, &format!("{API}/auth_requests/{request}"))).await;
    assert_eq!(read.body["authRequest"]["hintUserId"], json!(flow.person.0), "35: {}", read.body);
    let (_, token) = flow.session().await;
    let finished = flow.finished(&request, &token).await;
    assert_eq!(finished.status, 200, "35: {}", finished.body);
}

#[tokio::test]
async fn a_hint_is_one_that_the_instance_has_issued_to_the_app() {
    let mut settings = App::public();
    settings["accessTokenType"] = json!("OIDC_TOKEN_TYPE_JWT");
    let flow = Flow::with(settings).await;
    let elsewhere = Flow::start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let (foreign, _) = elsewhere.tokens(&[]).await;
    let id_token = |tokens: &Value| tokens["id_token"].as_str().expect("there is one").to_owned();
    let own = id_token(&tokens);
    let (signed, signature) = own.rsplit_once('.').expect("it has parts");
    let (ours, theirs) = (Secrets::of(&flow.tenant).await, Secrets::of(&elsewhere.tenant).await);
    let right = header(&flow).await;
    let none = json!({ "alg": "none", "typ": "JWT" });
    let other_type = Header { typ: Some("at+jwt".into()), ..right.clone() };
    let without_key = Header { kid: None, ..right.clone() };
    let with = |changes: Value| claims(&flow, &changes);
    for (case, hint) in [
        ("35: garbage", "x".to_owned()),
        ("35: cut off", own[..own.len() - 2].to_owned()),
        ("35: without signature", format!("{signed}.")),
        ("35: another signature", format!("{signed}.{}", signature.chars().rev().collect::<String>())),
        ("35: alg none", unsigned(&none, &with(json!({})))),
        ("35: of another instance", id_token(&foreign)),
        ("35: signed by another instance", theirs.sign(&right, &with(json!({})))),
        ("35: its access token", access_token(&tokens).to_owned()),
        ("35: another type", ours.sign(&other_type, &with(json!({})))),
        ("35: no key named", ours.sign(&without_key, &with(json!({})))),
        ("35: another issuer", ours.sign(&right, &with(json!({ "iss": elsewhere.tenant.bootstrap.issuer })))),
        ("35: of another client", ours.sign(&right, &with(json!({ "azp": "1", "aud": ["1"] })))),
        ("35: too long", ours.sign(&right, &with(json!({ "a": "x".repeat(7000) })))),
    ] {
        let url = location(&flow.sent(&flow.authorize_parameters(&[("id_token_hint", &hint)])).await);
        assert!(url.starts_with(&format!("{CALLBACK}?error=invalid_request")), "{case}: {url}");
        assert_eq!(answered(&url)["state"], "a b&c", "{case}");
    }
    assert!(!flow.waiting(&[("id_token_hint", &own)]).await.is_empty(), "and the right one is taken");
}
