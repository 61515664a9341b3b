//! The end of all sessions of a person: what was issued before is refused everywhere, and what comes after works.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, post, send},
    eventually,
};

use super::{
    flow::{API, App, Flow, access_token, person, refresh_token},
    pages::{back, browser, on_pages, title},
    token::assert_error,
};

/// The scopes of an app that calls the platform's API for a person, and stays logged in.
const SCOPE: &str = "openid offline_access urn:platform:iam:org:project:id:platform:aud";

/// Starts an app with a secret and refresh tokens.
async fn start() -> Flow {
    let grants = ["OIDC_GRANT_TYPE_AUTHORIZATION_CODE", "OIDC_GRANT_TYPE_REFRESH_TOKEN"];
    Flow::with(json!({ "responseTypes": ["OIDC_RESPONSE_TYPE_CODE"], "grantTypes": grants })).await
}

/// Logs the person in, and returns the tokens, and the id of the session.
async fn logged_in(flow: &Flow) -> (Value, String) {
    flow.tokens(&[("scope", SCOPE)]).await
}

/// Ends all sessions of a user.
async fn end(client: &Client, user: &str) -> Answer {
    let request = client.request(Method::POST, &format!("{API}/users/{user}/sessions/_end"));
    send(request.header("prefer", "wait=10").json(&json!({}))).await
}

/// Returns whether an access token is valid: at userinfo, at the API, and at introspection.
async fn is_good(flow: &Flow, tokens: &Value) -> [bool; 3] {
    let token = access_token(tokens);
    let secret = flow.app.secret.as_deref();
    let asking = flow.admin.anonymous(Method::POST, "/oauth/v2/introspect").basic_auth(&flow.app.id, secret);
    let told = send(asking.form(&[("token", token)])).await;
    let at_api = send(flow.admin.with(token.to_owned()).request(Method::GET, &format!("{API}/users/1"))).await;
    [
        flow.userinfo(token).await.status == StatusCode::OK,
        at_api.status != StatusCode::UNAUTHORIZED,
        told.body["active"] == true,
    ]
}

/// Waits until a token is invalid everywhere: case 124 of the design.
async fn is_over(flow: &Flow, tokens: &Value) {
    eventually("the token is over", async || (is_good(flow, tokens).await == [false; 3]).then_some(())).await;
}

async fn assert_not_refreshed(flow: &Flow, case: &str, tokens: &Value) {
    assert_error(case, &send(flow.refreshing(refresh_token(tokens), &[])).await, 400, "invalid_grant");
}

#[tokio::test]
async fn what_was_made_before_is_refused_at_every_place_and_what_is_of_others_lives() {
    let mut flow = start().await;
    let first = flow.person.clone();
    flow.person = person(&flow.admin).await;
    let (others, _) = logged_in(&flow).await;
    flow.person = first;
    let (tokens, _) = logged_in(&flow).await;
    let (more, session) = logged_in(&flow).await;
    let (answer, _) = flow.log_in(&[("scope", SCOPE)]).await;
    let (id, token) = flow.session().await;
    let [request, control] = [flow.waiting(&[]).await, flow.waiting(&[]).await];
    let finished = flow.finished(&control, &token).await;
    assert_eq!(finished.status, StatusCode::OK, "{}", finished.body);
    for tokens in [&tokens, &more, &others] {
        assert_eq!(is_good(&flow, tokens).await, [true; 3]);
    }

    let ended = end(&flow.admin, &flow.person.0).await;
    assert_eq!((ended.status, ended.id()), (StatusCode::OK, flow.person.0.clone()), "{}", ended.body);
    assert_not_refreshed(&flow, "by the node that writes", &more).await;
    let changed = json!({ "metadata": { "a": "b" }, "sessionToken": token });
    let path = format!("{API}/sessions/{id}");
    let changed = send(flow.admin.request(Method::PATCH, &path).json(&changed)).await;
    changed.assert_refused("with its token", 404, "RESOURCE_NOT_FOUND");
    is_over(&flow, &tokens).await;
    is_over(&flow, &more).await;
    assert_not_refreshed(&flow, "the other one", &tokens).await;
    assert_error("a code", &send(flow.redeeming(&answer["code"], &[])).await, 400, "invalid_grant");
    let refused = flow.finished(&request, &token).await;
    refused.assert_refused("an app is not let in by it", 400, "INVALID_REQUEST");
    let rule = "must be the newest token of a session that has not ended";
    assert!(refused.body.to_string().contains(rule), "{}", refused.body);
    for id in [&session, &id] {
        let read = send(flow.admin.request(Method::GET, &format!("{API}/sessions/{id}"))).await;
        assert_eq!(read.status, StatusCode::NOT_FOUND, "{}", read.body);
    }
    let found = async || {
        let of_user = json!([{ "userId": flow.person.0 }]);
        post(&flow.admin, &format!("{API}/sessions/_search"), of_user).await.body["details"]["totalResult"].clone()
    };
    eventually("they are removed", async || (found().await == "0").then_some(())).await;

    assert_eq!(is_good(&flow, &others).await, [true; 3], "another person goes on");
    flow.refreshed(refresh_token(&others)).await;
    let (again, _) = logged_in(&flow).await;
    assert_eq!(is_good(&flow, &again).await, [true; 3], "who logs in again is let in");
    flow.refreshed(refresh_token(&again)).await;
    assert_eq!(found().await, "1");
}

#[tokio::test]
async fn people_end_their_own_and_those_who_may_end_those_of_others_once_for_each_request() {
    let mut flow = start().await;
    let me = flow.person.0.clone();
    let (tokens, _) = logged_in(&flow).await;
    let own = flow.admin.with(access_token(&tokens).to_owned());
    let other = person(&flow.admin).await;
    end(&own, &other.0).await.assert_refused("of another", 404, "RESOURCE_NOT_FOUND");
    assert_eq!(end(&own, &me).await.status, StatusCode::OK, "its own");
    is_over(&flow, &tokens).await;

    let path = format!("{API}/users/{me}/sessions/_end");
    let keyed = || flow.admin.request(Method::POST, &path).header("idempotency-key", "all-of-them").json(&json!({}));
    let first = send(keyed()).await;
    assert_eq!(first.status, StatusCode::OK, "{}", first.body);
    let (tokens, _) = logged_in(&flow).await;
    let replayed = send(keyed()).await;
    assert_eq!((replayed.status, &replayed.body), (StatusCode::OK, &first.body));
    assert_eq!(replayed.headers["idempotency-replayed"], "true");
    assert_eq!(is_good(&flow, &tokens).await, [true; 3], "what came between lives");

    end(&flow.admin, "117486514211913731").await.assert_refused("of nobody", 404, "RESOURCE_NOT_FOUND");
    let service = json!({ "username": "robot", "service": {} });
    let service = post(&flow.admin, &format!("{API}/users"), service).await.id();
    end(&flow.admin, &service).await.assert_refused("of a program", 400, "PRECONDITION_FAILED");
    flow.person = other;
    logged_in(&flow).await;
}

#[tokio::test]
async fn whoever_signs_out_everywhere_on_a_page_is_signed_out_in_other_browsers_too() {
    let mut flow = start().await;
    flow.app = App::create(&flow.admin, &flow.project, on_pages(&App::public())).await;
    let [mut here, mut there, mut others] = [(); 3].map(|()| browser(&flow.tenant));
    let other = person(&flow.admin).await;
    back(&flow.logs_in(&mut here, &flow.person.1, &[]).await);
    back(&flow.logs_in(&mut there, &flow.person.1, &[]).await);
    back(&flow.logs_in(&mut others, &other.1, &[]).await);
    back(&flow.sent_by(&mut there, &[("prompt", "none")]).await).remove("code").expect("it is logged in");
    let shown = here.get("/ui/logout").await;
    assert!(shown.text.contains("Sign out everywhere"), "{}", shown.text);
    assert!(shown.text.contains("ends the sessions of all these accounts on every device"), "{}", shown.text);
    let mut forged = shown.form(&[("everywhere", "true")]);
    forged[0].1 = "x".to_owned();
    here.post("/ui/logout", &forged).await;
    back(&flow.sent_by(&mut there, &[("prompt", "none")]).await).remove("code").expect("nobody asked for it");
    let out = here.post("/ui/logout", &shown.form(&[("everywhere", "true")])).await;
    assert_eq!((out.status, title(&out)), (StatusCode::OK, "You are signed out"));
    for browser in [&mut here, &mut there] {
        let none = flow.sent_by(browser, &[("prompt", "none")]).await;
        assert_eq!(back(&none)["error"], "login_required");
    }
    back(&flow.sent_by(&mut others, &[("prompt", "none")]).await).remove("code").expect("another person goes on");
    back(&flow.logs_in(&mut there, &flow.person.1, &[]).await).remove("code").expect("it is let in again");
}
