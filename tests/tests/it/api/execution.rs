//! Stored executions: put, deleted and searched, and what they may name.

use std::collections::BTreeSet;

use proto::operation::OPERATIONS;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, EXECUTIONS, TARGETS, send},
    tenant::Tenant,
};

async fn put(client: &Client, execution: Value) -> Answer {
    send(client.request(Method::POST, EXECUTIONS).json(&execution)).await
}

fn on(condition: Value, targets: &[&str], includes: &[&str]) -> Value {
    let mut execution = json!({ "targets": targets, "includes": includes });
    execution["condition"] = condition;
    execution
}

const SERVICE: &str = "platform.resources.action.v3alpha.PlatformActions";

fn event(name: &str) -> Value {
    json!({ "event": { "event": name } })
}

async fn search(client: &Client, filters: Value, after: &Answer) -> Answer {
    let request = client.request(Method::POST, &format!("{EXECUTIONS}/_search?query.asc=true")).json(&filters);
    send(request.header("consistency-token", after.consistency()).header("consistency-wait", "10s")).await
}

fn ids(answer: &Answer) -> Vec<&str> {
    let result = answer.body["result"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    result.iter().filter_map(|found| found["details"]["id"].as_str()).collect()
}

#[tokio::test]
async fn an_execution_is_created_then_replaced_and_the_same_again_changes_nothing() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let target = client.create_target("hook").await.expect("it is created");
    let condition = json!({ "request": { "method": "/platform.resources.action.v3alpha.PlatformActions/GetTarget" } });
    let created = put(&client, on(condition.clone(), &[&target], &[])).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.body);
    let id = created.id();
    assert!(id.parse::<u64>().is_ok_and(|number| number < 1 << 63), "{id}");

    let end = tenant.log_end().await;
    let same = put(&client, on(condition.clone(), &[&target], &[])).await;
    assert_eq!((same.status, same.id()), (StatusCode::OK, id.clone()));
    assert_eq!(same.body, created.body, "nothing has changed");
    assert_eq!(tenant.log_end().await, end, "there is no event");

    let request = || client.request(Method::POST, EXECUTIONS).json(&on(condition.clone(), &[], &[]));
    let replaced = send(request().header("idempotency-key", "replace")).await;
    assert_eq!((replaced.status, replaced.id()), (StatusCode::OK, id.clone()));
    let again = send(request().header("idempotency-key", "replace")).await;
    assert_eq!((again.status, &again.body), (StatusCode::OK, &replaced.body), "the status is the first one too");
    let found = search(&client, json!([]), &replaced).await;
    assert_eq!(found.body["result"][0]["execution"], json!({ "condition": condition }));

    let path = format!("{EXECUTIONS}/{id}");
    assert_eq!(send(client.request(Method::DELETE, &path)).await.status, StatusCode::OK);
    send(client.request(Method::DELETE, &path)).await.assert_refused("it is gone", 404, "RESOURCE_NOT_FOUND");
    let anew = put(&client, on(condition, &[], &[])).await;
    assert_eq!((anew.status, anew.id()), (StatusCode::CREATED, id), "one condition has one id");
}

#[tokio::test]
async fn executions_are_found_by_all_filters_in_the_order_of_their_creation() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let first = client.create_target("first").await.expect("it is created");
    let second = client.create_target("second").await.expect("it is created");
    let on_all = put(&client, on(json!({ "event": { "all": true } }), &[&first], &[])).await.id();
    let on_group =
        put(&client, on(json!({ "event": { "group": "target" } }), &[&second, &first], &[&on_all])).await.id();
    let on_function = put(&client, on(json!({ "function": "preuserinfo" }), &[&second], &[])).await.id();
    let last = put(&client, on(json!({ "response": { "all": true } }), &[], &[])).await;
    let on_response = last.id();
    for (filters, expected) in [
        (json!([]), vec![&on_all, &on_group, &on_function, &on_response]),
        (json!([{ "executionType": { "type": "EXECUTION_TYPE_EVENT" } }]), vec![&on_all, &on_group]),
        (json!([{ "executionType": { "type": "EXECUTION_TYPE_FUNCTION" } }]), vec![&on_function]),
        (json!([{ "target": { "id": first } }]), vec![&on_all, &on_group]),
        (json!([{ "target": { "id": second } }]), vec![&on_group, &on_function]),
        (json!([{ "target": { "id": format!("{second} {first}") } }]), vec![]),
        (json!([{ "target": { "id": first[1..] } }]), vec![]),
        (json!([{ "include": { "include": on_all } }]), vec![&on_group]),
        (
            json!([{ "inConditions": { "conditions": [{ "function": "preuserinfo" }, { "response": { "all": true } }] } }]),
            vec![&on_function, &on_response],
        ),
        (json!([{ "inConditions": {} }]), vec![]),
        (json!([{ "target": { "id": first } }, { "include": { "include": on_all } }]), vec![&on_group]),
    ] {
        assert_eq!(ids(&search(&client, filters.clone(), &last).await), expected, "{filters}");
    }
    for filters in [json!([{}]), json!([{ "executionType": {} }]), json!([{ "target": {} }])] {
        assert_eq!(search(&client, filters.clone(), &last).await.status, StatusCode::BAD_REQUEST, "{filters}");
    }
}

#[tokio::test]
async fn what_there_is_not_is_refused_and_changes_nothing() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let target = client.create_target("hook").await.expect("it is created");
    let function = put(&client, on(json!({ "function": "preuserinfo" }), &[], &[])).await.id();
    let end = tenant.log_end().await;
    for (condition, field) in [
        (json!({ "request": { "method": "/platform.Nothing/Here" } }), "execution.condition.request.method"),
        (json!({ "request": { "service": "platform.Nothing" } }), "execution.condition.request.service"),
        (json!({ "response": { "method": "GetTarget" } }), "execution.condition.response.method"),
        (json!({ "function": "presleep" }), "execution.condition.function"),
        (event("target.exploded"), "execution.condition.event.event"),
        (json!({ "event": { "group": "target.added" } }), "execution.condition.event.group"),
    ] {
        let refused = put(&client, on(condition, &[&target], &[])).await;
        refused.assert_refused(field, 404, "RESOURCE_NOT_FOUND");
        assert!(refused.body.to_string().contains(field), "{}", refused.body);
    }
    for (targets, includes, status, reason) in [
        (vec!["1"], vec![], 404, "RESOURCE_NOT_FOUND"),
        (vec![target.as_str(), "x\u{0}"], vec![], 404, "RESOURCE_NOT_FOUND"),
        (vec![], vec![target.as_str()], 404, "RESOURCE_NOT_FOUND"),
        (vec![], vec![function.as_str()], 400, "INVALID_REQUEST"),
        (vec![], vec![function.as_str(), function.as_str()], 400, "INVALID_REQUEST"),
    ] {
        let refused = put(&client, on(event("target.added"), &targets, &includes)).await;
        refused.assert_refused(&format!("{targets:?} {includes:?}"), status, reason);
    }
    assert_eq!(tenant.log_end().await, end);
}

#[tokio::test]
async fn includes_lead_over_three_levels_and_in_no_circle() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let mut chain: Vec<String> = vec![];
    for name in ["user.added", "user.changed", "user.removed", "project.added"] {
        let includes: Vec<&str> = chain.last().map(String::as_str).into_iter().collect();
        let made = put(&client, on(event(name), &[], &includes)).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
        chain.push(made.id());
    }
    let own = client_id(&client, "project.removed").await;
    let end = tenant.log_end().await;
    for (case, name, include) in [
        ("four levels from above", "project.removed", &chain[3]),
        ("a circle", "user.added", &chain[3]),
        ("a circle of one", "project.removed", &own),
    ] {
        let refused = put(&client, on(event(name), &[], &[include])).await;
        refused.assert_refused(case, 400, "PRECONDITION_FAILED");
    }
    let leaf = put(&client, on(event("project.changed"), &[], &[])).await.id();
    let below = put(&client, on(event("user.added"), &[], &[&leaf])).await;
    below.assert_refused("four levels from below", 400, "PRECONDITION_FAILED");
    assert_eq!(tenant.log_end().await.0, end.0 + 1, "only the leaf was made");

    let gone = send(client.request(Method::DELETE, &format!("{EXECUTIONS}/{}", chain[0]))).await;
    assert_eq!(gone.status, StatusCode::OK);
    let left = search(&client, json!([{ "include": { "include": chain[0] } }]), &gone).await;
    assert_eq!(ids(&left), Vec::<&str>::new(), "what is gone is included nowhere");
}

#[tokio::test]
async fn no_way_of_including_leads_to_more_than_a_thousand_targets() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let target = send(client.request(Method::POST, TARGETS).json(&tests::client::target("x"))).await.id();
    let many = vec![target.as_str(); 600];
    let first = put(&client, on(event("user.added"), &many, &[])).await.id();
    let second = put(&client, on(event("user.changed"), &[], &[])).await.id();
    let both = put(&client, on(event("user.removed"), &[], &[&first, &second])).await;
    assert_eq!(both.status, StatusCode::CREATED, "{}", both.body);
    let filled = put(&client, on(event("user.changed"), &many, &[])).await;
    filled.assert_refused("from below", 400, "PRECONDITION_FAILED");
    assert_eq!(put(&client, on(event("user.changed"), &many[..400], &[])).await.status, StatusCode::OK);
    put(&client, on(event("user.removed"), &many[..1], &[&first, &second])).await.assert_refused(
        "from above",
        400,
        "PRECONDITION_FAILED",
    );
}

/// The id that the execution of an event would have.
async fn client_id(client: &Client, name: &str) -> String {
    let made = put(client, on(event(name), &[], &[])).await;
    send(client.request(Method::DELETE, &format!("{EXECUTIONS}/{}", made.id()))).await;
    made.id()
}

#[tokio::test]
async fn a_target_that_is_deleted_leaves_every_execution_whatever_races_with_it() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let names = ["target.added", "target.changed", "user.added", "user.changed", "project.added", "project.changed"];
    for round in 0..5 {
        let (gone, stays) = (client.create_target("gone").await.unwrap(), client.create_target("stays").await.unwrap());
        let putting = names.iter().map(|name| {
            let (client, both) = (client.clone(), on(event(name), &[&gone, &stays, &gone], &[]));
            tokio::spawn(async move { put(&client, both).await })
        });
        let putting: Vec<_> = putting.collect();
        let deleting = client.request(Method::DELETE, &format!("{TARGETS}/{gone}"));
        let deleting = tokio::spawn(send(deleting));
        let mut last = deleting.await.expect("it ends");
        assert_eq!(last.status, StatusCode::OK, "{}", last.body);
        for put in putting {
            let put = put.await.expect("it ends");
            match put.status.as_u16() {
                200 | 201 => last = newer(last, put),
                _ => put.assert_refused("it came too late", 404, "RESOURCE_NOT_FOUND"),
            }
        }
        let found = search(&client, json!([]), &last).await;
        assert!(!found.body.to_string().contains(&format!("\"{gone}\"")), "round {round}: {}", found.body);
        put(&client, on(event("target.added"), &[&gone], &[])).await.assert_refused("gone", 404, "RESOURCE_NOT_FOUND");
    }
}

/// Returns the newer answer of two.
fn newer(one: Answer, other: Answer) -> Answer {
    let sequence = |answer: &Answer| answer.body["details"]["sequence"].as_str().and_then(|it| it.parse::<u64>().ok());
    if sequence(&one) > sequence(&other) { one } else { other }
}

#[tokio::test]
async fn the_lists_have_what_conditions_can_name() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let list = async |name: &str| {
        let answer = send(client.request(Method::GET, &format!("{EXECUTIONS}/{name}"))).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let names = answer.body[name].as_array().expect("it is a list").clone();
        names.iter().map(|name| name.as_str().expect("it has names").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list("functions").await, ["preaccesstoken", "preuserinfo"]);
    let (methods, services) = (list("methods").await, list("services").await);
    let known: BTreeSet<_> = OPERATIONS.iter().map(|facts| facts.grpc.to_owned()).collect();
    assert!(methods.is_sorted() && methods.iter().all(|method| known.contains(method)), "{methods:?}");
    let of_methods: BTreeSet<_> = methods.iter().map(|path| path.split('/').nth(1).unwrap().to_owned()).collect();
    assert_eq!(services.iter().cloned().collect::<BTreeSet<_>>(), of_methods);
    assert!(methods.contains(&"/platform.resources.action.v3alpha.PlatformActions/PutExecution".to_owned()));
    for method in &methods {
        let made = put(&client, on(json!({ "response": { "method": method } }), &[], &[])).await;
        assert_eq!(made.status, StatusCode::CREATED, "{method}: {}", made.body);
    }
    let nobody = tenant.client_named("nobody").await;
    let refused = send(nobody.request(Method::GET, &format!("{EXECUTIONS}/methods"))).await;
    refused.assert_refused("nobody", 403, "PERMISSION_DENIED");
}

#[tokio::test]
async fn what_a_request_would_have_to_wait_for_too_long_is_refused() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let target = async |timeout: &str, is_async: bool| {
        let target = json!({ "name": "slow", "timeout": timeout, "isAsync": is_async,
            "restWebhook": { "url": "https://example.com" } });
        send(client.request(Method::POST, TARGETS).json(&target)).await.id()
    };
    let (half, more, detached) = (target("25s", false).await, target("26s", false).await, target("270s", true).await);
    let request = |method: &str| json!({ "request": { "method": format!("/{SERVICE}/{method}") } });
    let refused = |answer: Answer| answer.assert_refused("too long", 400, "INVALID_REQUEST");
    refused(put(&client, on(request("GetTarget"), &[&half, &more], &[])).await);
    refused(put(&client, on(json!({ "function": "preaccesstoken" }), &[&half, &half, &half], &[])).await);
    for condition in [json!({ "event": { "all": true } }), json!({ "event": { "group": "target" } })] {
        let told = put(&client, on(condition, &[&half, &more, &half], &[])).await;
        assert_eq!(told.status, StatusCode::CREATED, "nobody waits: {}", told.body);
    }
    let included = put(&client, on(request("GetTarget"), &[&half, &half, &detached], &[])).await;
    assert_eq!(included.status, StatusCode::CREATED, "{}", included.body);
    let inner = included.id();
    refused(put(&client, on(request("PatchTarget"), &[&half], &[&inner])).await);
    let outer = put(&client, on(request("PatchTarget"), &[], &[&inner])).await;
    assert_eq!(outer.status, StatusCode::CREATED, "{}", outer.body);
    refused(put(&client, on(request("GetTarget"), &[&half, &more], &[])).await);
    assert_eq!(put(&client, on(request("GetTarget"), &[&half], &[])).await.status, StatusCode::OK);
    let longer = put(&client, on(request("PatchTarget"), &[&half], &[&inner])).await;
    assert_eq!(longer.status, StatusCode::OK, "{}", longer.body);
    refused(put(&client, on(request("GetTarget"), &[&half, &half], &[])).await);
    let patch = async |id: &str, change: Value| {
        send(client.request(Method::PATCH, &format!("{TARGETS}/{id}")).json(&change)).await
    };
    // Two executions wait for it: one 25 s, the other 25 s here and 25 s in the first.
    refused(patch(&half, json!({ "timeout": "26s" })).await);
    assert_eq!(patch(&half, json!({ "timeout": "24s" })).await.status, StatusCode::OK);
    assert_eq!(patch(&half, json!({ "timeout": "25s" })).await.status, StatusCode::OK);
    assert_eq!(patch(&more, json!({ "timeout": "270s" })).await.status, StatusCode::OK, "only events call it");
    let last = put(&client, on(request("DeleteTarget"), &[&detached], &[])).await;
    assert_eq!(last.status, StatusCode::CREATED, "{}", last.body);
    refused(patch(&detached, json!({ "isAsync": false })).await);
    assert_eq!(patch(&detached, json!({ "isAsync": false, "timeout": "50s" })).await.status, StatusCode::OK);
}
