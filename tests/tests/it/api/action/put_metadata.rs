//! Metadata that targets of functions set for a user: what is written, when, and the effects of failures.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, SCOPE, post, send},
    cluster::Cluster,
    endpoint::{Endpoint, Reply, execute},
    eventually,
    instance::Instance,
    tenant::Tenant,
};

use crate::oidc::flow::{API, App, Flow, access_token, answered, refresh_token};

const METADATA: &str = "urn:platform:iam:user:metadata";
const LOG: &str = "urn:platform:iam:action:preaccesstoken:log";

/// Returns the answer of a target that sets entries.
fn keeping(entries: &[(&str, &str)]) -> Reply {
    let entry = |(key, value): &(&str, &str)| json!({ "key": key, "value": STANDARD.encode(value) });
    Reply::json(&json!({ "set_user_metadata": entries.iter().map(entry).collect::<Vec<_>>() }))
}

async fn granted(client: &Client, instance: &Instance) -> Answer {
    let user = &instance.bootstrap.service_user;
    let request =
        client.anonymous(Method::POST, "/oauth/v2/token").basic_auth(&user.client_id, Some(&user.client_secret));
    let scope = format!("{SCOPE} {METADATA}");
    send(request.form(&[("grant_type", "client_credentials"), ("scope", &scope)])).await
}

/// The claims of a signed token.
fn claims_of(token: &str) -> Value {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).expect("it is a JWT")).expect("it is base64url");
    serde_json::from_slice(&claims).expect("it is JSON")
}

/// The claims of the access token of an answer.
fn used(answer: &Answer) -> Value {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    claims_of(access_token(&answer.body))
}

async fn entry(client: &Client, user: &str, key: &str) -> Answer {
    send(client.request(Method::GET, &format!("{API}/users/{user}/metadata/{key}"))).await
}

/// Waits until an entry has a value, and returns its sequence.
async fn set(client: &Client, user: &str, (key, value): (&str, &str)) -> Value {
    eventually("the entry is set", async || {
        let read = entry(client, user, key).await;
        (read.body["metadata"]["value"] == value).then(|| read.body["metadata"]["details"]["sequence"].clone())
    })
    .await
}

#[tokio::test]
async fn what_a_target_sets_is_in_the_very_token_and_no_event_where_it_is_the_same() {
    let tenant = Tenant::start().await;
    let (client, endpoint) = (tenant.client().await, Endpoint::start().await);
    let (id, _) = endpoint.target(&client, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    execute(&client, json!({ "function": "preaccesstoken" }), &[&id]).await;
    let user = tenant.bootstrap.service_user.user_id.clone();
    let mut sequences = vec![];
    for (plan, tier) in [("gold", "1"), ("gold", "1"), ("silver", "1"), ("gold", "1")] {
        endpoint.reply(keeping(&[("plan", plan), ("tier", tier)]));
        let claims = used(&granted(&client, &tenant).await);
        let value = &claims[METADATA]["plan"];
        assert_eq!(value, URL_SAFE[usize::from(plan == "silver")], "the token has what was set for it: {claims}");
        assert_eq!(claims.get(LOG), None, "{claims}");
        sequences.push((set(&client, &user, ("plan", plan)).await, set(&client, &user, ("tier", tier)).await));
    }
    assert_eq!(sequences[0], sequences[1], "what does not change is no event");
    assert!(sequences[1].0 != sequences[2].0 && sequences[2].0 != sequences[3].0, "{sequences:?}");
    assert!(sequences.iter().all(|(_, tier)| *tier == sequences[0].1), "{sequences:?}");
    eventually("the target is told of it", async || {
        granted(&client, &tenant).await;
        let told = endpoint.calls().last()?.json()["user_metadata"].clone();
        told.as_array().filter(|entries| entries.len() == 2).map(drop)
    })
    .await;
}

/// `gold` and `silver` in base64url, as in claims.
const URL_SAFE: [&str; 2] = ["Z29sZA", "c2lsdmVy"];

#[tokio::test]
async fn what_is_set_of_a_person_at_a_login_is_sealed_and_no_event_where_it_is_the_same() {
    let mut settings = App::public();
    settings["accessTokenType"] = json!("OIDC_TOKEN_TYPE_JWT");
    let flow = Flow::with(settings).await;
    let endpoint = Endpoint::replying(keeping(&[("plan", "gold")])).await;
    let (id, _) = endpoint.target(&flow.admin, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    // Of the ID token, which is made after the access token.
    execute(&flow.admin, json!({ "function": "preuserinfo" }), &[&id]).await;
    let scope = format!("openid {METADATA}");
    let mut sequences = vec![];
    for _ in 0..2 {
        let (tokens, _) = flow.tokens(&[("scope", &scope)]).await;
        let claims = claims_of(access_token(&tokens));
        assert_eq!(claims[METADATA]["plan"], URL_SAFE[0], "{claims}");
        let said = flow.userinfo(access_token(&tokens)).await.body;
        assert_eq!(said[METADATA]["plan"], URL_SAFE[0], "{said}");
        sequences.push(set(&flow.admin, &flow.person.0, ("plan", "gold")).await);
    }
    assert_eq!(sequences[0], sequences[1], "neither is the same value under another nonce");
    let events = async || {
        let asked = json!([{ "type": "user_metadata.added" }]);
        let found = post(&flow.admin, &format!("{API}/events/_search"), asked).await.body["result"].clone();
        found.as_array().is_some_and(|found| !found.is_empty()).then_some(found)
    };
    let events = eventually("the event is told", events).await.to_string();
    assert!(!events.contains("gold"), "{events}");
}

#[tokio::test]
async fn whoever_is_refused_tokens_sets_nothing() {
    let settings = json!({
        "responseTypes": ["OIDC_RESPONSE_TYPE_CODE"],
        "grantTypes": ["OIDC_GRANT_TYPE_AUTHORIZATION_CODE", "OIDC_GRANT_TYPE_REFRESH_TOKEN"],
    });
    let flow = Flow::with(settings).await;
    let endpoint = Endpoint::replying(keeping(&[("logins", "1")])).await;
    let (id, _) = endpoint.target(&flow.admin, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    execute(&flow.admin, json!({ "function": "preaccesstoken" }), &[&id]).await;
    let (tokens, _) = flow.tokens(&[("scope", "openid offline_access")]).await;
    let before = set(&flow.admin, &flow.person.0, ("logins", "1")).await;
    let first = refresh_token(&tokens).to_owned();
    let second = flow.refreshed(&first).await;
    flow.refreshed(refresh_token(&second)).await;
    endpoint.reply(keeping(&[("logins", "2")]));
    let calls = endpoint.calls().len();
    let refused = send(flow.refreshing(&first, &[])).await;
    assert_eq!((refused.status, &refused.body["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_grant")));
    assert!(endpoint.calls().len() > calls, "the target was called");
    // What is written after it is known, so it would be.
    let path = format!("{API}/users/{}/metadata/marker", flow.person.0);
    let marker = flow.admin.request(Method::PUT, &path).header("prefer", "wait=10");
    let marker = send(marker.json(&json!({ "value": "x" }))).await;
    assert!(marker.status.is_success(), "{}", marker.body);
    assert_eq!(set(&flow.admin, &flow.person.0, ("logins", "1")).await, before);
}

#[tokio::test]
async fn executions_that_lead_to_each_other_know_how_deep_they_are() {
    let tenant = Tenant::start().await;
    let (client, endpoint, of_events) = (tenant.client().await, Endpoint::start().await, Endpoint::start().await);
    let (id, _) = endpoint.target(&client, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    let (hook, _) = of_events.target(&client, "restWebhook", &json!({})).await;
    execute(&client, json!({ "function": "preaccesstoken" }), &[&id]).await;
    execute(&client, json!({ "event": { "event": "user_metadata.added" } }), &[&hook]).await;
    endpoint.reply(keeping(&[("plan", "gold")]));
    let user = &tenant.bootstrap.service_user;
    let request = client.anonymous(Method::POST, "/oauth/v2/token").header("platform-execution-depth", "1");
    let request = request.basic_auth(&user.client_id, Some(&user.client_secret));
    used(&send(request.form(&[("grant_type", "client_credentials"), ("scope", SCOPE)])).await);
    let called = of_events.called(1).await;
    assert_eq!(called[0].header("platform-execution-depth"), "2");
}

#[tokio::test]
async fn what_nobody_could_have_is_an_error_of_the_target() {
    let tenant = Tenant::start().await;
    let (client, endpoint) = (tenant.client().await, Endpoint::start().await);
    let user = tenant.bootstrap.service_user.user_id.clone();
    let long = "x".repeat(16 * 1024 + 1);
    let many: Vec<String> = (0..51).map(|index| format!("key-{index}")).collect();
    let many: Vec<_> = many.iter().map(|key| (key.as_str(), "a")).collect();
    for interrupts in [true, false] {
        let members = json!({ "interruptOnError": interrupts });
        let (id, _) = endpoint.target(&client, "restRequestResponse", &members).await;
        execute(&client, json!({ "function": "preaccesstoken" }), &[&id]).await;
        for entries in
            [&[("_own", "a")][..], &[("", "a")], &[("long", &long)], &[("twice", "a"), ("twice", "b")], &many]
        {
            endpoint.reply(keeping(entries));
            let answer = granted(&client, &tenant).await;
            if interrupts {
                let expected = json!({ "error": "access_denied", "error_description": "execution failed" });
                assert_eq!((answer.status, &answer.body), (StatusCode::BAD_REQUEST, &expected), "{}", entries[0].0);
            } else {
                used(&answer);
            }
            endpoint.reply(Reply::json(&json!({ "set_user_metadata": [{ "key": "plan", "value": "no base64!" }] })));
            assert_eq!(granted(&client, &tenant).await.status == StatusCode::OK, !interrupts);
        }
    }
    for key in ["long", "twice", "key-0", "plan"] {
        entry(&client, &user, key).await.assert_refused(key, 404, "RESOURCE_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_code_gives_tokens_where_nobody_writes() {
    let cluster = Cluster::start().await;
    let allowed = [("--allow-targets", "127.0.0.0/8")];
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let mut command = cluster.node("command", "command", &allowed, &[]);
    let oidc = cluster.node("oidc", "oidc", &allowed, &[]);
    cluster.writes(&command).await;
    cluster.is_ready(&oidc).await;
    let (admin, asking) = (cluster.client(&command), cluster.client(&oidc));
    let endpoint = Endpoint::replying(keeping(&[("plan", "gold")])).await;
    let (id, _) = endpoint.target(&admin, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    execute(&admin, json!({ "function": "preaccesstoken" }), &[&id]).await;
    let mut settings = App::public();
    settings["accessTokenType"] = json!("OIDC_TOKEN_TYPE_JWT");
    let mut flow = Flow::on((), admin.clone(), settings).await;
    let (_, session) = flow.session().await;
    flow.admin = asking;
    let scope = format!("openid {METADATA}");
    let code = eventually("the app sends people", async || {
        let sent = flow.sent(&flow.authorize_parameters(&[("scope", &scope)])).await;
        let led = sent.headers.get("location")?.to_str().ok()?.to_owned();
        let request = answered(&led).remove("authRequest")?;
        let finished = flow.finished(&request, &session).await;
        answered(finished.body["callbackUrl"].as_str()?).remove("code")
    })
    .await;
    eventually("the target is known", async || {
        let (sent, user) = (flow.admin.anonymous(Method::POST, "/oauth/v2/token"), &cluster.bootstrap.service_user);
        let sent = sent.basic_auth(&user.client_id, Some(&user.client_secret));
        send(sent.form(&[("grant_type", "client_credentials"), ("scope", SCOPE)])).await;
        (!endpoint.calls().is_empty()).then_some(())
    })
    .await;
    command.process.kill().await;
    let claims = claims_of(access_token(&flow.redeemed(&code).await));
    assert_eq!(claims[METADATA]["plan"], URL_SAFE[0], "{claims}");
}
