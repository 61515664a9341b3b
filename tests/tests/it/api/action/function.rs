//! Function executions: what targets may add to access tokens, and what they may not.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, SCOPE, TARGETS, created, done, send},
    endpoint::{Endpoint, Reply, execute},
    eventually,
    instance::Instance,
    tenant::Tenant,
};

async fn token(client: &Client, instance: &Instance) -> Answer {
    let user = &instance.bootstrap.service_user;
    let request =
        client.anonymous(Method::POST, "/oauth/v2/token").basic_auth(&user.client_id, Some(&user.client_secret));
    send(request.form(&[("grant_type", "client_credentials"), ("scope", SCOPE)])).await
}

fn claims(answer: &Answer) -> Value {
    let token = answer.body["access_token"].as_str().unwrap_or_else(|| panic!("no token: {answer:?}"));
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).expect("it is a JWT")).expect("it is base64url");
    serde_json::from_slice(&claims).expect("it is JSON")
}

#[tokio::test]
async fn targets_add_claims_to_an_access_token_and_replace_none() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let (first, second) = (Endpoint::start().await, Endpoint::start().await);
    let (one, _) = first.target(&client, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    let (two, _) = second.target(&client, "restRequestResponse", &json!({})).await;
    execute(&client, json!({ "function": "preaccesstoken" }), &[&one, &two]).await;
    first.reply(Reply::json(&json!({
        "append_claims": [{ "key": "tier", "value": { "level": 3 } }, { "key": "sub", "value": "somebody" },
            { "key": "urn:platform:iam:org:id", "value": "1" }],
        "set_user_metadata": [{ "key": "a", "value": "Yg" }],
    })));
    second.reply(Reply::json(&json!({ "append_log_claims": ["second was here"] })));
    let shop = created(&client, "/resources/v3alpha/projects", json!({ "name": "Shop" })).await.id();
    let user = &tenant.bootstrap.service_user.user_id;
    let grant = json!({ "userId": user, "projectId": shop, "roleKeys": [] });
    done(&client, "/resources/v3alpha/user_grants", grant).await;
    let grants = json!([{ "project_id": shop, "organization_id": tenant.bootstrap.organization_id, "roles": [] }]);
    let told = async || {
        let granted = token(&client, &tenant).await;
        let payload = first.calls().last()?.json();
        (payload["user_grants"] == grants).then_some((granted, payload))
    };
    let (granted, payload) = eventually("targets are told of the grant", told).await;
    let claims = claims(&granted);
    assert_eq!(claims["tier"], json!({ "level": 3 }));
    assert_eq!(claims["sub"], tenant.bootstrap.service_user.user_id);
    assert_eq!(claims.get("urn:platform:iam:org:id"), None);
    let log = json!(["claim sub exists already", "second was here"]);
    assert_eq!(claims["urn:platform:iam:action:preaccesstoken:log"], log);
    assert_eq!(
        (&payload["function"], &payload["userinfo"]["sub"]),
        (&json!("function/preaccesstoken"), &claims["sub"])
    );
    assert_eq!(payload["application"]["client_id"], tenant.bootstrap.service_user.user_id);
    let own = json!({ "id": tenant.bootstrap.organization_id, "name": "Default", "primary_domain": null });
    assert_eq!(payload["org"], own, "the host of the instance is none of the organization");
    assert_eq!(second.calls()[0].json()["response"]["append_claims"][0]["key"], "tier", "it sees what the first said");
    let mut with_claims = client.clone();
    with_claims.token = granted.body["access_token"].as_str().expect("it is text").to_owned();
    let read = send(with_claims.request(Method::GET, &format!("{TARGETS}/{one}"))).await;
    assert_eq!(read.status, StatusCode::OK, "the token is good");
}

#[tokio::test]
async fn a_target_that_interrupts_denies_the_token() {
    let tenant = Tenant::start().await;
    let (client, endpoint) = (tenant.client().await, Endpoint::start().await);
    let huge = "x".repeat(5000);
    for (interrupts, reply, denied) in [
        (true, Reply::json(&json!({ "forwardedErrorMessage": "not today" })), Some("not today")),
        (true, Reply::status(500), Some("execution failed")),
        (true, Reply::json(&json!({ "append_claims": "x" })), Some("execution failed")),
        (true, Reply::json(&json!({ "append_claims": [{ "key": "a", "value": huge }] })), Some("execution failed")),
        (false, Reply::json(&json!({ "append_claims": [{ "value": 1 }] })), None),
        (false, Reply::status(500), None),
    ] {
        endpoint.reply(reply);
        let members = json!({ "interruptOnError": interrupts });
        let (id, _) = endpoint.target(&client, "restRequestResponse", &members).await;
        execute(&client, json!({ "function": "preaccesstoken" }), &[&id]).await;
        let answer = token(&client, &tenant).await;
        match denied {
            Some(message) => {
                let expected = json!({ "error": "access_denied", "error_description": message });
                assert_eq!((answer.status, &answer.body), (StatusCode::BAD_REQUEST, &expected));
                assert_eq!(answer.headers["cache-control"], "no-store");
            }
            None => drop(claims(&answer)),
        }
    }
}

#[tokio::test]
async fn targets_are_told_what_scopes_ask_for_and_add_to_what_introspection_tells() {
    let tenant = Tenant::start().await;
    let (client, endpoint) = (tenant.client().await, Endpoint::start().await);
    let (id, _) = endpoint.target(&client, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    let project = created(&client, "/resources/v3alpha/projects", json!({ "name": "Shop" })).await.id();
    let app = json!({ "projectId": project, "name": "Checks", "api": {} });
    let app = done(&client, "/resources/v3alpha/apps", app).await;
    let user = &tenant.bootstrap.service_user;
    let scope = format!("openid profile urn:platform:iam:org:project:id:{project}:aud");
    let request =
        client.anonymous(Method::POST, "/oauth/v2/token").basic_auth(&user.client_id, Some(&user.client_secret));
    let granted = send(request.form(&[("grant_type", "client_credentials"), ("scope", &scope)])).await;
    let token = granted.body["access_token"].as_str().expect("there is one");
    execute(&client, json!({ "function": "preuserinfo" }), &[&id]).await;
    endpoint.reply(Reply::json(&json!({ "append_claims": [
        { "key": "tier", "value": 3 }, { "key": "active", "value": false }, { "key": "preferred_username", "value": "x" },
    ] })));
    let secret = app.body["clientSecret"].as_str().expect("it is shown");
    let introspect = async || {
        let request = client.anonymous(Method::POST, "/oauth/v2/introspect").basic_auth(app.id(), Some(secret));
        send(request.form(&[("token", token)])).await
    };
    let told = eventually("the target is called", async || {
        let told = introspect().await.body;
        told.get("tier").is_some().then_some(told)
    })
    .await;
    let name = &user.client_id;
    assert_eq!((&told["tier"], &told["active"], &told["preferred_username"]), (&json!(3), &json!(true), &json!(name)));
    let payload = endpoint.calls()[0].json();
    assert_eq!(payload["function"], "function/preuserinfo");
    assert_eq!(payload["userinfo"]["preferred_username"], json!(name), "what the scope asks for: {payload}");
    endpoint.reply(Reply::json(&json!({ "forwardedErrorMessage": "not today" })));
    let denied = introspect().await;
    assert_eq!((denied.status, &denied.body["error"]), (StatusCode::BAD_REQUEST, &json!("access_denied")));
}
