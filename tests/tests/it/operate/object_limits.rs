//! An instance or an organization has as many objects of a kind as the operator permits, whoever creates them at the same
//! time, and however long ago the others were created.

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, EXECUTIONS, TARGETS, created, send, target},
    platform::Platform,
};

const LIMITS: [&str; 2] = ["--object-limits", "target=3,execution=1,project=2"];
const PROJECTS: &str = "/resources/v3alpha/projects";

async fn post(client: &Client, path: &str, body: &Value) -> Answer {
    send(client.request(Method::POST, path).json(body)).await
}

async fn delete(client: &Client, path: &str) {
    let deleted = send(client.request(Method::DELETE, path)).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
}

fn assert_limited(answer: &Answer, resource: &str, limit: &str) {
    assert_eq!((answer.status.as_u16(), answer.reason()), (429, "OBJECT_LIMIT"), "{}", answer.body);
    let details = answer.body["details"].as_array().expect("an error has details");
    let metadata = &details[0]["metadata"];
    assert_eq!(*metadata, json!({ "resource": resource, "limit": limit }));
}

/// An execution on the requests of a method.
fn on(method: &str) -> Value {
    json!({ "condition": { "request": { "method": format!("/platform.resources.action.v3alpha.PlatformActions/{method}") } } })
}

#[tokio::test]
async fn what_exceeds_a_limit_is_refused_until_something_is_removed() {
    let mut platform = Platform::start_with(&LIMITS.map(str::to_owned), &[]).await;
    platform.ready().await;
    let client = platform.client().await;

    let all = (0..12).map(|number| {
        let target = target(&format!("limited {number}"));
        let client = client.reconnected();
        async move { post(&client, TARGETS, &target).await }
    });
    let (there, refused): (Vec<_>, Vec<_>) = join_all(all).await.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((there.len(), refused.len()), (3, 9));
    for answer in &refused {
        assert_limited(answer, "target", "3");
    }
    let first = format!("{TARGETS}/{}", there[0].id());
    let renamed = send(client.request(Method::PATCH, &first).json(&json!({ "name": "renamed" }))).await;
    assert_eq!(renamed.status, 200, "what is there can be changed: {}", renamed.body);
    delete(&client, &first).await;
    created(&client, TARGETS, target("in its place")).await;
    assert_limited(&post(&client, TARGETS, &target("one more")).await, "target", "3");

    // What is put again where something was removed counts anew.
    let put = async |method: &str| post(&client, EXECUTIONS, &on(method)).await;
    let execution = put("CreateTarget").await;
    assert_eq!(execution.status, 201, "{}", execution.body);
    assert_eq!(put("CreateTarget").await.status, 200, "it is replaced");
    assert_limited(&put("PatchTarget").await, "execution", "1");
    delete(&client, &format!("{EXECUTIONS}/{}", execution.id())).await;
    assert_eq!(put("CreateTarget").await.status, 201, "its place is free");
    assert_limited(&put("PatchTarget").await, "execution", "1");

    // An organization has its own.
    for name in ["Acme", "Other"] {
        let organization = created(&client, "/resources/v3alpha/organizations", json!({ "name": name })).await.id();
        let projects = format!("{PROJECTS}?ctx.orgId={organization}");
        let project = |number: u32| json!({ "name": format!("{name} {number}") });
        for number in 0..2 {
            created(&client, &projects, project(number)).await;
        }
        assert_limited(&post(&client, &projects, &project(2)).await, "project", "2");
    }

    platform.stop().await;
    platform.restart(&[]).await;
    let client = platform.client().await;
    assert_limited(&post(&client, TARGETS, &target("later")).await, "target", "3");
    assert_limited(&put("PatchTarget").await, "execution", "1");
    delete(&client, &format!("{TARGETS}/{}", there[1].id())).await;
    created(&client, TARGETS, target("later")).await;
    assert_limited(&post(&client, TARGETS, &target("one more")).await, "target", "3");
}
