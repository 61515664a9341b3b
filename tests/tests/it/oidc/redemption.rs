//! Unusual redemptions of codes: by apps that sign assertions, by others than the app, concurrently, too late, and
//! elsewhere. The numbers are those of the cases of the design.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{done, send},
    clock::Clock,
    eventually,
    platform::Platform,
};

use super::{
    flow::{
        API, App, CALLBACK, Flow, VERIFIER, access_token, answered, challenge, other_verifier, parameters, person,
        refresh_token,
    },
    signer::{BY_ASSERTION, Signer},
    token::{assert_error, parts},
};

const TOKEN: &str = "/oauth/v2/token";

/// Returns the settings of an app that authenticates by assertions.
fn by_key() -> Value {
    json!({ "authMethodType": "OIDC_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT" })
}

/// Returns the parameters of an app that authenticates by an assertion.
fn signed(assertion: &str) -> [(&str, &str); 2] {
    [("client_assertion_type", BY_ASSERTION), ("client_assertion", assertion)]
}

/// Waits until a token is not valid any more.
async fn is_over(flow: &Flow, token: &str) {
    eventually("the token is over", async || {
        (flow.userinfo(token).await.status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
}

/// Fails unless a code is refused.
async fn assert_refused(flow: &Flow, case: &str, (code, others): (&str, &[(&str, &str)]), error: &str) {
    let status = if error == "invalid_client" { 401 } else { 400 };
    assert_error(case, &send(flow.redeeming(code, others)).await, status, error);
}

#[tokio::test]
async fn an_app_that_signs_gets_tokens_for_its_own_codes() {
    let flow = Flow::with(by_key()).await;
    let other = App::create(&flow.admin, &flow.project, by_key()).await;
    let signer = Signer::new(&flow.tenant, &format!("apps/{}", flow.app.id), "EC").await;
    let stranger = Signer::new(&flow.tenant, &format!("apps/{}", other.id), "EC").await;
    let (answer, _) = flow.log_in(&[]).await;
    let code = answer["code"].as_str();
    let asserting = |assertion: &str| send(flow.redeeming(code, &signed(assertion)));
    assert_refused(&flow, "89: nothing signed", (code, &[]), "invalid_client").await;
    assert_refused(&flow, "88: a secret", (code, &[("client_secret", "x")]), "invalid_client").await;
    let elsewhere = signer.with(&json!({ "aud": "https://elsewhere.example" }));
    assert_error("93: another audience", &asserting(&elsewhere).await, 401, "invalid_client");
    let named = [("client_id", other.id.as_str()), ("client_assertion_type", BY_ASSERTION)];
    eventually("58: the key of the other app is known, and the code is not its own", async || {
        let assertion = stranger.assertion();
        let form = [&named[..], &[("client_assertion", assertion.as_str())]].concat();
        let refused = send(flow.redeeming(code, &form)).await;
        (refused.body["error"] == "invalid_grant").then_some(())
    })
    .await;

    let (assertion, tokens) = eventually("the key of the app is known", async || {
        let assertion = signer.assertion();
        let answer = asserting(&assertion).await;
        (answer.status == StatusCode::OK).then_some((assertion, answer.body))
    })
    .await;
    assert_eq!(flow.userinfo(access_token(&tokens)).await.body["sub"], json!(flow.person.0));
    assert_error("93: the same assertion again", &asserting(&assertion).await, 401, "invalid_client");
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::OK, "which ends nothing");
    assert_error("56: the code again", &asserting(&signer.assertion()).await, 400, "invalid_grant");
    is_over(&flow, access_token(&tokens)).await;
}

#[tokio::test]
async fn whoever_is_not_the_app_ends_nothing_and_uses_nothing_up() {
    let flow = Flow::start().await;
    let other = App::create(&flow.admin, &flow.project, App::public()).await;
    let elsewhere = Flow::start().await;
    let (answer, _) = flow.log_in(&[]).await;
    let (code, wrong) = (answer["code"].as_str(), other_verifier());
    let foreign = [("client_id", other.id.as_str())];
    let mut tokens = None;
    for round in ["before it is used", "after that"] {
        assert_refused(&flow, round, (code, &foreign), "invalid_grant").await;
        assert_refused(&flow, round, (code, &[("redirect_uri", "https://shop.example/")]), "invalid_grant").await;
        assert_refused(&flow, round, (code, &[("code_verifier", &wrong)]), "invalid_grant").await;
        assert_refused(&elsewhere, "67: at another instance", (code, &[]), "invalid_grant").await;
        if tokens.is_none() {
            tokens = Some(flow.redeemed(code).await);
        }
    }
    let tokens = tokens.expect("it was used between them");
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::OK, "58");
}

#[tokio::test]
async fn of_many_at_once_only_the_app_can_spoil_it() {
    let flow = Flow::start().await;
    let (answer, _) = flow.log_in(&[]).await;
    let (code, wrong) = (answer["code"].as_str(), other_verifier());
    let verifiers = (0..8).map(|number| if number == 3 { VERIFIER } else { wrong.as_str() });
    let all = join_all(verifiers.map(|verifier| send(flow.redeeming(code, &[("code_verifier", verifier)])))).await;
    let got: Vec<_> = all.iter().filter(|answer| answer.status == StatusCode::OK).collect();
    assert_eq!(got.len(), 1, "57: {:?}", all.iter().map(|answer| &answer.body).collect::<Vec<_>>());
    assert_eq!(flow.userinfo(access_token(&got[0].body)).await.status, StatusCode::OK, "others had the code only");

    let (answer, _) = flow.log_in(&[]).await;
    let all = join_all((0..8).map(|_| send(flow.redeeming(&answer["code"], &[])))).await;
    let got: Vec<_> = all.iter().filter(|answer| answer.status == StatusCode::OK).collect();
    assert_eq!(got.len(), 1, "57: {:?}", all.iter().map(|answer| &answer.body).collect::<Vec<_>>());
    is_over(&flow, access_token(&got[0].body)).await;
}

#[tokio::test]
async fn a_verifier_is_as_long_as_the_rfc_says() {
    let flow = Flow::start().await;
    for (case, verifier, is_one) in [
        ("61: the shortest", "a".repeat(43), true),
        ("61: the longest", "a".repeat(128), true),
        ("61: of all characters", format!("{}-._~", "aZ9".repeat(14)), true),
        ("61: too short", "a".repeat(42), false),
        ("61: too long", "a".repeat(129), false),
        ("61: another character", format!("{}+", "a".repeat(43)), false),
    ] {
        let (answer, _) = flow.log_in(&[("code_challenge", &challenge(&verifier))]).await;
        let answer = send(flow.redeeming(&answer["code"], &[("code_verifier", &verifier)])).await;
        if is_one {
            assert_eq!(answer.status, StatusCode::OK, "{case}: {}", answer.body);
        } else {
            assert_error(case, &answer, 400, "invalid_grant");
        }
    }
}

#[tokio::test]
async fn a_code_is_sent_once_in_a_form() {
    let flow = Flow::start().await;
    let (answer, _) = flow.log_in(&[]).await;
    let code = answer["code"].as_str();
    let form = parameters(&[
        ("grant_type", "authorization_code"),
        ("client_id", &flow.app.id),
        ("code", code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
    ]);
    for (name, value) in [("code", code), ("redirect_uri", CALLBACK), ("code_verifier", VERIFIER), ("extra", "1")] {
        let again = parameters(&[(name, value), (name, value)]);
        let once: Vec<_> = form.iter().filter(|(other, _)| other != name).cloned().collect();
        let request = flow.admin.anonymous(Method::POST, TOKEN).form(&[once, again].concat());
        assert_error(&format!("63: {name} twice"), &send(request).await, 400, "invalid_request");
    }
    let without: Vec<_> = form.iter().filter(|(name, _)| name != "code").cloned().collect();
    let in_query = flow.admin.anonymous(Method::POST, &format!("{TOKEN}?code={code}")).form(&without);
    assert_error("63: in the address", &send(in_query).await, 400, "invalid_request");
    let members: serde_json::Map<_, _> = form.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let typed = flow.admin.anonymous(Method::POST, TOKEN).json(&members);
    assert_error("63: JSON", &send(typed).await, 400, "invalid_request");
    let got = send(flow.admin.anonymous(Method::GET, TOKEN).query(&form)).await;
    assert_eq!(got.status, StatusCode::METHOD_NOT_ALLOWED, "63");
    let right = send(flow.admin.anonymous(Method::POST, TOKEN).form(&form)).await;
    assert_eq!(right.status, StatusCode::OK, "none of that used it up: {}", right.body);
    assert_eq!(right.headers["cache-control"], "no-store", "65");
    assert_eq!(right.headers["pragma"], "no-cache", "65");
}

#[tokio::test]
async fn pages_of_the_app_read_what_is_wrong() {
    let flow = Flow::start().await;
    for origin in ["https://shop.example", "https://elsewhere.example"] {
        let answer = send(flow.redeeming("1-2-3", &[]).header("origin", origin)).await;
        assert_error("66", &answer, 400, "invalid_grant");
        let headers = &answer.headers;
        assert_eq!(headers["content-type"], "application/json", "66");
        assert_eq!(headers["access-control-allow-origin"], origin, "66");
        assert!(!headers.contains_key("access-control-allow-credentials"), "66: {headers:?}");
        let members: Vec<_> = answer.body.as_object().expect("it is one").keys().collect();
        assert_eq!(members, ["error", "error_description"], "66");
    }
}

#[tokio::test]
async fn a_code_that_nobody_uses_for_a_minute_gets_nothing() {
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    let admin = platform.client().await;
    let flow = Flow::on((), admin, App::public()).await;
    let (late, _) = flow.log_in(&[]).await;
    let (answer, _) = flow.log_in(&[]).await;
    let tokens = flow.redeemed(&answer["code"]).await;
    clock.set_ahead(Duration::from_secs(61));
    assert_error("59", &send(flow.redeeming(&late["code"], &[])).await, 400, "invalid_grant");
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::OK, "59: it ends nothing");
    let (again, _) = flow.log_in(&[]).await;
    flow.redeemed(&again["code"]).await;
}

#[tokio::test]
async fn an_app_refreshes_with_another_key_than_before_and_not_with_one_that_is_gone() {
    let mut settings = by_key();
    settings["responseTypes"] = json!(["OIDC_RESPONSE_TYPE_CODE"]);
    settings["grantTypes"] = json!(["OIDC_GRANT_TYPE_AUTHORIZATION_CODE", "OIDC_GRANT_TYPE_REFRESH_TOKEN"]);
    let flow = Flow::with(settings).await;
    let path = format!("apps/{}", flow.app.id);
    let old = Signer::new(&flow.tenant, &path, "EC").await;
    let (answer, _) = flow.log_in(&[("scope", "openid offline_access")]).await;
    let mut tokens = eventually("the key of the app is known", async || {
        let answer = send(flow.redeeming(&answer["code"], &signed(&old.assertion()))).await;
        (answer.status == StatusCode::OK).then_some(answer.body)
    })
    .await;
    let new = Signer::new(&flow.tenant, &path, "RSA").await;
    let gone = flow.admin.request(Method::DELETE, &format!("{API}/{path}/keys/{}", old.kid));
    assert_eq!(send(gone).await.status, StatusCode::OK);
    for _ in 0..2 {
        let token = refresh_token(&tokens).to_owned();
        tokens = eventually("84: the new key is known", async || {
            let answer = send(flow.refreshing(&token, &signed(&new.assertion()))).await;
            (answer.status == StatusCode::OK).then_some(answer.body)
        })
        .await;
    }
    let refused = send(flow.refreshing(refresh_token(&tokens), &signed(&old.assertion()))).await;
    assert_error("84: a key that is gone", &refused, 401, "invalid_client");
}

#[tokio::test]
async fn whoever_is_locked_or_deleted_or_logged_out_meanwhile_gets_nothing() {
    let mut flow = Flow::start().await;
    for (case, method, verb) in [("locked", Method::POST, "/_lock"), ("deleted", Method::DELETE, "")] {
        let (tokens, _) = flow.tokens(&[]).await;
        let (answer, _) = flow.log_in(&[]).await;
        let (_, session) = flow.session().await;
        let request = flow.waiting(&[]).await;
        let path = format!("{API}/users/{}{verb}", flow.person.0);
        let ended = flow.admin.request(method.clone(), &path).header("prefer", "wait=10");
        let ended = if method == Method::POST { ended.json(&json!({})) } else { ended };
        assert_eq!(send(ended).await.status, StatusCode::OK, "{case}");
        is_over(&flow, access_token(&tokens)).await;
        assert_refused(&flow, &format!("64: {case}"), (&answer["code"], &[]), "invalid_grant").await;
        let finished = flow.finished(&request, &session).await;
        assert_eq!(finished.status, StatusCode::BAD_REQUEST, "50: {case}: {}", finished.body);
        if method == Method::POST {
            done(&flow.admin, &format!("{API}/users/{}/_unlock", flow.person.0), json!({})).await;
            assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::UNAUTHORIZED, "it stays so");
        }
    }
    flow.person = person(&flow.admin).await;
    let (id, session) = flow.session().await;
    let mut codes = vec![];
    for _ in 0..2 {
        let finished = flow.finished(&flow.waiting(&[]).await, &session).await;
        let url = finished.body["callbackUrl"].as_str().expect("one session is enough for several apps");
        codes.push(answered(url)["code"].clone());
    }
    let tokens = flow.redeemed(&codes[0]).await;
    assert_eq!(send(flow.admin.request(Method::DELETE, &format!("{API}/sessions/{id}"))).await.status, 200);
    is_over(&flow, access_token(&tokens)).await;
    assert_refused(&flow, "64: logged out", (&codes[1], &[]), "invalid_grant").await;
}

#[tokio::test]
async fn tokens_say_what_was_asked_for_and_is_known() {
    let mut settings = App::public();
    settings["accessTokenType"] = json!("OIDC_TOKEN_TYPE_JWT");
    settings["idTokenUserinfoAssertion"] = json!(true);
    let flow = Flow::with(settings).await;
    let beside = done(&flow.admin, &format!("{API}/projects"), json!({ "name": "Beside" })).await.id();
    let audience = format!("urn:platform:iam:org:project:id:{beside}:aud");
    let scope = format!("openid {audience} email coffee offline_access");
    let (tokens, _) = flow.tokens(&[("scope", &scope)]).await;
    assert_eq!(tokens["scope"], format!("openid {audience} email"), "17: what is dropped is told");
    assert_eq!(tokens.get("refresh_token"), None, "83");
    let [_, claims] = parts(access_token(&tokens));
    let told: BTreeSet<_> = claims["aud"].as_array().expect("it is a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(told, BTreeSet::from([&*flow.app.id, &*flow.project, &*beside]), "69");
    let lasts = claims["exp"].as_i64().zip(claims["iat"].as_i64()).map(|(exp, iat)| exp - iat);
    assert_eq!(lasts, tokens["expires_in"].as_i64(), "{tokens}");
    let [_, claims] = parts(tokens["id_token"].as_str().expect("there is one"));
    assert_eq!((&claims["aud"], &claims["azp"]), (&json!([flow.app.id]), &json!(flow.app.id)), "69");
    let email = format!("{}@example.com", flow.person.1);
    assert_eq!((&claims["email"], claims.get("name")), (&json!(email), None), "70: {claims}");
}
