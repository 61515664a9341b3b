//! Login clients: who may finish authorization requests, with what, and how often. The numbers are those of the cases
//! of the design.

use futures::future::join_all;
use jiff::Timestamp;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, done, post, send, service_user},
    eventually,
    tenant::new_name,
};

use super::flow::{API, CALLBACK, Flow, PASSWORD, VERIFIER, answered, challenge};

fn path(request: &str) -> String {
    format!("{API}/auth_requests/{request}")
}

async fn read(client: &Client, request: &str) -> Answer {
    send(client.request(Method::GET, &path(request))).await
}

async fn refused(client: &Client, request: &str, refusal: Value) -> Answer {
    post(client, &format!("{}/_refuse", path(request)), refusal).await
}

/// Returns the URL that answers the app.
fn callback(answer: &Answer) -> &str {
    answer.body["callbackUrl"].as_str().unwrap_or_else(|| panic!("it is ended: {}", answer.body))
}

#[tokio::test]
async fn a_login_client_reads_and_ends_requests_and_a_viewer_does_not() {
    let flow = Flow::start().await;
    let user = service_user(&flow.admin, (&new_name(), json!({})), "").await;
    let role = json!({ "userId": user.user_id, "roles": ["IAM_LOGIN_CLIENT"] });
    done(&flow.admin, &format!("{API}/memberships"), role).await;
    let client = Client::log_in(&flow.tenant.bootstrap.issuer, &user).await;
    let request = flow.waiting(&[]).await;
    let shown = eventually("its role is known", async || {
        let answer = read(&client, &request).await;
        (answer.status == StatusCode::OK).then_some(answer.body)
    })
    .await;
    assert_eq!(shown["authRequest"]["appName"], "Shop", "{shown}");
    let viewer = flow.tenant.client_named("viewer").await;
    read(&viewer, &request).await.assert_refused("a viewer", 403, "PERMISSION_DENIED");
    let anonymous = send(client.anonymous(Method::GET, &path(&request))).await;
    assert_eq!(anonymous.status, StatusCode::UNAUTHORIZED, "{}", anonymous.body);

    let checks = json!({ "user": { "userId": flow.person.0 }, "password": { "password": PASSWORD } });
    let session = post(&client, &format!("{API}/sessions"), json!({ "checks": checks })).await;
    let finish = json!({ "sessionToken": session.body["sessionToken"] });
    let finished = post(&client, &format!("{}/_finish", path(&request)), finish).await;
    flow.redeemed(&answered(callback(&finished))["code"]).await;
    let second = flow.waiting(&[]).await;
    let answer = refused(&client, &second, json!({ "error": "AUTH_ERROR_ACCESS_DENIED" })).await;
    assert_eq!(answered(callback(&answer))["error"], "access_denied", "49");
}

#[tokio::test]
async fn a_request_is_ended_once_however_many_do_so() {
    let flow = Flow::start().await;
    let (_, token) = flow.session().await;
    let request = flow.waiting(&[]).await;
    let all = join_all((0..8).map(|_| flow.finished(&request, &token))).await;
    let got: Vec<_> = all.iter().filter(|answer| answer.status == StatusCode::OK).collect();
    assert_eq!(got.len(), 1, "48: {:?}", all.iter().map(|answer| &answer.body).collect::<Vec<_>>());
    for other in all.iter().filter(|answer| answer.status != StatusCode::OK) {
        other.assert_refused("48: another one was first", 404, "RESOURCE_NOT_FOUND");
    }
    flow.redeemed(&answered(callback(got[0]))["code"]).await;

    for round in 0..4 {
        let request = flow.waiting(&[]).await;
        let no = json!({ "error": "AUTH_ERROR_ACCESS_DENIED" });
        let (yes, no) = tokio::join!(flow.finished(&request, &token), refused(&flow.admin, &request, no));
        let ended = [&yes, &no].map(|answer| usize::from(answer.status == StatusCode::OK));
        assert_eq!(ended.iter().sum::<usize>(), 1, "{round}: {} {}", yes.body, no.body);
        read(&flow.admin, &request).await.assert_refused("it is over", 404, "RESOURCE_NOT_FOUND");
    }
}

#[tokio::test]
async fn an_app_is_told_why_it_was_refused() {
    let flow = Flow::start().await;
    for error in [
        "access_denied",
        "login_required",
        "interaction_required",
        "account_selection_required",
        "consent_required",
        "server_error",
        "temporarily_unavailable",
    ] {
        let request = flow.waiting(&[("state", "")]).await;
        let name = format!("AUTH_ERROR_{}", error.to_uppercase());
        let answer = refused(&flow.admin, &request, json!({ "error": name })).await;
        let url = callback(&answer);
        assert!(url.starts_with(&format!("{CALLBACK}?error={error}&")), "44: {url}");
        let told = answered(url);
        assert_eq!(told["iss"], flow.tenant.bootstrap.issuer, "44");
        assert!(["state", "error_description", "code"].iter().all(|name| !told.contains_key(*name)), "20: {url}");
    }
    let request = flow.waiting(&[("response_mode", "fragment")]).await;
    for (case, refusal) in [
        ("unspecified", json!({ "error": "AUTH_ERROR_UNSPECIFIED" })),
        ("unknown", json!({ "error": "AUTH_ERROR_BAD_MOOD" })),
        ("a new line", json!({ "error": "AUTH_ERROR_ACCESS_DENIED", "description": "a\r\nb" })),
        ("too long", json!({ "error": "AUTH_ERROR_ACCESS_DENIED", "description": "a".repeat(201) })),
    ] {
        refused(&flow.admin, &request, refusal).await.assert_refused(case, 400, "INVALID_REQUEST");
    }
    let no = json!({ "error": "AUTH_ERROR_ACCESS_DENIED", "description": "not today & not tomorrow" });
    let answer = refused(&flow.admin, &request, no).await;
    let url = callback(&answer);
    assert!(url.starts_with(&format!("{CALLBACK}#error=access_denied&")), "{url}");
    let told = answered(url);
    assert_eq!((&*told["error_description"], &*told["state"]), ("not today & not tomorrow", "a b&c"), "{url}");
}

#[tokio::test]
async fn a_login_page_is_told_what_the_app_asks_for() {
    let flow = Flow::start().await;
    let organization = &flow.tenant.bootstrap.organization_id;
    let scope = format!("openid urn:platform:iam:org:id:{organization}");
    let others = [("scope", scope.as_str()), ("prompt", "select_account consent"), ("max_age", "0")];
    let request = flow.waiting(&others).await;
    let answer = read(&flow.admin, &request).await;
    let shown = &answer.body["authRequest"];
    assert_eq!(shown["organizationId"], json!(organization), "51: {shown}");
    assert_eq!(shown["prompts"], json!(["select_account", "consent"]), "32");
    let at = |name: &str| -> Timestamp {
        let text = shown[name].as_str().unwrap_or_else(|| panic!("it says {name}: {shown}"));
        text.parse().expect("it is a time")
    };
    let waits = at("expirationDate").duration_since(at("creationDate"));
    assert_eq!(waits.as_hours(), 1, "{shown}");
    for secret in [challenge(VERIFIER).as_str(), "n-0S6_WzA2Mj", "a b&c"] {
        assert!(!answer.body.to_string().contains(secret), "{secret} is between the app and the platform: {shown}");
    }
    let (_, token) = flow.session().await;
    let finished = flow.finished(&request, &token).await;
    let tokens = flow.redeemed(&answered(callback(&finished))["code"]).await;
    assert_eq!(tokens["scope"], json!(scope), "51");

    let request = flow.waiting(&[]).await;
    let plain = read(&flow.admin, &request).await.body["authRequest"].take();
    for name in ["organizationId", "prompts", "maxAge", "loginHint", "uiLocales", "hintUserId"] {
        assert_eq!(plain.get(name), None, "{name}: {plain}");
    }
    let last = if request.ends_with('x') { "y" } else { "x" };
    let changed = format!("{}{last}", &request[..request.len() - 1]);
    let (number, random) = request.split_once('-').expect("it has two parts");
    for id in [changed.as_str(), number, random, "1", "0-x", "1-aaaaaaaaaaaaaaaaaaaaaa"] {
        read(&flow.admin, id).await.assert_refused(id, 404, "RESOURCE_NOT_FOUND");
    }
}
