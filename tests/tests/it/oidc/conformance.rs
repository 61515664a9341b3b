//! The applicable modules of the OpenID Foundation's conformance suite, each under its name.

use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header, jwk::JwkSet};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tests::{browser::Browser, client::send, clock::Clock, eventually, platform::Platform};
use tokio::time::sleep;

use super::{
    flow::{API, App, CALLBACK, Flow, access_token, answered, location, person},
    pages::{back, browser, id_token_claims, on_pages},
    token::{assert_error, parts},
};

/// Verifies an ID token by the key set of the instance, and returns its claims.
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

/// Fails unless a login with these parameters succeeds.
async fn succeeds(others: &[(&str, &str)]) {
    claims(&Flow::start().await, others).await;
}

#[tokio::test]
async fn oidcc_discovery_endpoint_verification() {
    let flow = Flow::start().await;
    let issuer = &flow.tenant.bootstrap.issuer;
    let answer = send(flow.admin.anonymous(Method::GET, "/.well-known/openid-configuration")).await;
    assert_eq!(
        (answer.status, &answer.headers["content-type"]),
        (StatusCode::OK, &"application/json".parse().unwrap())
    );
    let document = answer.body;
    assert_eq!(document["issuer"], json!(issuer));
    for endpoint in ["authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri"] {
        assert!(document[endpoint].as_str().is_some_and(|url| url.starts_with(issuer)), "{endpoint}: {document}");
    }
    for (member, listed) in [
        ("response_types_supported", "code"),
        ("response_types_supported", "id_token"),
        ("response_types_supported", "id_token token"),
        ("response_modes_supported", "form_post"),
        ("grant_types_supported", "implicit"),
        ("subject_types_supported", "public"),
        ("id_token_signing_alg_values_supported", "RS256"),
        ("scopes_supported", "openid"),
        ("claims_supported", "sub"),
        ("code_challenge_methods_supported", "S256"),
    ] {
        let list = document[member].as_array().unwrap_or_else(|| panic!("{member} is a list: {document}"));
        assert!(list.contains(&json!(listed)), "{member}: {listed}");
    }
    let keys = document["jwks_uri"].as_str().and_then(|url| url.strip_prefix(issuer)).expect("it is there");
    let keys: JwkSet = serde_json::from_value(send(flow.admin.anonymous(Method::GET, keys)).await.body).expect("keys");
    assert!(!keys.keys.is_empty());
}

#[tokio::test]
async fn oidcc_server() {
    let flow = Flow::with(json!({})).await;
    let (answer, _) = flow.log_in(&[]).await;
    assert_eq!((answer["state"].as_str(), &answer["iss"]), ("a b&c", &flow.tenant.bootstrap.issuer));
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._~".contains(char);
    assert!(answer["code"].chars().all(is_plain), "{answer:?}");
    let tokens = flow.redeemed(&answer["code"]).await;
    let claims = verified(&flow, &tokens).await;
    let hash = base::signing::half_hash("RS256", access_token(&tokens));
    assert_eq!((&claims["nonce"], &claims["at_hash"]), (&json!("n-0S6_WzA2Mj"), &json!(hash)));
}

#[tokio::test]
async fn oidcc_idtoken_signature() {
    let flow = Flow::start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    verified(&flow, &tokens).await;
    let header = decode_header(tokens["id_token"].as_str().expect("there is one")).expect("it is a JWT");
    assert_eq!((header.alg, header.kid.is_some()), (Algorithm::RS256, true));
}

/// Fails unless userinfo returns the claims of a scope.
async fn assert_scope(scope: &str, claims_of_it: &[&str]) {
    let said = claims(&Flow::start().await, &[("scope", scope)]).await;
    assert!(claims_of_it.iter().all(|claim| said.get(claim).is_some()), "{scope}: {said}");
}

#[tokio::test]
async fn oidcc_scope_profile() {
    let claims = ["name", "given_name", "family_name", "preferred_username", "locale"];
    assert_scope("openid profile", &claims).await;
}

#[tokio::test]
async fn oidcc_scope_email() {
    assert_scope("openid email", &["email", "email_verified"]).await;
}

#[tokio::test]
async fn oidcc_scope_address() {
    assert_scope("openid address", &["address"]).await;
}

#[tokio::test]
async fn oidcc_scope_phone() {
    assert_scope("openid phone", &["phone_number", "phone_number_verified"]).await;
}

/// Fails unless userinfo accepts a token in this kind of request.
async fn assert_userinfo(request: impl Fn(RequestBuilder, &str) -> RequestBuilder, method: Method) {
    let flow = Flow::start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let asked = flow.admin.anonymous(method, "/oidc/v1/userinfo");
    let answer = send(request(asked, access_token(&tokens))).await;
    assert_eq!((answer.status, &answer.body["sub"]), (StatusCode::OK, &json!(flow.person.0)));
    assert_eq!(answer.headers["content-type"], "application/json");
}

#[tokio::test]
async fn oidcc_userinfo_get() {
    assert_userinfo(|asked, token| asked.bearer_auth(token), Method::GET).await;
}

#[tokio::test]
async fn oidcc_userinfo_post_header() {
    assert_userinfo(|asked, token| asked.bearer_auth(token), Method::POST).await;
}

#[tokio::test]
async fn oidcc_userinfo_post_body() {
    assert_userinfo(|asked, token| asked.form(&[("access_token", token)]), Method::POST).await;
}

/// Fails unless a request asks for the password again, despite a session.
async fn assert_checks_anew(others: &[(&str, &str)]) {
    let flow = Flow::start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let first = verified(&flow, &tokens).await["auth_time"].as_i64();
    let (_, old) = flow.session().await;
    sleep(Duration::from_secs(2)).await;
    let request = flow.waiting(others).await;
    flow.finished(&request, &old).await.assert_refused("it is too old", 400, "PRECONDITION_FAILED");
    let (tokens, _) = flow.tokens(others).await;
    assert!(first.is_some() && verified(&flow, &tokens).await["auth_time"].as_i64() > first, "{first:?}");
}

#[tokio::test]
async fn oidcc_prompt_login() {
    assert_checks_anew(&[("prompt", "login")]).await;
}

#[tokio::test]
async fn oidcc_max_age_1() {
    assert_checks_anew(&[("max_age", "1")]).await;
}

/// A browser in which the person of an app has logged in, and the ID token of that login.
struct AppLogin {
    flow: Flow,
    browser: Browser,
    id_token: String,
}

impl AppLogin {
    async fn start() -> Self {
        let flow = Flow::with(on_pages(&App::public())).await;
        let mut browser = browser(&flow.tenant);
        let code = back(&flow.logs_in(&mut browser, &flow.person.1, &[]).await)["code"].clone();
        let id_token = flow.redeemed(&code).await["id_token"].as_str().expect("there is one").to_owned();
        Self { flow, browser, id_token }
    }

    /// Fails unless a later request with these parameters is answered with the same login.
    async fn assert_same(&mut self, others: &[(&str, &str)]) {
        sleep(Duration::from_secs(1)).await;
        let shown = self.flow.sent_by(&mut self.browser, others).await;
        let again = id_token_claims(&self.flow.redeemed(&back(&shown)["code"]).await);
        let [_, first] = parts(&self.id_token);
        assert!(first["auth_time"].is_i64() && first["sub"] == json!(self.flow.person.0), "{first}");
        assert_eq!((&again["sub"], &again["auth_time"]), (&first["sub"], &first["auth_time"]));
    }
}

#[tokio::test]
async fn oidcc_max_age_10000() {
    AppLogin::start().await.assert_same(&[("max_age", "10000")]).await;
}

#[tokio::test]
async fn oidcc_prompt_none_logged_in() {
    AppLogin::start().await.assert_same(&[("prompt", "none")]).await;
}

#[tokio::test]
async fn oidcc_display_page() {
    succeeds(&[("display", "page")]).await;
}

#[tokio::test]
async fn oidcc_display_popup() {
    succeeds(&[("display", "popup")]).await;
}

#[tokio::test]
async fn oidcc_login_hint() {
    succeeds(&[("login_hint", "buffy@id.example")]).await;
}

#[tokio::test]
async fn oidcc_ui_locales() {
    succeeds(&[("ui_locales", "se")]).await;
}

#[tokio::test]
async fn oidcc_claims_locales() {
    succeeds(&[("claims_locales", "se")]).await;
}

#[tokio::test]
async fn oidcc_ensure_request_with_acr_values_succeeds() {
    succeeds(&[("acr_values", "1 2")]).await;
}

#[tokio::test]
async fn oidcc_ensure_request_with_unknown_parameter_succeeds() {
    succeeds(&[("extra", "foobar")]).await;
}

#[tokio::test]
async fn oidcc_claims_essential() {
    succeeds(&[("claims", r#"{"userinfo":{"name":{"essential":true}}}"#)]).await;
}

/// Fails unless the app gets this error for a request.
async fn assert_told(others: &[(&str, &str)], error: &str) {
    let flow = Flow::start().await;
    let told = answered(&location(&flow.sent(&flow.authorize_parameters(others)).await));
    assert_eq!((told["error"].as_str(), told["state"].as_str()), (error, "a b&c"));
}

#[tokio::test]
async fn oidcc_response_type_missing() {
    assert_told(&[("response_type", "")], "invalid_request").await;
}

#[tokio::test]
async fn oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported() {
    assert_told(&[("request", "eyJhbGciOiJub25lIn0.e30.")], "request_not_supported").await;
}

#[tokio::test]
async fn oidcc_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported() {
    assert_told(&[("request_uri", "https://shop.example/request")], "request_uri_not_supported").await;
}

#[tokio::test]
async fn oidcc_ensure_registered_redirect_uri() {
    let flow = Flow::start().await;
    let shown = flow.sent(&flow.authorize_parameters(&[("redirect_uri", "https://evil.example/callback")])).await;
    assert_eq!((shown.status, shown.headers.get("location")), (StatusCode::BAD_REQUEST, None));
}

#[tokio::test]
async fn oidcc_codereuse_30seconds() {
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    let flow = Flow::on((), platform.client().await, App::public()).await;
    let (answer, _) = flow.log_in(&[]).await;
    let tokens = flow.redeemed(&answer["code"]).await;
    clock.set_ahead(Duration::from_secs(31));
    assert_error("used again", &send(flow.redeeming(&answer["code"], &[])).await, 400, "invalid_grant");
    eventually("the first token is over", async || {
        (flow.userinfo(access_token(&tokens)).await.status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
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
async fn oidcc_prompt_none_not_logged_in() {
    let flow = Flow::start().await;
    let told = answered(&location(&flow.sent(&flow.authorize_parameters(&[("prompt", "none")])).await));
    assert_eq!((told["error"].as_str(), told["state"].as_str()), ("login_required", "a b&c"));
}

#[tokio::test]
async fn oidcc_id_token_hint() {
    let mut logged_in = AppLogin::start().await;
    let hint = logged_in.id_token.clone();
    logged_in.assert_same(&[("prompt", "none"), ("id_token_hint", &hint)]).await;

    // 35: of somebody else the app gets nothing with which it would take the one for the other.
    let AppLogin { flow, mut browser, .. } = logged_in;
    let name = person(&flow.admin).await.1;
    let mut elsewhere = super::pages::browser(&flow.tenant);
    let code = back(&flow.logs_in(&mut elsewhere, &name, &[]).await)["code"].clone();
    let hint = flow.redeemed(&code).await["id_token"].as_str().expect("there is one").to_owned();
    let silent = flow.sent_by(&mut browser, &[("prompt", "none"), ("id_token_hint", &hint)]).await;
    assert_eq!(back(&silent)["error"], "login_required");
    let asked = flow.sent_by(&mut browser, &[("id_token_hint", &hint)]).await;
    assert!(asked.location().is_empty() && asked.text.contains("name=\"username\""), "{}", asked.text);
}

#[tokio::test]
async fn oidcc_ensure_request_with_valid_pkce_succeeds() {
    succeeds(&[("code_challenge_method", "S256")]).await;
}

#[tokio::test]
async fn oidcc_ensure_post_request_succeeds() {
    let flow = Flow::start().await;
    let posted =
        send(flow.admin.anonymous(Method::POST, "/oauth/v2/authorize").form(&flow.authorize_parameters(&[]))).await;
    let request = answered(&location(&posted))["authRequest"].clone();
    let read = send(flow.admin.request(Method::GET, &format!("{API}/auth_requests/{request}"))).await;
    assert_eq!(read.body["authRequest"]["redirectUri"], CALLBACK);
}

#[tokio::test]
async fn oidcc_codereuse() {
    let flow = Flow::start().await;
    let (answer, _) = flow.log_in(&[]).await;
    let tokens = flow.redeemed(&answer["code"]).await;
    assert_error("used again", &send(flow.redeeming(&answer["code"], &[])).await, 400, "invalid_grant");
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::UNAUTHORIZED);
}
