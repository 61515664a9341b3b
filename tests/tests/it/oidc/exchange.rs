//! Token exchange without an actor: an app gets tokens for those that it has. The numbers are those of the cases of the
//! design.

mod ends;

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, done, send},
    clock::Clock,
    eventually,
    platform::Platform,
};

use super::{
    flow::{API, App, Flow, access_token, refresh_token},
    shop,
    token::{assert_error, parts},
};

pub(super) const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const SCOPE: &str = "openid profile email";
pub(super) const ACCESS: &str = "urn:ietf:params:oauth:token-type:access_token";
pub(super) const ID: &str = "urn:ietf:params:oauth:token-type:id_token";
pub(super) const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
pub(super) const USER_ID: &str = "urn:platform:params:oauth:token-type:user_id";
const REFRESH: &str = "urn:ietf:params:oauth:token-type:refresh_token";

/// Returns the settings of an app that exchanges tokens.
pub(super) fn exchanging() -> Value {
    let grants = ["AUTHORIZATION_CODE", "REFRESH_TOKEN", "TOKEN_EXCHANGE"];
    json!({
        "responseTypes": ["OIDC_RESPONSE_TYPE_CODE"],
        "grantTypes": grants.map(|name| format!("OIDC_GRANT_TYPE_{name}")),
        "accessTokenType": "OIDC_TOKEN_TYPE_JWT",
    })
}

/// Enables token exchange in an instance, also with an actor.
pub(super) async fn enable(admin: &Client) {
    enable_at(admin, admin).await;
}

/// Enables token exchange in an instance, and waits until another node knows.
pub(super) async fn enable_at(admin: &Client, asking: &Client) {
    for (path, property) in [("oidc", "enableImpersonation"), ("features", "tokenExchange")] {
        set(admin, path, property, true).await;
    }
    eventually("tokens are exchanged", async || {
        let document = send(asking.anonymous(Method::GET, "/.well-known/openid-configuration")).await.body;
        document["grant_types_supported"].as_array()?.contains(&json!(EXCHANGE)).then_some(())
    })
    .await;
}

pub(super) async fn set(admin: &Client, path: &str, property: &str, value: bool) {
    let request = admin.request(Method::PATCH, &format!("/settings/v3alpha/{path}")).header("prefer", "wait=10");
    let answer = send(request.json(&json!({ property: { "set": value } }))).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
}

pub(super) async fn start() -> Flow {
    let flow = Flow::with(exchanging()).await;
    enable(&flow.admin).await;
    flow
}

/// Sends the form of a token exchange as an app.
pub(super) async fn post_exchange(admin: &Client, app: &App, form: &[(&str, &str)]) -> Answer {
    let form = [&[("grant_type", EXCHANGE)], form].concat();
    let request = admin.anonymous(Method::POST, "/oauth/v2/token");
    send(match &app.secret {
        Some(secret) => request.basic_auth(&app.id, Some(secret)).form(&form),
        None => request.form(&[&form[..], &[("client_id", app.id.as_str())]].concat()),
    })
    .await
}

/// Exchanges a token of a type as the app of a flow, with further parameters.
pub(super) async fn exchange<T>(flow: &Flow<T>, (token, kind): (&str, &str), more: &[(&str, &str)]) -> Answer {
    let form = [&[("subject_token", token), ("subject_token_type", kind)], more].concat();
    post_exchange(&flow.admin, &flow.app, &form).await
}

/// Exchanges a token, which must succeed, and returns the body.
pub(super) async fn exchanged<T>(flow: &Flow<T>, of: (&str, &str), more: &[(&str, &str)]) -> Value {
    let answer = exchange(flow, of, more).await;
    assert_eq!(answer.status, StatusCode::OK, "{more:?}: {}", answer.body);
    assert_eq!(answer.headers["cache-control"], "no-store");
    answer.body
}

/// Introspects a token as the app.
pub(super) async fn introspect<T>(flow: &Flow<T>, token: &str) -> Value {
    let request = flow.admin.anonymous(Method::POST, "/oauth/v2/introspect");
    let secret = flow.app.secret.as_ref();
    send(request.basic_auth(&flow.app.id, secret).form(&[("token", token)])).await.body
}

fn id_token(tokens: &Value) -> &str {
    tokens["id_token"].as_str().unwrap_or_else(|| panic!("there is one: {tokens}"))
}

#[tokio::test]
async fn a_token_of_each_type_is_got_for_one_of_the_same_user() {
    let flow = start().await;
    let (tokens, _) = flow.tokens(&[("scope", SCOPE)]).await;
    let subject = (access_token(&tokens), ACCESS);
    let [_, before] = parts(subject.0);
    for requested in [None, Some(ACCESS), Some(JWT)] {
        let more: Vec<_> = requested.map(|kind| ("requested_token_type", kind)).into_iter().collect();
        let got = exchanged(&flow, subject, &more).await;
        let kind = requested.unwrap_or(ACCESS);
        assert_eq!((&got["issued_token_type"], &got["token_type"]), (&json!(kind), &json!("Bearer")), "106, 107");
        assert_eq!((&got["scope"], got.get("refresh_token")), (&json!(SCOPE), None), "{got}");
        assert!(got["expires_in"].as_i64() > Some(0), "{got}");
        let token = access_token(&got);
        assert_eq!(token.starts_with("at-"), kind == ACCESS, "106: {kind}");
        let said = flow.userinfo(token).await;
        assert_eq!((said.status, &said.body["sub"]), (StatusCode::OK, &json!(flow.person.0)));
        let told = introspect(&flow, token).await;
        assert_eq!((&told["active"], &told["aud"], told.get("act")), (&json!(true), &before["aud"], None), "{told}");
        let is_same = ["auth_time", "amr"].iter().all(|claim| told.get(claim) == before.get(claim));
        assert!(before["auth_time"].is_i64() && is_same, "it is the same login: {told} {before}");
        let [_, beside] = parts(id_token(&got));
        assert_eq!((&beside["sub"], &beside["aud"]), (&json!(flow.person.0), &json!([flow.app.id])), "{beside}");
    }
    let got = exchanged(&flow, subject, &[("requested_token_type", JWT)]).await;
    let [header, claims] = parts(access_token(&got));
    assert_eq!(header["typ"], "at+jwt");
    for claim in ["iss", "sub", "aud", "client_id", "scope", "auth_time", "amr"] {
        assert_eq!(before[claim], claims[claim], "{claim}");
    }
    assert!(before["jti"] != claims["jti"] && claims["exp"].as_i64() <= before["exp"].as_i64(), "{claims}");

    let got = exchanged(&flow, subject, &[("requested_token_type", ID)]).await;
    assert_eq!((&got["issued_token_type"], &got["token_type"]), (&json!(ID), &json!("N_A")), "107");
    assert_eq!(got.get("id_token"), None, "{got}");
    let [header, claims] = parts(access_token(&got));
    assert_eq!((&header["typ"], &claims["aud"]), (&json!("JWT"), &json!([flow.app.id])));
    assert_eq!((&claims["sub"], claims.get("sid")), (&json!(flow.person.0), None), "nobody ends a session by it");
    assert!(claims["exp"].as_i64() <= before["exp"].as_i64(), "{claims}");
    let again = exchange(&flow, (access_token(&got), ID), &[]).await;
    assert_error("an ID token that was got for another", &again, 400, "invalid_request");
    let asked = [("requested_token_type", ID), ("scope", "profile")];
    assert_error("an ID token without openid", &exchange(&flow, subject, &asked).await, 400, "invalid_scope");
}

#[tokio::test]
async fn tokens_are_what_they_are_said_to_be() {
    let flow = start().await;
    let (tokens, session) = flow.tokens(&[("scope", "openid offline_access")]).await;
    let (access, id, refresh) = (access_token(&tokens), id_token(&tokens), refresh_token(&tokens));
    let wrong = "urn:ietf:params:oauth:token-type:saml2";
    let (_, session_token) = flow.session().await;
    for (case, form) in [
        ("104: no subject", vec![("subject_token_type", ACCESS)]),
        ("104: no type", vec![("subject_token", access)]),
        ("104: an unknown type", vec![("subject_token", access), ("subject_token_type", wrong)]),
        ("104: an ID token as an access token", vec![("subject_token", id), ("subject_token_type", ACCESS)]),
        ("104: an access token as an ID token", vec![("subject_token", access), ("subject_token_type", ID)]),
        ("104: an access token as a JWT", vec![("subject_token", access), ("subject_token_type", JWT)]),
        ("104: a refresh token as an access token", vec![("subject_token", refresh), ("subject_token_type", ACCESS)]),
        ("104: a session", vec![("subject_token", &session_token), ("subject_token_type", ACCESS)]),
        ("104: the id of one", vec![("subject_token", &session), ("subject_token_type", ID)]),
        ("105: a refresh token", vec![("subject_token", refresh), ("subject_token_type", REFRESH)]),
        ("113: nobody acts", vec![("subject_token", &flow.person.0), ("subject_token_type", USER_ID)]),
    ] {
        assert_error(case, &post_exchange(&flow.admin, &flow.app, &form).await, 400, "invalid_request");
    }
    let subject = (access, ACCESS);
    for (case, more, error) in [
        ("105: asked for", vec![("requested_token_type", REFRESH)], "invalid_request"),
        ("106: a user id", vec![("requested_token_type", USER_ID)], "invalid_request"),
        ("106: unknown", vec![("requested_token_type", wrong)], "invalid_request"),
        ("112: an actor without a type", vec![("actor_token", access)], "invalid_request"),
        ("112: a type without an actor", vec![("actor_token_type", ACCESS)], "invalid_request"),
        ("112: a JWT as an actor", vec![("actor_token", access), ("actor_token_type", JWT)], "invalid_request"),
        ("112: a user as an actor", vec![("actor_token", "1"), ("actor_token_type", USER_ID)], "invalid_request"),
        ("105: as an actor", vec![("actor_token", refresh), ("actor_token_type", REFRESH)], "invalid_request"),
        ("116", vec![("resource", "https://api.example/")], "invalid_target"),
        ("116: two", vec![("resource", "https://a.example/"), ("resource", "https://b.example/")], "invalid_target"),
        ("twice", vec![("scope", "openid"), ("scope", "openid")], "invalid_request"),
    ] {
        assert_error(case, &exchange(&flow, subject, &more).await, 400, error);
    }
    let got = exchanged(&flow, (id, ID), &[]).await;
    assert_eq!(
        (&got["scope"], &introspect(&flow, access_token(&got)).await["active"]),
        (&json!("openid"), &json!(true))
    );
    let [_, claims] = parts(id_token(&got));
    assert_eq!(claims["auth_time"], parts(id)[1]["auth_time"], "the same login");
}

#[tokio::test]
async fn nobody_gets_more_than_the_token_gives() {
    let flow = start().await;
    let (tokens, _) = flow.tokens(&[("scope", SCOPE)]).await;
    let subject = (access_token(&tokens), ACCESS);
    for more in ["openid phone", "openid offline_access", "coffee", "urn:platform:iam:org:project:id:platform:aud"] {
        let answer = exchange(&flow, subject, &[("scope", more)]).await;
        assert_error(&format!("109: {more}"), &answer, 400, "invalid_scope");
    }
    let less = exchanged(&flow, subject, &[("scope", "email")]).await;
    assert_eq!((&less["scope"], less.get("id_token")), (&json!("email"), None), "{less}");
    let again = exchange(&flow, (access_token(&less), ACCESS), &[("scope", "openid")]).await;
    assert_error("109: less stays less", &again, 400, "invalid_scope");
    let (offline, _) = flow.tokens(&[("scope", "openid offline_access")]).await;
    let got = exchanged(&flow, (access_token(&offline), ACCESS), &[("scope", "openid offline_access")]).await;
    assert_eq!((&got["scope"], got.get("refresh_token")), (&json!("openid"), None), "109: there is none to get");
    let by_id = exchange(&flow, (id_token(&tokens), ID), &[("scope", "urn:platform:iam:org:projects:roles")]).await;
    assert_error("109: an ID token gives who somebody is", &by_id, 400, "invalid_scope");

    let other = done(&flow.admin, &format!("{API}/projects"), json!({ "name": "Other" })).await.id();
    let platform = flow.tenant.bootstrap.issuer.as_str();
    for audience in [other.as_str(), "1", platform, "urn:platform:app:pages"] {
        let answer = exchange(&flow, subject, &[("audience", audience)]).await;
        assert_error(&format!("108: {audience}"), &answer, 400, "invalid_target");
        let answer = exchange(&flow, subject, &[("audience", &flow.project), ("audience", audience)]).await;
        assert_error(&format!("108: beside another, {audience}"), &answer, 400, "invalid_target");
    }
    let mine = [("audience", flow.app.id.as_str())];
    let got = exchanged(&flow, subject, &[&mine[..], &[("requested_token_type", JWT)]].concat()).await;
    assert_eq!(parts(access_token(&got))[1]["aud"], json!([flow.app.id]), "108");
    let both = [("audience", flow.app.id.as_str()), ("audience", flow.project.as_str())];
    let wider = exchange(&flow, (access_token(&got), ACCESS), &both).await;
    assert_error("108: fewer stay fewer", &wider, 400, "invalid_target");
    let got = exchanged(&flow, subject, &[&both[..], &[("requested_token_type", JWT)]].concat()).await;
    assert_eq!(parts(access_token(&got))[1]["aud"], json!([flow.app.id, flow.project]), "108");
    let words = format!("{0} {0} {1}", flow.app.id, flow.project);
    let repeated = [("audience", words.as_str()), both[0], both[1], ("requested_token_type", JWT)];
    let got = exchanged(&flow, subject, &repeated).await;
    assert_eq!(parts(access_token(&got))[1]["aud"], json!([flow.app.id, flow.project]), "108: each once");
    let many: String = (0..101).map(|number| format!("{number} ")).collect();
    let answer = exchange(&flow, subject, &[("audience", &many)]).await;
    assert_error("108: too many", &answer, 400, "invalid_target");
    assert_eq!(answer.body["error_description"], "more than 100 audiences are named");
    let by_id = [("requested_token_type", ID), ("audience", flow.project.as_str())];
    assert_error("108: an ID token is for the app", &exchange(&flow, subject, &by_id).await, 400, "invalid_target");
}

#[tokio::test]
async fn only_an_app_that_is_set_up_for_it_exchanges_what_is_for_it() {
    let flow = start().await;
    let (tokens, _) = flow.tokens(&[("scope", SCOPE)]).await;
    let token = access_token(&tokens);
    let form = [("subject_token", token), ("subject_token_type", ACCESS)];
    let project = done(&flow.admin, &format!("{API}/projects"), json!({ "name": "Other" })).await.id();
    let ask = async |app: &App| post_exchange(&flow.admin, app, &form).await;
    let stranger = App::create(&flow.admin, &project, exchanging()).await;
    assert_error("110: of another project", &ask(&stranger).await, 400, "invalid_request");
    let by_id = [("subject_token", id_token(&tokens)), ("subject_token_type", ID)];
    let sibling = App::create(&flow.admin, &flow.project, exchanging()).await;
    assert_error(
        "110: an ID token of another app",
        &post_exchange(&flow.admin, &sibling, &by_id).await,
        400,
        "invalid_request",
    );
    let mut public = exchanging();
    public.as_object_mut().expect("it is one").extend(App::public().as_object().expect("it is one").clone());
    let public = App::create(&flow.admin, &flow.project, public).await;
    let (after, _) = flow.tokens(&[]).await;
    let form = [("subject_token", access_token(&after)), ("subject_token_type", ACCESS)];
    for app in [&sibling, &public] {
        let answer = post_exchange(&flow.admin, app, &form).await;
        assert_eq!(answer.status, StatusCode::OK, "110: of the same project: {}", answer.body);
    }

    let unready = App::create(&flow.admin, &flow.project, json!({})).await;
    assert_error("not set up", &ask(&unready).await, 400, "unauthorized_client");
    let api = json!({ "projectId": flow.project, "name": "API", "api": {} });
    let api = done(&flow.admin, &format!("{API}/apps"), api).await;
    let api = App { id: api.id(), secret: api.body["clientSecret"].as_str().map(str::to_owned) };
    assert_error("an app that nobody logs in to", &ask(&api).await, 400, "unauthorized_client");
    let robot = shop::user(&flow.admin, "robot", "").await;
    let robot = App { id: robot.client_id, secret: Some(robot.client_secret) };
    assert_error("a service user", &ask(&robot).await, 400, "unauthorized_client");
    let wrong = App { secret: Some("wrong".to_owned()), ..flow.app.clone() };
    assert_error("another secret", &ask(&wrong).await, 401, "invalid_client");
    let none = App { secret: None, ..flow.app.clone() };
    assert_error("no secret", &ask(&none).await, 401, "invalid_client");

    let elsewhere = start().await;
    let foreign = exchange(&elsewhere, (token, ACCESS), &[]).await;
    assert_error("118: a token of another tenant", &foreign, 400, "invalid_request");
    assert_error(
        "118: an app of another tenant",
        &post_exchange(&elsewhere.admin, &flow.app, &form).await,
        401,
        "invalid_client",
    );
    set(&flow.admin, "features", "tokenExchange", false).await;
    let off = eventually("it is off", async || {
        let answer = exchange(&flow, (token, ACCESS), &[]).await;
        (answer.status != StatusCode::OK).then_some(answer)
    });
    assert_error("103", &off.await, 400, "unsupported_grant_type");
    let document = send(flow.admin.anonymous(Method::GET, "/.well-known/openid-configuration")).await.body;
    let listed = document["grant_types_supported"].as_array().expect("they are listed");
    assert!(!listed.contains(&json!(EXCHANGE)), "103: {listed:?}");
}

/// Waits until a token is inactive.
pub(super) async fn is_over<T>(flow: &Flow<T>, case: &str, token: &str) {
    eventually(case, async || (introspect(flow, token).await == json!({ "active": false })).then_some(())).await;
    assert_eq!(flow.userinfo(token).await.status, StatusCode::UNAUTHORIZED, "{case}");
}

#[tokio::test]
async fn a_token_ends_with_all_that_it_was_got_for() {
    let flow = start().await;
    let revoke = async |token: &str| {
        let request = flow.admin.anonymous(Method::POST, "/oauth/v2/revoke").form(&[("token", token)]);
        assert_eq!(send(request.basic_auth(&flow.app.id, flow.app.secret.as_ref())).await.status, StatusCode::OK);
    };
    let log_out = async |session: &str| {
        let request = flow.admin.request(Method::DELETE, &format!("{API}/sessions/{session}"));
        assert_eq!(send(request).await.status, StatusCode::OK);
    };
    let lock = async || done(&flow.admin, &format!("{API}/users/{}/_lock", flow.person.0), json!({})).await;
    for case in ["revoked", "its grant revoked", "logged out", "locked"] {
        let (tokens, session) = flow.tokens(&[("scope", "openid offline_access")]).await;
        let (access, id) = (access_token(&tokens), id_token(&tokens));
        let first = exchanged(&flow, (access, ACCESS), &[]).await;
        let second = exchanged(&flow, (access_token(&first), ACCESS), &[("requested_token_type", JWT)]).await;
        let by_id = exchanged(&flow, (id, ID), &[]).await;
        let all = [&first, &second, &by_id].map(access_token);
        for token in all {
            assert_eq!(introspect(&flow, token).await["active"], true, "{case}");
        }
        match case {
            "revoked" => revoke(access).await,
            "its grant revoked" => revoke(refresh_token(&tokens)).await,
            "logged out" => log_out(&session).await,
            _ => drop(lock().await),
        }
        is_over(&flow, &format!("117: {case}"), all[0]).await;
        is_over(&flow, &format!("117: {case}, and what was got for that"), all[1]).await;
        for token in [access, all[0], all[1]] {
            let again = exchange(&flow, (token, ACCESS), &[]).await;
            assert_error(&format!("111, 119: {case}"), &again, 400, "invalid_request");
        }
        let is_login_over = case == "logged out" || case == "locked";
        if is_login_over {
            is_over(&flow, &format!("117: {case}, by an ID token"), all[2]).await;
            assert_error(case, &exchange(&flow, (id, ID), &[]).await, 400, "invalid_request");
        } else {
            assert_eq!(introspect(&flow, all[2]).await["active"], true, "{case}: the login is still there");
            revoke(all[2]).await;
            is_over(&flow, "one that is revoked itself", all[2]).await;
        }
    }
}

#[tokio::test]
async fn no_token_is_good_for_longer_than_what_it_was_got_for() {
    const HOUR: u64 = 3600;
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    let admin = platform.client().await;
    enable(&admin).await;
    let flow = Flow::on((), admin, exchanging()).await;
    let (tokens, _) = flow.tokens(&[]).await;
    clock.set_ahead(Duration::from_secs(11 * HOUR));
    for of in [(access_token(&tokens), ACCESS), (id_token(&tokens), ID)] {
        for requested in [ACCESS, JWT, ID] {
            let got = exchanged(&flow, of, &[("requested_token_type", requested)]).await;
            let left = got["expires_in"].as_u64().expect("it is said");
            assert!((HOUR - 120..=HOUR).contains(&left), "{requested}: {got}");
        }
    }
    clock.set_ahead(Duration::from_secs(12 * HOUR + 60));
    for of in [(access_token(&tokens), ACCESS), (id_token(&tokens), ID)] {
        assert_error("111: expired", &exchange(&flow, of, &[]).await, 400, "invalid_request");
        let actor = [("actor_token", of.0), ("actor_token_type", of.1)];
        let answer = exchange(&flow, (&flow.person.0, USER_ID), &actor).await;
        assert_error("111: an expired actor", &answer, 400, "invalid_request");
        assert!(answer.body["error_description"].as_str().is_some_and(|told| told.contains("actor token")));
    }
}
