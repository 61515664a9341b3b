//! Codes: who gets tokens for one, and how those end. The numbers are those of the cases of the design.

use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Client, TARGETS, done, post, send},
    eventually,
    tenant::Tenant,
};

use super::{
    flow::{API, App, Flow, PASSWORD, access_token, answered, other_verifier},
    token::{assert_error, parts},
};

/// Introspects a token as an app of the project.
async fn introspected(flow: &Flow, token: &str) -> Value {
    let app = json!({ "projectId": flow.project, "name": "Checks", "api": {} });
    let app = done(&flow.admin, &format!("{API}/apps"), app).await;
    let request = flow.admin.anonymous(Method::POST, "/oauth/v2/introspect");
    let request = request.basic_auth(app.id(), app.body["clientSecret"].as_str());
    send(request.form(&[("token", token)])).await.body
}

/// Waits until a token is not valid any more: another node would hear of it as late.
async fn is_over(flow: &Flow, token: &str) {
    eventually("the token is over", async || {
        let answer = flow.userinfo(token).await;
        (answer.status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    assert_eq!(introspected(flow, token).await, json!({ "active": false }));
}

#[tokio::test]
async fn an_app_gets_tokens_that_say_who_has_logged_in_and_how() {
    let mut settings = App::public();
    settings["accessTokenType"] = json!("OIDC_TOKEN_TYPE_JWT");
    let flow = Flow::with(settings).await;
    let (answer, session) = flow.log_in(&[]).await;
    assert_eq!((answer["state"].as_str(), &answer["iss"]), ("a b&c", &flow.tenant.bootstrap.issuer));
    let tokens = flow.redeemed(&answer["code"]).await;
    assert_eq!((&tokens["token_type"], &tokens["scope"]), (&json!("Bearer"), &json!("openid profile email")));
    assert_eq!(tokens.get("refresh_token"), None);
    let [header, claims] = parts(tokens["id_token"].as_str().unwrap());
    assert_eq!(header["alg"], "RS256");
    for (claim, value) in [
        ("iss", json!(flow.tenant.bootstrap.issuer)),
        ("sub", json!(flow.person.0)),
        ("aud", json!([flow.app.id])),
        ("azp", json!(flow.app.id)),
        ("nonce", json!("n-0S6_WzA2Mj")),
        ("amr", json!(["pwd"])),
        ("sid", json!(session)),
        ("email", Value::Null),
    ] {
        assert_eq!(claims[claim], value, "{claim}: {claims}");
    }
    let age = claims["iat"].as_i64().unwrap() - claims["auth_time"].as_i64().unwrap();
    assert!((0..60).contains(&age), "{claims}");
    let [header, claims] = parts(access_token(&tokens));
    assert_eq!((&header["typ"], &claims["sub"]), (&json!("at+jwt"), &json!(flow.person.0)));
    assert_eq!(claims["aud"], json!([flow.app.id, flow.project]));
    assert_eq!((&claims["client_id"], &claims["sid"]), (&json!(flow.app.id), &json!(session)));

    let said = flow.userinfo(access_token(&tokens)).await;
    assert_eq!((said.status.as_u16(), said.headers["cache-control"].as_bytes()), (200, &b"no-store"[..]));
    let email = format!("{}@example.com", flow.person.1);
    for (claim, value) in [
        ("sub", json!(flow.person.0)),
        ("name", json!("Radia Perlman")),
        ("given_name", json!("Radia")),
        ("preferred_username", json!(flow.person.1)),
        ("email", json!(email)),
        ("email_verified", json!(false)),
        ("phone_number", Value::Null),
    ] {
        assert_eq!(said.body[claim], value, "{claim}: {}", said.body);
    }
    let told = introspected(&flow, access_token(&tokens)).await;
    assert_eq!((&told["active"], &told["sub"]), (&json!(true), &json!(flow.person.0)), "{told}");
    assert_eq!((&told["email"], told.get("phone_number")), (&json!(email), None), "what its scopes ask for: {told}");
}

#[tokio::test]
async fn a_code_is_for_its_app_its_redirect_uri_and_its_verifier() {
    let flow = Flow::start().await;
    let other = App::create(&flow.admin, &flow.project, App::public()).await;
    let secret = App::create(&flow.admin, &flow.project, json!({})).await;
    let (answer, _) = flow.log_in(&[]).await;
    let code = &answer["code"];
    let (mangled, wrong) = (format!("{}x", &code[..code.len() - 1]), other_verifier());
    let (invalid, request) = ("invalid_grant", "invalid_request");
    for (case, others, status, error) in [
        ("no code", vec![("code", "")], 400, request),
        ("no redirect URI", vec![("redirect_uri", "")], 400, request),
        ("68: another code", vec![("code", mangled.as_str())], 400, invalid),
        ("68: no code at all", vec![("code", "1-2-3")], 400, invalid),
        ("60: another redirect URI", vec![("redirect_uri", "https://shop.example/callback/")], 400, invalid),
        ("61: no verifier", vec![("code_verifier", "")], 400, invalid),
        ("another verifier", vec![("code_verifier", &wrong)], 400, invalid),
        ("the challenge", vec![("code_verifier", "uC8t3tYrRhq98opj0OkaY1aV6Ygq-Gh1xef_eAuTL34")], 400, invalid),
        ("58: another client", vec![("client_id", &other.id)], 400, invalid),
        ("one that must authenticate", vec![("client_id", &secret.id)], 401, "invalid_client"),
        ("nobody", vec![("client_id", "1")], 401, "invalid_client"),
        ("a secret that is none", vec![("client_secret", "x")], 401, "invalid_client"),
    ] {
        assert_error(case, &send(flow.redeeming(code, &others)).await, status, error);
    }
    flow.redeemed(code).await;

    let flow = Flow { app: secret, ..flow };
    let none = [("code_challenge", ""), ("code_challenge_method", "")];
    let (answer, _) = flow.log_in(&none).await;
    let refused = send(flow.redeeming(&answer["code"], &[])).await;
    assert_error("62: a verifier without a challenge", &refused, 400, "invalid_grant");
    let right = send(flow.redeeming(&answer["code"], &[("code_verifier", "")])).await;
    assert_eq!(right.status, StatusCode::OK, "{}", right.body);
}

#[tokio::test]
async fn an_app_that_gives_its_secret_up_needs_a_challenge() {
    let flow = Flow::with(json!({})).await;
    let none = [("code_challenge", ""), ("code_challenge_method", "")];
    let (plain, _) = flow.log_in(&none).await;
    let (challenged, _) = flow.log_in(&[]).await;
    let public = json!({ "oidc": { "authMethodType": "OIDC_AUTH_METHOD_TYPE_NONE" } });
    let patched = send(flow.admin.request(Method::PATCH, &format!("{API}/apps/{}", flow.app.id)).json(&public)).await;
    assert_eq!(patched.status, StatusCode::OK, "{}", patched.body);
    let flow = Flow { app: App { secret: None, ..flow.app.clone() }, ..flow };
    let refused = eventually("the app is known without a secret", async || {
        let answer = send(flow.redeeming(&plain["code"], &[("code_verifier", "")])).await;
        (answer.status != StatusCode::UNAUTHORIZED).then_some(answer)
    })
    .await;
    assert_error("61: an app without a secret and without a verifier", &refused, 400, "invalid_grant");
    flow.redeemed(&challenged["code"]).await;
}

#[tokio::test]
async fn an_app_authenticates_as_it_is_set_up_to() {
    let flow = Flow::with(json!({})).await;
    let (id, secret) = (flow.app.id.clone(), flow.app.secret.clone().expect("it has one"));
    let (answer, _) = flow.log_in(&[]).await;
    let wrong = [("client_id", id.as_str()), ("client_secret", "wrong")];
    assert_error("a wrong secret", &send(flow.redeeming(&answer["code"], &wrong)).await, 401, "invalid_client");
    let named = [("client_id", id.as_str())];
    assert_error("none", &send(flow.redeeming(&answer["code"], &named)).await, 401, "invalid_client");
    let posted = [("client_id", id.as_str()), ("client_secret", &secret)];
    let tokens = send(flow.redeeming(&answer["code"], &posted)).await;
    assert_eq!(tokens.status, StatusCode::OK, "a form is as good as a header: {}", tokens.body);
    let revoke = flow.admin.anonymous(Method::POST, "/oauth/v2/revoke").basic_auth(&id, Some(&secret));
    assert_eq!(send(revoke.form(&[("token", access_token(&tokens.body))])).await.status, StatusCode::OK);
    is_over(&flow, access_token(&tokens.body)).await;

    let none = json!({ "responseTypes": [], "grantTypes": ["OIDC_GRANT_TYPE_DEVICE_CODE"] });
    let flow = Flow { app: App::create(&flow.admin, &flow.project, none).await, ..flow };
    let told = answered(&super::flow::location(&flow.sent(&flow.authorize_parameters(&[])).await));
    assert_eq!(told["error"], "unauthorized_client", "4");
}

#[tokio::test]
async fn of_many_at_once_one_gets_tokens_and_whoever_comes_later_ends_them() {
    let flow = Flow::start().await;
    let (answer, _) = flow.log_in(&[]).await;
    let code = &answer["code"];
    let all = join_all((0..8).map(|_| send(flow.redeeming(code, &[])))).await;
    let got: Vec<_> = all.iter().filter(|answer| answer.status == StatusCode::OK).collect();
    assert_eq!(got.len(), 1, "{:?}", all.iter().map(|answer| &answer.body).collect::<Vec<_>>());
    for refused in all.iter().filter(|answer| answer.status != StatusCode::OK) {
        assert_error("a race", refused, 400, "invalid_grant");
    }

    let (answer, _) = flow.log_in(&[]).await;
    let tokens = flow.redeemed(&answer["code"]).await;
    let stolen = send(flow.redeeming(&answer["code"], &[("code_verifier", &other_verifier())])).await;
    assert_error("somebody who has the code only", &stolen, 400, "invalid_grant");
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::OK, "ends nothing by it");
    let again = send(flow.redeeming(&answer["code"], &[])).await;
    assert_error("used again", &again, 400, "invalid_grant");
    is_over(&flow, access_token(&tokens)).await;
}

#[tokio::test]
async fn tokens_end_with_the_session_the_user_and_the_app() {
    let flow = Flow::start().await;
    let (tokens, session) = flow.tokens(&[]).await;
    let (other, _) = flow.tokens(&[]).await;
    let ended = send(flow.admin.request(Method::DELETE, &format!("{API}/sessions/{session}"))).await;
    assert_eq!(ended.status, StatusCode::OK);
    is_over(&flow, access_token(&tokens)).await;
    assert_eq!(flow.userinfo(access_token(&other)).await.status, StatusCode::OK, "another session");
    for (path, status, error) in [
        (format!("{API}/apps/{}", flow.app.id), 401, "invalid_client"),
        (format!("{API}/projects/{}", flow.project), 401, "invalid_client"),
        (format!("{API}/users/{}", flow.person.0), 400, "invalid_grant"),
    ] {
        let (tokens, _) = flow.tokens(&[]).await;
        let (answer, _) = flow.log_in(&[]).await;
        done(&flow.admin, &format!("{path}/_deactivate"), json!({})).await;
        eventually("the token is over", async || {
            (flow.userinfo(access_token(&tokens)).await.status == StatusCode::UNAUTHORIZED).then_some(())
        })
        .await;
        let refused = send(flow.redeeming(&answer["code"], &[])).await;
        assert_error(&path, &refused, status, error);
        flow.switch_on(&path).await;
        assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn a_session_must_be_enough_for_what_the_app_asks() {
    let flow = Flow::start().await;
    let sessions = format!("{API}/sessions");
    let (id, token) = flow.session().await;
    let request = flow.waiting(&[]).await;
    let of = async |body: Value| {
        let made = post(&flow.admin, &sessions, body).await;
        made.body["sessionToken"].as_str().expect("a session").to_owned()
    };
    let user = json!({ "user": { "userId": flow.person.0 } });
    let unchecked = [of(json!({})).await, of(json!({ "checks": user })).await];
    for token in unchecked {
        flow.finished(&request, &token).await.assert_refused("unchecked", 400, "PRECONDITION_FAILED");
    }
    for token in ["x", "sess-1-x", &token[..token.len() - 1]] {
        flow.finished(&request, token).await.assert_refused("no session", 400, "INVALID_REQUEST");
    }
    let entry = json!({ "metadata": { "a": "b" }, "sessionToken": token });
    let changed = send(flow.admin.request(Method::PATCH, &format!("{sessions}/{id}")).json(&entry)).await;
    flow.finished(&request, &token).await.assert_refused("an old token", 400, "INVALID_REQUEST");
    let token = changed.body["sessionToken"].as_str().expect("another one").to_owned();
    for others in [[("prompt", "login")], [("max_age", "0")]] {
        let fresh = flow.waiting(&others).await;
        flow.finished(&fresh, &token).await.assert_refused("31, 34: too old", 400, "PRECONDITION_FAILED");
        assert_eq!(flow.finished(&fresh, &flow.session().await.1).await.status, 200);
    }
    let lately = flow.waiting(&[("max_age", "10000")]).await;
    assert_eq!(flow.finished(&lately, &token).await.status, 200, "34: it is not too old");
    let other = done(&flow.admin, &format!("{API}/organizations"), json!({ "name": "Other" })).await.id();
    let elsewhere = flow.waiting(&[("scope", &format!("openid urn:platform:iam:org:id:{other}"))]).await;
    flow.finished(&elsewhere, &token).await.assert_refused("51: organization", 400, "PRECONDITION_FAILED");
    assert_eq!(flow.finished(&request, &token).await.status, 200);

    let policy = json!({ "authorizationRequired": true });
    let path = format!("{API}/projects/{}", flow.project);
    send(flow.admin.request(Method::PATCH, &path).header("prefer", "wait=10").json(&policy)).await;
    eventually("the project admits nobody who was not granted it", async || {
        let answer = flow.finished(&flow.waiting(&[]).await, &token).await;
        (answer.reason() == "PRECONDITION_FAILED").then_some(())
    })
    .await;
    let request = flow.waiting(&[]).await;
    let gone = send(flow.admin.request(Method::DELETE, &format!("{sessions}/{id}"))).await;
    assert_eq!(gone.status, 200);
    flow.finished(&request, &token).await.assert_refused("50: ended", 400, "INVALID_REQUEST");
}

#[tokio::test]
async fn another_password_must_be_checked_anew() {
    let flow = Flow::start().await;
    let (_, token) = flow.session().await;
    let path = format!("{API}/users/{}/password", flow.person.0);
    done(&flow.admin, &path, json!({ "newPassword": "eight-lives-of-a-manx-cat" })).await;
    let request = flow.waiting(&[]).await;
    let refused = eventually("the password is another one", async || {
        let answer = flow.finished(&flow.waiting(&[]).await, &token).await;
        (answer.status != StatusCode::OK).then_some(answer)
    });
    refused.await.assert_refused("of before", 400, "PRECONDITION_FAILED");
    let temporary = json!({ "newPassword": PASSWORD, "changeRequired": true });
    done(&flow.admin, &path, temporary).await;
    let answer = flow.finished(&request, &flow.session().await.1).await;
    answer.assert_refused("another one must be chosen", 400, "PRECONDITION_FAILED");
    assert!(answer.body["message"].as_str().is_some_and(|told| told.contains("choose another")), "{}", answer.body);
}

#[tokio::test]
async fn an_app_of_another_organization_gets_no_token_for_the_api() {
    let flow = Flow::start().await;
    let acme = done(&flow.admin, &format!("{API}/organizations"), json!({ "name": "Acme" })).await.id();
    let project = json!({ "name": "Theirs" });
    let project = done(&flow.admin, &format!("{API}/projects?ctx.orgId={acme}"), project).await.id();
    let app = App::create(&flow.admin, &project, App::public()).await;
    let flow = Flow { app, ..flow };
    let scope = "openid urn:platform:iam:org:project:id:platform:aud";
    let (tokens, _) = flow.tokens(&[("scope", scope)]).await;
    assert_eq!(tokens["scope"], "openid");
    let api = send(flow.admin.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(access_token(&tokens))).await;
    assert_eq!(api.status, StatusCode::UNAUTHORIZED, "{}", api.body);
}

#[tokio::test]
async fn a_request_has_one_name_and_is_for_the_app_as_it_is_now() {
    let flow = Flow::start().await;
    let request = flow.waiting(&[]).await;
    let (_, token) = flow.session().await;
    let other = flow.finished(&format!("0{request}"), &token).await;
    other.assert_refused("written in another way", 404, "RESOURCE_NOT_FOUND");
    let elsewhere = json!({ "oidc": { "redirectUris": { "values": ["https://shop.example/other"] } } });
    let app = flow.admin.request(Method::PATCH, &format!("{API}/apps/{}", flow.app.id)).header("prefer", "wait=10");
    assert_eq!(send(app.json(&elsewhere)).await.status, StatusCode::OK);
    let path = format!("{API}/auth_requests/{request}");
    let gone = eventually("the URI is not registered any more", async || {
        let answer = send(flow.admin.request(Method::GET, &path)).await;
        (answer.status != StatusCode::OK).then_some(answer)
    });
    gone.await.assert_refused("its URI is gone", 404, "RESOURCE_NOT_FOUND");
    flow.finished(&request, &token).await.assert_refused("its URI is gone", 404, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn a_login_page_can_refuse_and_needs_the_permission() {
    let flow = Flow::start().await;
    let request = flow.waiting(&[]).await;
    let path = format!("{API}/auth_requests/{request}/_refuse");
    let no = json!({ "error": "AUTH_ERROR_ACCESS_DENIED", "description": "the person says no" });
    let (_, token) = flow.session().await;
    let nobody = flow.tenant.client_named("nobody").await;
    for (case, answer) in [
        (
            "finishing",
            post(&nobody, &format!("{API}/auth_requests/{request}/_finish"), json!({ "sessionToken": token })).await,
        ),
        ("refusing", post(&nobody, &path, no.clone()).await),
        ("reading", send(nobody.request(Method::GET, &format!("{API}/auth_requests/{request}"))).await),
    ] {
        answer.assert_refused(case, 403, "PERMISSION_DENIED");
    }
    let other = Tenant::start().await.client().await;
    other_instance(&other, &request, &token).await;
    post(&flow.admin, &path, json!({})).await.assert_refused("without a reason", 400, "INVALID_REQUEST");
    let answer = post(&flow.admin, &path, no.clone()).await;
    let told = answered(answer.body["callbackUrl"].as_str().unwrap_or_else(|| panic!("{}", answer.body)));
    assert_eq!(
        (told["error"].as_str(), told["error_description"].as_str()),
        ("access_denied", "the person says no"),
        "49"
    );
    assert_eq!((told["state"].as_str(), &told["iss"]), ("a b&c", &flow.tenant.bootstrap.issuer));
    post(&flow.admin, &path, no).await.assert_refused("twice", 404, "RESOURCE_NOT_FOUND");
    flow.finished(&request, &token).await.assert_refused("after that", 404, "RESOURCE_NOT_FOUND");
    assert!(!told.contains_key("code"), "{told:?}");
}

/// Checks that another instance does not find a request.
async fn other_instance(client: &Client, request: &str, token: &str) {
    let path = format!("{API}/auth_requests/{request}");
    send(client.request(Method::GET, &path)).await.assert_refused("another instance", 404, "RESOURCE_NOT_FOUND");
    let finish = post(client, &format!("{path}/_finish"), json!({ "sessionToken": token })).await;
    finish.assert_refused("another instance", 404, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn userinfo_takes_valid_tokens_and_the_api_those_that_are_for_it() {
    let flow = Flow::start().await;
    let scope = "openid urn:platform:iam:org:project:id:platform:aud urn:platform:iam:user:resourceowner phone";
    let (tokens, _) = flow.tokens(&[("scope", scope)]).await;
    let token = access_token(&tokens);
    let said = flow.userinfo(token).await.body;
    assert_eq!(said["phone_number"], "+15550001234", "{said}");
    assert!(said.get("urn:platform:iam:user:resourceowner:id").is_some() && said.get("email").is_none(), "{said}");
    let path = "/oidc/v1/userinfo";
    let posted = send(flow.admin.anonymous(Method::POST, path).form(&[("access_token", token)])).await;
    assert_eq!(posted.body["sub"], json!(flow.person.0));
    for (case, request, status, challenge) in [
        ("nothing", flow.admin.anonymous(Method::GET, path), 401, "Bearer"),
        ("no token", flow.admin.anonymous(Method::GET, path).bearer_auth("x"), 401, "invalid_token"),
        (
            "cut off",
            flow.admin.anonymous(Method::GET, path).bearer_auth(&token[..token.len() - 2]),
            401,
            "invalid_token",
        ),
        ("basic", flow.admin.anonymous(Method::GET, path).basic_auth("a", Some("b")), 401, "Bearer"),
    ] {
        let answer = send(request).await;
        assert_eq!(answer.status.as_u16(), status, "{case}: {}", answer.body);
        let header = answer.headers["www-authenticate"].to_str().unwrap();
        assert!(header.starts_with("Bearer") && header.contains(challenge), "{case}: {header}");
    }
    let twice = flow.admin.anonymous(Method::POST, path).bearer_auth(token).form(&[("access_token", token)]);
    assert_error("in two ways", &send(twice).await, 400, "invalid_request");
    let other = Tenant::start().await.client().await;
    let elsewhere = send(other.anonymous(Method::GET, path).bearer_auth(token)).await;
    assert_eq!(elsewhere.status, StatusCode::UNAUTHORIZED, "a token of another instance");
    // Nobody was found who may this, and not that the token is none.
    let api = send(flow.admin.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token)).await;
    api.assert_refused("a person without roles", 403, "PERMISSION_DENIED");
    done(&flow.admin, &format!("{API}/apps/{}/_deactivate", flow.app.id), json!({})).await;
    let api = send(flow.admin.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token)).await;
    api.assert_refused("an app that is off", 401, "TOKEN_INVALID");
}
