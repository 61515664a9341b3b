//! The origins from which an app's tokens can be used at the API: its own, and the platform's.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, SCOPE, TARGETS, done, send},
    eventually,
};

use super::flow::{API, App, Flow, access_token};

/// The origin of the redirect URI of the app.
const OWN: &str = "https://shop.example";

/// Starts an app, with an access token for the API of a person who may read.
async fn start() -> (Flow, String) {
    let flow = Flow::with(App::public()).await;
    let role = json!({ "userId": flow.person.0, "roles": ["IAM_OWNER_VIEWER"] });
    done(&flow.admin, &format!("{API}/memberships"), role).await;
    let (tokens, _) = flow.tokens(&[("scope", SCOPE)]).await;
    let token = access_token(&tokens).to_owned();
    eventually("the role is known", async || (read(&flow, &token, &[]).await.status == 200).then_some(())).await;
    (flow, token)
}

async fn read(flow: &Flow, token: &str, origins: &[&str]) -> Answer {
    let request = flow.admin.anonymous(Method::POST, &format!("{TARGETS}/_search")).bearer_auth(token).json(&json!([]));
    send(origins.iter().fold(request, |request, origin| request.header("origin", *origin))).await
}

#[tokio::test]
async fn only_pages_of_the_app_use_the_api_with_its_tokens() {
    let (flow, token) = start().await;
    let issuer = flow.tenant.bootstrap.issuer.clone();
    for origin in [OWN, &issuer] {
        let answer = read(&flow, &token, &[origin]).await;
        assert_eq!(answer.status, StatusCode::OK, "{origin}: {}", answer.body);
        assert_eq!(answer.headers["access-control-allow-origin"], origin);
    }
    for origin in [
        "null",
        "",
        "https://evil.example",
        "http://shop.example",
        "https://shop.example:8443",
        "https://login.example",
    ] {
        let answer = read(&flow, &token, &[origin]).await;
        answer.assert_refused(origin, 403, "ORIGIN_NOT_ALLOWED");
        let is_read = answer.headers.contains_key("access-control-allow-origin");
        assert!(!is_read, "{origin}: no page reads it: {:?}", answer.headers);
    }
    read(&flow, &token, &[OWN, "https://evil.example"]).await.assert_refused("two origins", 400, "INVALID_REQUEST");

    let origins = json!({ "oidc": { "additionalOrigins": { "values": ["https://admin.shop.example"] } } });
    let path = format!("{API}/apps/{}", flow.app.id);
    let patched = send(flow.admin.request(Method::PATCH, &path).header("prefer", "wait=10").json(&origins)).await;
    assert_eq!(patched.status, StatusCode::OK, "{}", patched.body);
    eventually("another page is one of the app", async || {
        (read(&flow, &token, &["https://admin.shop.example"]).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_a_browser_asks_beforehand_needs_no_token() {
    let (flow, _) = start().await;
    let request = flow.admin.anonymous(Method::OPTIONS, TARGETS).header("origin", "https://evil.example");
    let request = request.header("access-control-request-method", "POST");
    let answer = send(request.header("access-control-request-headers", "authorization")).await;
    assert_eq!(answer.headers["access-control-allow-origin"], "https://evil.example");
}

#[tokio::test]
async fn service_users_and_personal_tokens_are_no_page() {
    let (flow, _) = start().await;
    let answer = read(&flow, &flow.admin.token, &["https://elsewhere.example"]).await;
    assert_eq!(answer.status, StatusCode::OK, "a service user: {}", answer.body);
    let user = json!({ "username": "robot", "service": {} });
    let user = done(&flow.admin, &format!("{API}/users"), user).await.id();
    done(&flow.admin, &format!("{API}/memberships"), json!({ "userId": user, "roles": ["IAM_OWNER_VIEWER"] })).await;
    let expires = json!({ "expirationDate": "2099-01-01T00:00:00Z" });
    let made = done(&flow.admin, &format!("{API}/users/{user}/tokens"), expires).await;
    let personal = made.body["token"].as_str().unwrap_or_else(|| panic!("it is shown: {}", made.body)).to_owned();
    eventually("a personal access token", async || {
        (read(&flow, &personal, &["https://elsewhere.example"]).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn grpc_web_is_held_to_the_same() {
    let (flow, token) = start().await;
    let method = "/platform.resources.action.v3alpha.PlatformActions/SearchTargets";
    let told = async |origin: &str| {
        let request = flow.admin.anonymous(Method::POST, method).bearer_auth(&token).header("origin", origin);
        let request = request.header("content-type", "application/grpc-web+proto").body(vec![0_u8; 5]);
        let response = request.send().await.expect("it answers");
        let of_headers =
            response.headers().get("grpc-status").map(|status| status.to_str().expect("it is text").to_owned());
        let is_read = response.headers().contains_key("access-control-allow-origin");
        let body = String::from_utf8_lossy(&response.bytes().await.expect("it is whole")).into_owned();
        let is_denied = of_headers.is_some_and(|status| status == "7") || body.contains("grpc-status:7");
        (is_denied, is_read)
    };
    assert_eq!(told(OWN).await, (false, true));
    assert_eq!(told("https://evil.example").await, (true, false));
}

#[tokio::test]
async fn origins_of_apps_are_told() {
    let (flow, _) = start().await;
    let shown: Value = send(flow.admin.request(Method::GET, &format!("{API}/apps/{}", flow.app.id))).await.body;
    assert_eq!(shown["app"]["allowedOrigins"], json!([OWN]), "{shown}");
}
