//! Metadata that targets of functions have kept of a user: what is written, who knows it, and what happens where it cannot be.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, SCOPE, send},
    cluster::Cluster,
    endpoint::{Endpoint, Reply, execute},
    eventually,
    instance::Instance,
    tenant::Tenant,
};

use crate::oidc::flow::{API, App, Flow, access_token};

const METADATA: &str = "urn:platform:iam:user:metadata";
const LOG: &str = "urn:platform:iam:action:preaccesstoken:log";

/// What a target answers that has entries kept.
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

/// The claims of the access token of an answer, and a client that has it.
fn used(client: &Client, answer: &Answer) -> (Value, Client) {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let token = access_token(&answer.body);
    let claims = claims_of(token);
    (claims, client.with(token.to_owned()))
}

async fn entry(client: &Client, user: &str, key: &str) -> Answer {
    send(client.request(Method::GET, &format!("{API}/users/{user}/metadata/{key}"))).await
}

#[tokio::test]
async fn what_a_target_keeps_is_in_the_very_token_and_seen_by_it() {
    let tenant = Tenant::start().await;
    let (client, endpoint) = (tenant.client().await, Endpoint::start().await);
    let (id, _) = endpoint.target(&client, "restRequestResponse", &json!({ "interruptOnError": true })).await;
    execute(&client, json!({ "function": "preaccesstoken" }), &[&id]).await;
    let user = tenant.bootstrap.service_user.user_id.clone();
    let mut sequences = vec![];
    for (plan, tier) in [("gold", "1"), ("gold", "1"), ("silver", "1"), ("gold", "1")] {
        endpoint.reply(keeping(&[("plan", plan), ("tier", tier)]));
        let (claims, bearer) = used(&client, &granted(&client, &tenant).await);
        let value = &claims[METADATA]["plan"];
        assert_eq!(value, URL_SAFE[usize::from(plan == "silver")], "the token has what was kept for it: {claims}");
        assert_eq!(claims.get(LOG), None, "{claims}");
        let read = entry(&bearer, &user, "plan").await;
        assert_eq!(
            (read.status, &read.body["metadata"]["value"]),
            (StatusCode::OK, &json!(plan)),
            "its bearer sees it"
        );
        let tier = entry(&bearer, &user, "tier").await.body["metadata"]["details"]["sequence"].clone();
        sequences.push((read.body["metadata"]["details"]["sequence"].clone(), tier));
    }
    assert_eq!(sequences[0], sequences[1], "what does not change is no event");
    assert!(sequences[1].0 != sequences[2].0 && sequences[2].0 != sequences[3].0, "{sequences:?}");
    assert!(sequences.iter().all(|(_, tier)| *tier == sequences[0].1), "{sequences:?}");
    let told = endpoint.calls().last().expect("it was called").json()["user_metadata"].clone();
    assert!(told.as_array().is_some_and(|entries| entries.len() == 2), "the target knows it afterwards: {told}");
}

/// `gold` and `silver`, as claims have them.
const URL_SAFE: [&str; 2] = ["Z29sZA", "c2lsdmVy"];

#[tokio::test]
async fn what_is_kept_of_a_person_at_a_login_is_sealed_and_no_event_where_it_is_the_same() {
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
        let read = entry(&flow.admin, &flow.person.0, "plan").await;
        assert_eq!(read.body["metadata"]["value"], "gold", "{}", read.body);
        sequences.push(read.body["metadata"]["details"]["sequence"].clone());
    }
    assert_eq!(sequences[0], sequences[1], "neither is the same value under another nonce");
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
                used(&client, &answer);
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
async fn a_login_is_not_lost_where_nobody_writes() {
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
    let user = &cluster.bootstrap.service_user;
    let granted = async || {
        let request = asking.anonymous(Method::POST, "/oauth/v2/token");
        let request = request.basic_auth(&user.client_id, Some(&user.client_secret));
        let scope = format!("{SCOPE} {METADATA}");
        send(request.form(&[("grant_type", "client_credentials"), ("scope", &scope)])).await
    };
    eventually("the target is called", async || {
        let (claims, _) = used(&asking, &granted().await);
        (claims[METADATA]["plan"] == URL_SAFE[0]).then_some(())
    })
    .await;
    command.process.kill().await;
    endpoint.reply(keeping(&[("plan", "silver")]));
    let (claims, _) = used(&asking, &granted().await);
    assert_eq!(claims[METADATA]["plan"], URL_SAFE[0], "{claims}");
    let log = json!(["set_user_metadata was not done, or it is not known whether it was"]);
    assert_eq!(claims[LOG], log, "{claims}");
}
