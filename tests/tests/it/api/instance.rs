//! Instances: each serves by itself, and objects of one are not found in another.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, SCOPE, TARGETS, send, target},
    eventually,
    platform::Platform,
    tenant::{Tenant, new_host},
};

const INSTANCES: &str = "/resources/v3alpha/instances";

async fn create(operator: &Client, domain: &str) -> Answer {
    let request = operator.request(Method::POST, INSTANCES).header("prefer", "wait=10");
    send(request.json(&json!({ "name": "Acme", "domain": domain }))).await
}

/// Requests a token for the first service user of an instance.
async fn log_in(client: &Client, host: &str, made: &Value) -> Answer {
    let user = &made["serviceUser"];
    let text = |name: &str| user[name].as_str().expect("it is shown").to_owned();
    let request = client.anonymous(Method::POST, "/oauth/v2/token").header("host", host);
    let form = [("grant_type", "client_credentials"), ("scope", SCOPE)];
    send(request.basic_auth(text("clientId"), Some(text("clientSecret"))).form(&form)).await
}

/// Searches the targets of an instance as its own user.
async fn targets(client: &Client, host: &str) -> Answer {
    let request = client.request(Method::POST, &format!("{TARGETS}/_search")).header("host", host);
    send(request.json(&json!([]))).await
}

#[tokio::test]
async fn an_instance_serves_by_itself_until_it_is_blocked_switched_off_or_removed() {
    let tenant = Tenant::start().await;
    tenant.ready().await;
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let host = new_host();
    let host = host.as_str();
    admin.create_target("of the first").await.expect("it is created");
    let made = create(&operator, host).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert!(made.body["issuer"].as_str().is_some_and(|issuer| issuer.contains(host)), "{}", made.body);
    create(&operator, host).await.assert_refused("the same host", 409, "RESOURCE_EXISTS");
    let path = format!("{INSTANCES}/{}", made.id());

    let token = log_in(&admin, host, &made.body).await;
    let token = token.body["access_token"].as_str().unwrap_or_else(|| panic!("{token:?}")).to_owned();
    let own = admin.with(token);
    let discovery = own.anonymous(Method::GET, "/.well-known/openid-configuration").header("host", host);
    assert_eq!(send(discovery).await.body["issuer"], made.body["issuer"]);
    let written =
        send(own.request(Method::POST, TARGETS).header("host", host).header("prefer", "wait=10").json(&target("mine")))
            .await;
    assert_eq!(written.status, 201, "{}", written.body);
    let found = targets(&own, host).await;
    assert_eq!(found.body["details"]["totalResult"], "1", "its own only: {}", found.body);
    assert_eq!(found.body["result"][0]["target"]["name"], "mine");

    // Nothing crosses: not the token, not an id.
    targets(&admin, host).await.assert_refused("a token of another instance", 401, "TOKEN_INVALID");
    admin.get_target(&written.id(), None).await.assert_refused("an id of another", 404, "RESOURCE_NOT_FOUND");
    send(admin.request(Method::GET, &path)).await.assert_refused("not for its owners", 403, "PERMISSION_DENIED");

    let limit =
        |block: bool| operator.request(Method::POST, &format!("{path}/_limit")).json(&json!({ "block": block }));
    assert_eq!(send(limit(true)).await.status, 200);
    is_refused("blocked", &own, host, (429, "INSTANCE_BLOCKED")).await;
    assert_eq!(log_in(&admin, host, &made.body).await.status, 429);
    assert_eq!(send(limit(false)).await.status, 200);
    eventually("it is open again", async || (targets(&own, host).await.status == 200).then_some(())).await;

    let switch = |to: &str| operator.request(Method::POST, &format!("{path}/{to}")).json(&json!({}));
    assert_eq!(send(switch("_deactivate")).await.status, 200);
    is_refused("switched off", &own, host, (401, "TOKEN_INVALID")).await;
    assert_eq!(send(switch("_reactivate")).await.status, 200);
    eventually("it gives tokens again", async || (log_in(&admin, host, &made.body).await.status == 200).then_some(()))
        .await;
    targets(&own, host).await.assert_refused("a token from before", 401, "TOKEN_INVALID");

    assert_eq!(send(operator.request(Method::DELETE, &path)).await.status, 200);
    is_refused("removed", &own, host, (404, "INSTANCE_NOT_FOUND")).await;
    let again = create(&operator, host).await;
    assert_eq!(again.status, 201, "the host is free again: {}", again.body);
    eventually("it serves", async || (log_in(&admin, host, &again.body).await.status == 200).then_some(())).await;
    assert_eq!(log_in(&admin, host, &made.body).await.status, 401, "the old one's user is unknown");
}

async fn is_refused(case: &str, own: &Client, host: &str, (status, reason): (u16, &str)) {
    eventually(case, async || {
        let answer = targets(own, host).await;
        ((answer.status.as_u16(), answer.reason()) == (status, reason)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_instance_that_does_nothing_has_no_task_thread_or_connection() {
    const MANY: u32 = 30;
    let platform = Platform::start().await;
    platform.ready().await;
    let operator = platform.operator().await;
    create(&operator, "warm.example").await;
    let management = platform.management();
    let held = async || {
        let mut counts = [0.; 3];
        for (count, name) in counts.iter_mut().zip(["platform_tasks", "process_threads", "process_open_fds"]) {
            *count = management.sum(name, &[]).await;
        }
        counts
    };
    let before = held().await;
    assert!(before.iter().all(|count| *count > 0.), "{before:?}");
    for number in 0..MANY {
        assert_eq!(create(&operator, &format!("tenant-{number}.example")).await.status, 201);
    }
    // What comes and goes by itself is far less than one for each.
    eventually("nothing is kept for any of them", async || {
        let after = held().await;
        let few = f64::from(MANY / 3);
        after.iter().zip(before).all(|(after, before)| after - before < few).then_some(())
    })
    .await;
}
