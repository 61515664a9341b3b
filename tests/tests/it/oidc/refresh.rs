//! Refresh tokens: each is exchanged for the next one as long as everything exists that they depend on, and the family
//! ends where one is used twice. The numbers are those of the cases of the design.

use std::{collections::BTreeSet, os::unix::process::ExitStatusExt, time::Duration};

use domain::log_class::LogClass;
use eventlog::log::Log;
use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{TARGETS, done, send},
    clock::Clock,
    eventually,
    platform::Platform,
    servers::{Servers, drop_read_models},
};

use super::{
    flow::{API, App, Flow, PASSWORD, access_token, refresh_token},
    token::{assert_error, parts},
};

const SCOPE: &str = "openid profile email offline_access";
/// For how many seconds the token before the newest one is still accepted.
const GRACE: u64 = 20;

/// Returns settings with refresh tokens in addition to the given ones.
fn refreshing(mut settings: Value) -> Value {
    settings["responseTypes"] = json!(["OIDC_RESPONSE_TYPE_CODE"]);
    settings["grantTypes"] = json!(["OIDC_GRANT_TYPE_AUTHORIZATION_CODE", "OIDC_GRANT_TYPE_REFRESH_TOKEN"]);
    settings
}

async fn start() -> Flow {
    Flow::with(refreshing(App::public())).await
}

/// Logs the person in, and returns the tokens with a refresh token, and the id of the session.
async fn logged_in<T>(flow: &Flow<T>) -> (Value, String) {
    flow.tokens(&[("scope", SCOPE)]).await
}

async fn assert_refused<T>(flow: &Flow<T>, case: &str, token: &str, error: &str) {
    let status = if error == "invalid_client" { 401 } else { 400 };
    assert_error(case, &send(flow.refreshing(token, &[])).await, status, error);
}

/// Waits until an access token is not valid any more.
async fn is_over<T>(flow: &Flow<T>, tokens: &Value) {
    eventually("the token is over", async || {
        (flow.userinfo(access_token(tokens)).await.status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_refresh_token_gives_the_next_and_tokens_that_say_the_same() {
    let mut settings = refreshing(App::public());
    settings["accessTokenType"] = json!("OIDC_TOKEN_TYPE_JWT");
    let flow = Flow::with(settings).await;
    let (first, session) = logged_in(&flow).await;
    assert_eq!(first["scope"], SCOPE);
    assert!(refresh_token(&first).starts_with("rt-"), "{first}");
    let second = flow.refreshed(refresh_token(&first)).await;
    let third = flow.refreshed(refresh_token(&second)).await;
    let all = [&first, &second, &third];
    let told: BTreeSet<_> = all.iter().map(|tokens| refresh_token(tokens)).collect();
    assert_eq!(told.len(), 3, "71");
    for tokens in [&second, &third] {
        assert_eq!((&tokens["token_type"], &tokens["scope"]), (&json!("Bearer"), &json!(SCOPE)));
        let [before, after] = [&first, tokens].map(|tokens| parts(tokens["id_token"].as_str().expect("there is one")));
        assert_eq!(before[0]["alg"], after[0]["alg"]);
        for claim in ["iss", "sub", "aud", "azp", "auth_time", "amr", "sid"] {
            assert_eq!(before[1][claim], after[1][claim], "81: {claim}");
        }
        assert_eq!((&after[1]["sid"], after[1].get("nonce")), (&json!(session), None), "81");
        let [before, after] = [&first, tokens].map(|tokens| parts(access_token(tokens)));
        for claim in ["iss", "sub", "aud", "client_id", "scope", "sid", "grantId", "auth_time", "amr"] {
            assert_eq!(before[1][claim], after[1][claim], "{claim}");
        }
        assert!(after[1]["auth_time"].is_i64() && after[1]["amr"] == json!(["pwd"]), "{}", after[1]);
        assert_ne!(before[1]["jti"], after[1]["jti"]);
    }
    for tokens in all {
        let said = flow.userinfo(access_token(tokens)).await;
        assert_eq!((said.status, &said.body["sub"]), (StatusCode::OK, &json!(flow.person.0)), "all are good");
    }
}

#[tokio::test]
async fn one_that_is_used_twice_ends_its_family_and_what_was_got_by_it() {
    let flow = start().await;
    let (other, _) = logged_in(&flow).await;
    let (first, _) = logged_in(&flow).await;
    let second = flow.refreshed(refresh_token(&first)).await;
    let third = flow.refreshed(refresh_token(&second)).await;
    assert_refused(&flow, "72: two before", refresh_token(&first), "invalid_grant").await;
    for tokens in [&first, &second, &third] {
        is_over(&flow, tokens).await;
        assert_refused(&flow, "72: all of the family", refresh_token(tokens), "invalid_grant").await;
    }
    assert_eq!(flow.userinfo(access_token(&other)).await.status, StatusCode::OK, "no other family");
}

#[tokio::test]
async fn many_at_once_and_whoever_lost_an_answer_have_one_token() {
    let flow = start().await;
    let (first, _) = logged_in(&flow).await;
    // 75: none of them is used between the look at it and its use.
    let all = join_all((0..8).map(|_| flow.refreshed(refresh_token(&first)))).await;
    for tokens in &all {
        assert_eq!(flow.userinfo(access_token(tokens)).await.status, StatusCode::OK, "73");
    }
    // All have the same one, so each of them gives the next, and again the same.
    let next = join_all(all.iter().map(|tokens| flow.refreshed(refresh_token(tokens)))).await;
    let last = flow.refreshed(refresh_token(&next[0])).await;
    assert_refused(&flow, "73: used, and so are those of the others", refresh_token(&all[7]), "invalid_grant").await;
    is_over(&flow, &last).await;
}

#[tokio::test]
async fn an_app_asks_for_less_and_gets_all_again_later() {
    let flow = start().await;
    let (first, _) = logged_in(&flow).await;
    let asked =
        async |tokens: &Value, scope: &str| send(flow.refreshing(refresh_token(tokens), &[("scope", scope)])).await;
    for more in ["openid phone", "openid coffee", "urn:platform:iam:org:project:id:platform:aud", "OPENID"] {
        assert_error(&format!("76: {more}"), &asked(&first, more).await, 400, "invalid_scope");
    }
    let second = asked(&first, "email").await.body;
    assert_eq!((&second["scope"], second.get("id_token")), (&json!("email"), None), "76: {second}");
    assert_eq!(flow.userinfo(access_token(&second)).await.status, StatusCode::FORBIDDEN, "without openid");
    let third = asked(&second, "  email  openid ").await.body;
    assert_eq!(third["scope"], "email openid", "82: {third}");
    let said = flow.userinfo(access_token(&third)).await.body;
    assert_eq!((&said["sub"], said.get("name")), (&json!(flow.person.0), None), "{said}");
    assert_eq!(flow.refreshed(refresh_token(&third)).await["scope"], SCOPE, "76: the original one");
}

#[tokio::test]
async fn it_is_for_its_app_its_instance_and_nothing_else() {
    let flow = Flow::with(refreshing(json!({}))).await;
    let other = App::create(&flow.admin, &flow.project, refreshing(App::public())).await;
    let elsewhere = start().await;
    let (tokens, _) = logged_in(&flow).await;
    let token = refresh_token(&tokens);
    let (answer, _) = flow.log_in(&[("scope", SCOPE)]).await;
    let middle = token.len() / 2;
    let other_character = if token.as_bytes()[middle] == b'A' { "B" } else { "A" };
    let mangled = format!("{}{other_character}{}", &token[..middle], &token[middle + 1..]);
    for (case, sent) in [
        ("an access token", access_token(&tokens)),
        ("an ID token", tokens["id_token"].as_str().expect("there is one")),
        ("a code", &answer["code"]),
        ("another one", &mangled),
        ("something", "rt-"),
    ] {
        assert_refused(&flow, case, sent, "invalid_grant").await;
    }
    assert_refused(&flow, "none", "", "invalid_request").await;
    let foreign = [("client_id", other.id.as_str())];
    assert_error("77", &send(flow.refreshing(token, &foreign)).await, 400, "invalid_grant");
    assert_error("77", &send(elsewhere.refreshing(token, &[])).await, 400, "invalid_grant");
    let nobody = [("client_id", flow.app.id.as_str())];
    assert_error("without its secret", &send(flow.refreshing(token, &nobody)).await, 401, "invalid_client");
    let wrong = [("client_id", flow.app.id.as_str()), ("client_secret", "wrong")];
    assert_error("another secret", &send(flow.refreshing(token, &wrong)).await, 401, "invalid_client");

    assert_eq!(flow.userinfo(token).await.status, StatusCode::UNAUTHORIZED);
    let api = flow.admin.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token);
    assert_eq!(send(api).await.status, StatusCode::UNAUTHORIZED);
    let asked = flow.admin.anonymous(Method::POST, "/oauth/v2/introspect").form(&[("token", token)]);
    let told = send(asked.basic_auth(&flow.app.id, flow.app.secret.as_ref())).await;
    assert_eq!(told.body, json!({ "active": false }), "120");
    flow.refreshed(token).await;
}

#[tokio::test]
async fn an_app_that_is_not_set_up_for_it_has_none_and_loses_it() {
    let flow = start().await;
    let (tokens, _) = logged_in(&flow).await;
    let only_codes = json!({ "oidc": { "grantTypes": { "values": ["OIDC_GRANT_TYPE_AUTHORIZATION_CODE"] } } });
    let patch = flow.admin.request(Method::PATCH, &format!("{API}/apps/{}", flow.app.id)).header("prefer", "wait=10");
    assert_eq!(send(patch.json(&only_codes)).await.status, StatusCode::OK);
    let refused = eventually("the app is set up in another way", async || {
        let answer = send(flow.refreshing(refresh_token(&tokens), &[])).await;
        (answer.status != StatusCode::OK).then_some(answer)
    });
    assert_error("79", &refused.await, 400, "unauthorized_client");
    let request = flow.waiting(&[("scope", SCOPE)]).await;
    let shown = send(flow.admin.request(Method::GET, &format!("{API}/auth_requests/{request}"))).await.body;
    assert_eq!(shown["authRequest"]["scopes"], json!(["openid", "profile", "email"]), "nobody is asked for it");
    let (tokens, _) = logged_in(&flow).await;
    assert_eq!((&tokens["scope"], tokens.get("refresh_token")), (&json!("openid profile email"), None), "83");
}

#[tokio::test]
async fn it_ends_with_its_session_and_its_user_and_with_the_password() {
    let flow = start().await;
    let (tokens, session) = logged_in(&flow).await;
    assert_eq!(send(flow.admin.request(Method::DELETE, &format!("{API}/sessions/{session}"))).await.status, 200);
    assert_refused(&flow, "80: logged out", refresh_token(&tokens), "invalid_grant").await;
    is_over(&flow, &tokens).await;

    let (tokens, _) = logged_in(&flow).await;
    done(&flow.admin, &format!("{API}/users/{}/_lock", flow.person.0), json!({})).await;
    is_over(&flow, &tokens).await;
    assert_refused(&flow, "80: locked", refresh_token(&tokens), "invalid_grant").await;
    done(&flow.admin, &format!("{API}/users/{}/_unlock", flow.person.0), json!({})).await;
    let locked = tokens;
    let (tokens, _) = eventually("the person is let in again", async || {
        let checks = json!({ "user": { "userId": flow.person.0 }, "password": { "password": PASSWORD } });
        let made =
            send(flow.admin.request(Method::POST, &format!("{API}/sessions")).json(&json!({ "checks": checks })));
        (made.await.status == StatusCode::CREATED).then_some(logged_in(&flow).await)
    })
    .await;
    assert_refused(&flow, "80: it stays so", refresh_token(&locked), "invalid_grant").await;
    let changed = json!({ "newPassword": "eight-lives-of-a-manx-cat" });
    done(&flow.admin, &format!("{API}/users/{}/password", flow.person.0), changed).await;
    // That the read model lags lets nobody in.
    assert_refused(&flow, "80: another password", refresh_token(&tokens), "invalid_grant").await;
}

#[tokio::test]
async fn a_client_ends_it_with_all_that_was_got_by_it() {
    let flow = start().await;
    let other = App::create(&flow.admin, &flow.project, App::public()).await;
    let revoking = async |client_id: &str, token: &str| {
        let form = [("client_id", client_id), ("token", token), ("token_type_hint", "access_token")];
        send(flow.admin.anonymous(Method::POST, "/oauth/v2/revoke").form(&form)).await
    };
    let (first, _) = logged_in(&flow).await;
    assert_eq!(revoking(&flow.app.id, access_token(&first)).await.status, StatusCode::OK);
    is_over(&flow, &first).await;
    let second = flow.refreshed(refresh_token(&first)).await;
    assert_error("of another client", &revoking(&other.id, refresh_token(&second)).await, 400, "invalid_grant");
    assert_eq!(flow.userinfo(access_token(&second)).await.status, StatusCode::OK, "127: an access token ends alone");
    for _ in 0..2 {
        assert_eq!(revoking(&flow.app.id, refresh_token(&second)).await.status, StatusCode::OK);
        is_over(&flow, &second).await;
        assert_refused(&flow, "ended", refresh_token(&second), "invalid_grant").await;
    }
    assert_eq!(revoking(&flow.app.id, "rt-something").await.status, StatusCode::OK, "none is none");

    let (answer, _) = flow.log_in(&[("scope", SCOPE)]).await;
    let tokens = flow.redeemed(&answer["code"]).await;
    assert_error("56", &send(flow.redeeming(&answer["code"], &[])).await, 400, "invalid_grant");
    is_over(&flow, &tokens).await;
    assert_refused(&flow, "56: the code was used twice", refresh_token(&tokens), "invalid_grant").await;
}

/// 128
#[tokio::test]
async fn one_that_is_revoked_while_it_is_used_leaves_nothing() {
    let flow = start().await;
    for round in 0..5 {
        let (first, _) = logged_in(&flow).await;
        let form = [("client_id", flow.app.id.as_str()), ("token", refresh_token(&first))];
        let revoking = flow.admin.anonymous(Method::POST, "/oauth/v2/revoke").form(&form);
        let (refreshed, revoked) = tokio::join!(send(flow.refreshing(refresh_token(&first), &[])), send(revoking));
        assert_eq!(revoked.status, StatusCode::OK, "{round}: {}", revoked.body);
        let won = (refreshed.status == StatusCode::OK).then_some(&refreshed.body);
        for tokens in won.into_iter().chain([&first]) {
            is_over(&flow, tokens).await;
            assert_refused(&flow, "of the family", refresh_token(tokens), "invalid_grant").await;
        }
    }
}

#[tokio::test]
async fn it_is_good_until_nobody_has_used_it_for_long_and_then_never_again() {
    const HOUR: u64 = 3600;
    let clock = Clock::new();
    let ahead = |seconds| clock.set_ahead(Duration::from_secs(seconds));
    let mut platform = Platform::start_with(&[], &[clock.environment()]).await;
    let admin = platform.client().await;
    let lifetimes = json!({
        "refreshTokenIdleLifetime": { "set": "172800s" }, "refreshTokenAbsoluteLifetime": { "set": "345600s" },
    });
    let patch = admin.request(Method::PATCH, "/settings/v3alpha/oidc").header("prefer", "wait=10");
    assert_eq!(send(patch.json(&lifetimes)).await.status, StatusCode::OK);
    let flow = Flow::on((), admin, refreshing(App::public())).await;
    let (unused, _) = logged_in(&flow).await;
    let (first, _) = logged_in(&flow).await;
    let (logged_out, session) = logged_in(&flow).await;
    let (old, _) = logged_in(&flow).await;
    let new = flow.refreshed(refresh_token(&old)).await;
    flow.refreshed(refresh_token(&old)).await;
    ahead(GRACE + 10);
    assert_refused(&flow, "72: the one before, after a while", refresh_token(&old), "invalid_grant").await;
    assert_refused(&flow, "72: and the newest", refresh_token(&new), "invalid_grant").await;
    assert_eq!(send(flow.admin.request(Method::DELETE, &format!("{API}/sessions/{session}"))).await.status, 200);

    // Only the node that writes still knows what has ended.
    ahead(26 * HOUR);
    assert_refused(&flow, "72: ended long ago", refresh_token(&new), "invalid_grant").await;
    assert_refused(&flow, "80: logged out long ago", refresh_token(&logged_out), "invalid_grant").await;
    let form = [("client_id", flow.app.id.as_str()), ("token", refresh_token(&new))];
    let again = flow.admin.anonymous(Method::POST, "/oauth/v2/revoke").form(&form);
    assert_eq!(send(again).await.status, StatusCode::OK, "what has ended can be ended");
    let second = flow.refreshed(refresh_token(&first)).await;
    let third = flow.refreshed(refresh_token(&second)).await;
    platform.process().kill().await;
    platform.restart(&[clock.environment()]).await;
    let mut newest = third;
    for hours in [49, 90] {
        ahead(hours * HOUR);
        assert_refused(&flow, "78: nobody has used it", refresh_token(&unused), "invalid_grant").await;
        newest = eventually("tokens are given again", async || {
            let answer = send(flow.refreshing(refresh_token(&newest), &[])).await;
            (answer.status == StatusCode::OK).then_some(answer.body)
        })
        .await;
    }
    ahead(97 * HOUR);
    assert_refused(&flow, "78: too long ago", refresh_token(&newest), "invalid_grant").await;
}

#[tokio::test]
async fn the_longest_family_outlives_a_purge_and_one_that_was_ended_stays_so() {
    const DAY: u64 = 24 * 3600;
    let (servers, clock) = (Servers::start().await, Clock::new());
    let ahead = |days| clock.set_ahead(Duration::from_secs(days * DAY));
    let mut platform = Platform::start_with(&servers.flags(), &[clock.environment()]).await;
    let admin = platform.client().await;
    let lifetimes = json!({
        "refreshTokenIdleLifetime": { "set": "7776000s" }, "refreshTokenAbsoluteLifetime": { "set": "7776000s" },
    });
    let patch = admin.request(Method::PATCH, "/settings/v3alpha/oidc").header("prefer", "wait=10");
    assert_eq!(send(patch.json(&lifetimes)).await.status, StatusCode::OK);
    let mut flow = Flow::on((), admin, refreshing(App::public())).await;
    let (aged, _) = logged_in(&flow).await;
    ahead(10);
    flow.admin = platform.client().await;
    let ((living, _), (ended, _)) = (logged_in(&flow).await, logged_in(&flow).await);
    let form = [("client_id", flow.app.id.as_str()), ("token", refresh_token(&ended))];
    assert_eq!(send(flow.admin.anonymous(Method::POST, "/oauth/v2/revoke").form(&form)).await.status, StatusCode::OK);

    ahead(98);
    let log = Log::find(servers.nats().await, LogClass::Sessions, 0).await.expect("it is there");
    let purged = async || log.purged().await.ok().filter(|purged| *purged > 0);
    eventually("what has aged out is purged", purged).await;
    for built in ["as it was", "anew"] {
        platform.process().kill().await;
        if built == "anew" {
            drop_read_models(&servers.places.postgres_url).await;
        }
        platform.restart(&[clock.environment()]).await;
        assert_refused(&flow, built, refresh_token(&aged), "invalid_grant").await;
        assert_refused(&flow, built, refresh_token(&ended), "invalid_grant").await;
    }
    let newest = eventually("tokens are given again", async || {
        let answer = send(flow.refreshing(refresh_token(&living), &[])).await;
        (answer.status == StatusCode::OK).then_some(answer.body)
    })
    .await;
    ahead(101);
    assert_refused(&flow, "its session is over", refresh_token(&newest), "invalid_grant").await;
}

#[tokio::test]
async fn whoever_lost_the_answer_with_the_platform_goes_on_and_what_was_used_before_stays_used() {
    let mut platform = Platform::start().await;
    let admin = platform.client().await;
    let flow = Flow::on((), admin, refreshing(App::public())).await;
    let (first, _) = logged_in(&flow).await;
    let third = flow.refreshed(refresh_token(&flow.refreshed(refresh_token(&first)).await)).await;
    let (other, _) = logged_in(&flow).await;
    platform.process().kill().await;
    platform.respawn(&[("PLATFORM_FAULT", "commit.answering:1:kill")]);
    let asking = eventually("tokens", async || {
        let answer = flow.refreshing(refresh_token(&other), &[]).send().await;
        answer.is_ok_and(|answer| answer.status() == StatusCode::OK).then_some(())
    });
    let ended = tokio::select! {
        ended = platform.process().ended() => ended,
        () = asking => panic!("it answered and did not die"),
    };
    assert_eq!(ended.signal(), Some(9), "it died after it had written that the token was used");
    platform.restart(&[]).await;
    let next = eventually("tokens are given again", async || {
        let answer = send(flow.refreshing(refresh_token(&other), &[])).await;
        (answer.status == StatusCode::OK).then_some(answer.body)
    })
    .await;
    flow.refreshed(refresh_token(&next)).await;
    assert_refused(&flow, "74", refresh_token(&first), "invalid_grant").await;
    is_over(&flow, &third).await;
    assert_refused(&flow, "74: nor the newest", refresh_token(&third), "invalid_grant").await;
}
