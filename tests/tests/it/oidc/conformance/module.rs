//! The modules that several plans run: what each of them checks in one variant.

use std::{collections::BTreeSet, ops::Deref, time::Duration};

use jsonwebtoken::{Algorithm, decode_header};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tests::{client::send, clock::Clock, eventually, instance::Instance, platform::Platform};
use tokio::time::sleep;

use super::{
    super::{
        flow::{App, Flow, access_token, person, refresh_token},
        pages::browser,
        token::assert_error,
    },
    Login, NONCE, Run, Variant, settings,
};

/// An unsigned request object, `{"alg":"none"}` and `{}`.
const OBJECT: &str = "eyJhbGciOiJub25lIn0.e30.";
/// An unsigned request object with `{"redirect_uri":"https://evil.example/"}`.
const EVIL_OBJECT: &str = "eyJhbGciOiJub25lIn0.eyJyZWRpcmVjdF91cmkiOiJodHRwczovL2V2aWwuZXhhbXBsZS8ifQ.";

pub(super) async fn oidcc_server(run: &mut Run) {
    let shown = run.send(&[]).await;
    let shown = run.enter(&shown).await;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._~".contains(char);
    let answer = run.answer(&shown);
    assert!(answer.get("code").is_none_or(|code| code.chars().all(is_plain)), "{answer:?}");
    let Login { tokens, id_token, .. } = run.login(&shown).await;
    assert_eq!(id_token["nonce"], NONCE);
    if run.variant.has_access_token() {
        let hash = base::signing::half_hash("RS256", access_token(&tokens));
        assert_eq!((&tokens["token_type"], &id_token["at_hash"]), (&json!("Bearer"), &json!(hash)));
    } else {
        assert_eq!(id_token.get("at_hash"), None, "there is nothing to hash");
    }
}

pub(super) async fn oidcc_response_type_missing(run: &mut Run) {
    // Without a response type, the platform does not know that the app reads fragments.
    run.variant.response_type = "";
    run.assert_refused(&[], &["invalid_request", "unsupported_response_type"]).await;
}

pub(super) async fn oidcc_idtoken_signature(run: &mut Run) {
    let Login { tokens, .. } = run.log_in(&[]).await;
    let header = decode_header(tokens["id_token"].as_str().expect("there is one")).expect("it is a JWT");
    assert_eq!((header.alg, header.kid.is_some()), (Algorithm::RS256, true));
}

/// Checks that userinfo accepts a token in a kind of request.
async fn userinfo(run: &mut Run, method: Method, request: impl Fn(RequestBuilder, &str) -> RequestBuilder) {
    let Login { tokens, .. } = run.log_in(&[]).await;
    let asked = run.flow.admin.anonymous(method, "/oidc/v1/userinfo");
    let answer = send(request(asked, access_token(&tokens))).await;
    assert_eq!((answer.status, &answer.body["sub"]), (StatusCode::OK, &json!(run.flow.person.0)));
    assert_eq!(answer.headers["content-type"], "application/json");
}

pub(super) async fn oidcc_userinfo_get(run: &mut Run) {
    userinfo(run, Method::GET, |asked, token| asked.bearer_auth(token)).await;
}

pub(super) async fn oidcc_userinfo_post_header(run: &mut Run) {
    userinfo(run, Method::POST, |asked, token| asked.bearer_auth(token)).await;
}

pub(super) async fn oidcc_userinfo_post_body(run: &mut Run) {
    userinfo(run, Method::POST, |asked, token| asked.form(&[("access_token", token)])).await;
}

pub(super) async fn oidcc_ensure_request_without_nonce_succeeds_for_code_flow(run: &mut Run) {
    assert_eq!(run.log_in(&[("nonce", "")]).await.id_token.get("nonce"), None);
}

pub(super) async fn oidcc_ensure_request_without_nonce_fails(run: &mut Run) {
    run.assert_refused(&[("nonce", "")], &["invalid_request"]).await;
}

/// Checks that a scope gives claims that are texts, and claims that are truth values.
async fn scope(run: &mut Run, scope: &str, (texts, truths): (&[&str], &[&str])) -> Value {
    let Login { claims, .. } = run.log_in(&[("scope", scope)]).await;
    assert!(texts.iter().all(|claim| claims[*claim].is_string()), "{scope}: {claims}");
    assert!(truths.iter().all(|claim| claims[*claim].is_boolean()), "{scope}: {claims}");
    claims
}

/// The claims of the scope `profile` that the person has.
const PROFILE: [&str; 5] = ["name", "given_name", "family_name", "preferred_username", "locale"];

pub(super) async fn oidcc_scope_profile(run: &mut Run) {
    scope(run, "openid profile", (&PROFILE, &[])).await;
}

pub(super) async fn oidcc_scope_email(run: &mut Run) {
    scope(run, "openid email", (&["email"], &["email_verified"])).await;
}

pub(super) async fn oidcc_scope_address(run: &mut Run) {
    assert_eq!(scope(run, "openid address", (&[], &[])).await["address"], json!({ "country": "US" }));
}

pub(super) async fn oidcc_scope_phone(run: &mut Run) {
    scope(run, "openid phone", (&["phone_number"], &["phone_number_verified"])).await;
}

pub(super) async fn oidcc_scope_all(run: &mut Run) {
    let texts = [&PROFILE[..], &["email", "phone_number"]].concat();
    let truths = ["email_verified", "phone_number_verified"];
    let claims = scope(run, "openid profile email address phone", (&texts, &truths)).await;
    assert_eq!(claims["address"], json!({ "country": "US" }), "{claims}");
    assert!(claims.as_object().is_some_and(|claims| claims.values().all(|claim| !claim.is_null())), "{claims}");
}

pub(super) async fn oidcc_alternate_happy_flow(run: &mut Run) {
    let mut asked = run.flow.authorize_parameters(&run.parameters(&[("scope", "email profile openid")]));
    asked.reverse();
    let query = serde_urlencoded::to_string(asked).expect("it is a query");
    let shown = run.browser.get(&format!("/oauth/v2/authorize?{query}")).await;
    let shown = run.flow.follow(&mut run.browser, shown).await;
    let shown = run.enter(&shown).await;
    let Login { tokens, id_token, claims } = run.login(&shown).await;
    assert_eq!((&id_token["nonce"], claims["email"].is_string()), (&json!(NONCE), true), "{claims}");
    if let Some(granted) = tokens.get("scope") {
        let granted: BTreeSet<_> = granted.as_str().expect("it is text").split(' ').collect();
        assert_eq!(granted, BTreeSet::from(["email", "openid", "profile"]));
    }
}

/// Checks that a parameter keeps nobody from logging in.
async fn succeeds(run: &mut Run, name: &str, value: &str) {
    run.log_in(&[(name, value)]).await;
}

pub(super) async fn oidcc_display_page(run: &mut Run) {
    succeeds(run, "display", "page").await;
}

pub(super) async fn oidcc_display_popup(run: &mut Run) {
    succeeds(run, "display", "popup").await;
}

pub(super) async fn oidcc_login_hint(run: &mut Run) {
    succeeds(run, "login_hint", "buffy@id.example").await;
}

pub(super) async fn oidcc_ui_locales(run: &mut Run) {
    succeeds(run, "ui_locales", "se").await;
}

pub(super) async fn oidcc_claims_locales(run: &mut Run) {
    succeeds(run, "claims_locales", "se").await;
}

pub(super) async fn oidcc_ensure_request_with_acr_values_succeeds(run: &mut Run) {
    succeeds(run, "acr_values", "1 2").await;
}

pub(super) async fn oidcc_ensure_request_with_unknown_parameter_succeeds(run: &mut Run) {
    succeeds(run, "extra", "foobar").await;
}

pub(super) async fn oidcc_claims_essential(run: &mut Run) {
    succeeds(run, "claims", r#"{"userinfo":{"name":{"essential":true}}}"#).await;
}

pub(super) async fn oidcc_ensure_request_with_valid_pkce_succeeds(run: &mut Run) {
    succeeds(run, "code_challenge_method", "S256").await;
}

/// Checks that a request asks for the password again, in a browser in which the person is logged in.
async fn checks_again(run: &mut Run, name: &str, value: &str) {
    let first = run.log_in(&[]).await.id_token;
    // The time of a login counts seconds, and an age of one second must have passed.
    sleep(Duration::from_secs(2)).await;
    let shown = run.send(&[(name, value)]).await;
    assert!(shown.location().is_empty() && shown.text.contains("name=\"password\""), "{}", shown.text);
    let shown = run.enter_password(&shown).await;
    let again = run.login(&shown).await.id_token;
    assert!(first["auth_time"].is_i64() && again["auth_time"].as_i64() > first["auth_time"].as_i64(), "{again}");
}

pub(super) async fn oidcc_prompt_login(run: &mut Run) {
    checks_again(run, "prompt", "login").await;
}

pub(super) async fn oidcc_max_age_1(run: &mut Run) {
    checks_again(run, "max_age", "1").await;
}

/// Checks that a later request is answered with the same login, without a page.
async fn stays_logged_in(run: &mut Run, first: &Value, others: &[(&str, &str)]) {
    // Another login would have another time.
    sleep(Duration::from_secs(1)).await;
    let shown = run.send(others).await;
    let again = run.login(&shown).await.id_token;
    assert!(first["auth_time"].is_i64(), "{first}");
    assert_eq!((&again["sub"], &again["auth_time"]), (&first["sub"], &first["auth_time"]));
}

pub(super) async fn oidcc_max_age_10000(run: &mut Run) {
    let first = run.log_in(&[]).await.id_token;
    stays_logged_in(run, &first, &[("max_age", "10000")]).await;
}

pub(super) async fn oidcc_prompt_none_logged_in(run: &mut Run) {
    let first = run.log_in(&[]).await.id_token;
    stays_logged_in(run, &first, &[("prompt", "none")]).await;
}

pub(super) async fn oidcc_prompt_none_not_logged_in(run: &mut Run) {
    run.assert_refused(&[("prompt", "none")], &["login_required"]).await;
}

pub(super) async fn oidcc_id_token_hint(run: &mut Run) {
    let Login { tokens, id_token, .. } = run.log_in(&[]).await;
    let hint = tokens["id_token"].as_str().expect("there is one").to_owned();
    stays_logged_in(run, &id_token, &[("prompt", "none"), ("id_token_hint", &hint)]).await;

    // 35: of somebody else the app gets nothing with which it would take the one for the other.
    let other = person(&run.flow.admin).await;
    let elsewhere = browser(&run.flow.tenant);
    let (browser, person) =
        (std::mem::replace(&mut run.browser, elsewhere), std::mem::replace(&mut run.flow.person, other));
    let hint = run.log_in(&[]).await.tokens["id_token"].as_str().expect("there is one").to_owned();
    (run.browser, run.flow.person) = (browser, person);
    run.assert_refused(&[("prompt", "none"), ("id_token_hint", &hint)], &["login_required"]).await;
    let shown = run.send(&[("id_token_hint", &hint)]).await;
    assert!(shown.location().is_empty() && shown.text.contains("name=\"username\""), "{}", shown.text);
}

pub(super) async fn oidcc_ensure_registered_redirect_uri(run: &mut Run) {
    let shown = run.send(&[("redirect_uri", "https://evil.example/callback")]).await;
    assert_eq!((shown.status, shown.location()), (StatusCode::BAD_REQUEST, ""));
    assert!(!shown.text.contains("evil.example"), "nor by a form: {}", shown.text);
}

pub(super) async fn oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported(run: &mut Run) {
    run.assert_refused(&[("request", OBJECT)], &["request_not_supported"]).await;
}

pub(super) async fn oidcc_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported(run: &mut Run) {
    run.assert_refused(&[("request_uri", "https://shop.example/request")], &["request_uri_not_supported"]).await;
}

pub(super) async fn oidcc_ensure_request_object_with_redirect_uri(run: &mut Run) {
    run.assert_refused(&[("request", EVIL_OBJECT)], &["request_not_supported"]).await;
    let shown = run.send(&[("request", EVIL_OBJECT), ("redirect_uri", "")]).await;
    assert_eq!((shown.status, shown.location()), (StatusCode::BAD_REQUEST, ""), "{}", shown.text);
    assert!(!shown.text.contains("evil.example"), "nor by a form: {}", shown.text);
}

pub(super) async fn oidcc_ensure_post_request_succeeds(run: &mut Run) {
    let asked = run.flow.authorize_parameters(&run.parameters(&[]));
    // The form is on a page of the app.
    let from_app = vec![("sec-fetch-site", "cross-site".to_owned()), ("origin", "https://shop.example".to_owned())];
    let own = std::mem::replace(&mut run.browser.sent_from, from_app);
    let sent = run.browser.post("/oauth/v2/authorize", &asked).await;
    let shown = run.flow.follow(&mut run.browser, sent).await;
    run.browser.sent_from = own;
    let shown = run.enter(&shown).await;
    assert_eq!(run.login(&shown).await.id_token["nonce"], NONCE);
}

pub(super) async fn oidcc_server_client_secret_post(run: &mut Run) {
    let credentials = json!({ "authMethodType": "OIDC_AUTH_METHOD_TYPE_POST" });
    run.flow.app = App::create(&run.flow.admin, &run.flow.project, settings(&credentials)).await;
    let shown = run.send(&[]).await;
    let shown = run.enter(&shown).await;
    let code = run.answer(&shown)["code"].clone();
    let App { id, secret } = &run.flow.app;
    let secret = secret.as_deref().expect("it is shown");
    let tokens = send(run.flow.redeeming(&code, &[("client_id", id), ("client_secret", secret)])).await;
    super::verified(&run.flow, &tokens.body).await;
}

pub(super) async fn oidcc_refresh_token(run: &mut Run) {
    let Login { tokens, id_token: first, .. } = run.log_in(&[("scope", "openid offline_access")]).await;
    let own = run.flow.app.clone();
    let settings = settings(&App::public());
    run.flow.app = App::create(&run.flow.admin, &run.flow.project, settings).await;
    let others = send(run.flow.refreshing(refresh_token(&tokens), &[])).await;
    assert_error("77: another app", &others, 400, "invalid_grant");
    run.flow.app = own;
    let refreshed = run.flow.refreshed(refresh_token(&tokens)).await;
    let second = super::verified(&run.flow, &refreshed).await;
    for claim in ["iss", "sub", "aud", "azp", "auth_time"] {
        assert_eq!(first[claim], second[claim], "81: {claim}");
    }
    assert!(second.get("nonce").is_none_or(|nonce| nonce == NONCE), "81: {second}");
}

/// Checks that a code is used up, after `wait`, and returns the access token that the app has got for it.
async fn codereuse<T: Deref<Target = Instance>>(run: &mut Run<T>, wait: impl FnOnce()) -> String {
    let shown = run.send(&[]).await;
    let shown = run.enter(&shown).await;
    let code = run.answer(&shown)["code"].clone();
    let tokens = run.flow.redeemed(&code).await;
    wait();
    assert_error("used again", &send(run.flow.redeeming(&code, &[])).await, 400, "invalid_grant");
    access_token(&tokens).to_owned()
}

pub(super) async fn oidcc_codereuse(run: &mut Run) {
    let token = codereuse(run, || {}).await;
    assert_eq!(run.flow.userinfo(&token).await.status, StatusCode::UNAUTHORIZED);
}

/// Runs on a platform of its own, whose clock is set ahead.
pub(super) async fn oidcc_codereuse_30seconds(variant: Variant) {
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    let admin = platform.client().await;
    let flow = Flow::on(platform, admin, settings(&App::public())).await;
    let mut run = Run { variant, browser: browser(&flow.tenant), flow };
    let token = codereuse(&mut run, || clock.set_ahead(Duration::from_secs(31))).await;
    eventually("the first token is over", async || {
        (run.flow.userinfo(&token).await.status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
}
