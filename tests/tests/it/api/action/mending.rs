//! Deliveries that were given up are failed events like others: operators and administrators of the instance can see,
//! retry and discard them.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    client::{Answer, Client, TARGETS, post, send},
    endpoint::{Endpoint, Reply, execute},
    eventually,
    platform::Platform,
    process::run,
    servers::{Servers, drop_read_models},
    tenant::instance_beside,
};

pub(super) const OF_SYSTEM: &str = "/system/v1/failedevents";
const OF_INSTANCE: &str = "/resources/v3alpha/failed_events";

/// Returns the deliveries that were given up, the one first that failed longest ago.
pub(super) async fn given_up(caller: &Client, path: &str, filter: Value) -> Vec<Value> {
    let body = json!({ "filters": [{ "viewName": "deliveries" }, filter], "query": { "asc": true } });
    let answer = post(caller, &format!("{path}/_search"), body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.body["result"].as_array().cloned().unwrap_or_default()
}

pub(super) async fn are_given_up(operator: &Client, count: usize) -> Vec<Value> {
    let all = async || {
        let found = given_up(operator, OF_SYSTEM, json!({ "state": "FAILED_EVENT_STATE_FAILED" })).await;
        (found.len() == count).then_some(found)
    };
    eventually(&format!("{count} are given up"), all).await
}

pub(super) fn sequence(failed: &Value) -> u64 {
    failed["sequence"].as_str().and_then(|text| text.parse().ok()).expect("it has a sequence")
}

pub(super) fn id(failed: &Value) -> &str {
    failed["id"].as_str().expect("it has an id")
}

pub(super) async fn retry(caller: &Client, path: &str, failed: &Value) -> Answer {
    post(caller, &format!("{path}/{}/_retry", id(failed)), json!({})).await
}

pub(super) fn patient(tries: &str) -> Vec<String> {
    ["--delivery-tries", tries, "--delivery-pause", "20"].map(str::to_owned).to_vec()
}

/// Starts an endpoint that fails at every call, with a target for events.
pub(super) async fn failing(client: &Client, events: Value) -> (Endpoint, String) {
    let endpoint = Endpoint::replying(Reply::status(503)).await;
    let (hook, _) = endpoint.target(client, "restWebhook", &json!({})).await;
    execute(client, json!({ "event": events }), &[&hook]).await;
    (endpoint, hook)
}

/// Waits for a number of attempts to deliver to a target, and returns their outcomes, the last one first.
pub(super) async fn attempts(client: &Client, hook: &str, count: usize) -> Vec<Value> {
    let all = async || {
        let answer = send(client.request(Method::GET, &format!("{TARGETS}/{hook}/deliveries"))).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        answer.body["result"].as_array().filter(|found| found.len() == count).cloned()
    };
    eventually(&format!("{count} attempts"), all).await
}

/// Checks what is returned of a delivery, and which filters match it.
async fn assert_told(operator: &Client, one: &Value, (hook, target): (&str, &str)) {
    assert_eq!(
        (&one["database"], &one["targetId"], &one["aggregateId"]),
        (&json!("nats"), &json!(hook), &json!(target))
    );
    assert_eq!((&one["failureCount"], &one["aggregateType"]), (&json!("2"), &json!("target")), "{one}");
    assert!(one["errorMessage"].as_str().is_some_and(|error| error.contains("503")), "{one}");
    let [first, last] =
        ["firstFailed", "lastFailed"].map(|name| one[name].as_str().and_then(|at| at.parse::<Timestamp>().ok()));
    assert!(first.is_some() && first < last, "of two tries: {one}");
    let at = |method: &str| json!({ "lastFailed": { "lastFailed": one["lastFailed"], "method": method } });
    for (filter, finds) in [
        (json!({ "targetId": hook }), true),
        (json!({ "targetId": target }), false),
        (json!({ "errorMessage": "503" }), true),
        (json!({ "errorMessage": "5_3" }), false),
        (at("TIMESTAMP_Filter_METHOD_EQUALS"), true),
        (at("TIMESTAMP_Filter_METHOD_GREATER"), false),
        (at("TIMESTAMP_Filter_METHOD_LESS_OR_EQUALS"), true),
        (at("TIMESTAMP_Filter_METHOD_LESS"), false),
    ] {
        let found = given_up(operator, OF_SYSTEM, filter.clone()).await;
        assert_eq!(found.iter().any(|found| id(found) == id(one)), finds, "{filter}");
    }
    let shown = send(operator.request(Method::GET, &format!("{OF_SYSTEM}/{}", id(one)))).await.body;
    assert_eq!((&shown["event"]["type"], &shown["waiting"]), (&json!("target.added"), &Value::Null), "{shown}");
}

/// Checks what is returned of the attempts at deliveries that were given up.
async fn assert_attempted(client: &Client, failed: &Value, (hook, target): (&str, &str)) {
    let tried = attempts(client, hook, 6).await;
    let first: Vec<_> = tried.iter().filter(|one| one["sequence"] == failed["sequence"]).collect();
    let told = |one: &Value| (one["outcome"].clone(), one["attempt"].clone(), one["aggregateId"].clone());
    assert_eq!(told(first[0]), (json!("DELIVERY_OUTCOME_GIVEN_UP"), json!(2), json!(target)));
    assert_eq!(told(first[1]), (json!("DELIVERY_OUTCOME_FAILED"), json!(1), json!(target)));
    assert_eq!(first[0]["errorMessage"], failed["errorMessage"]);
}

/// Discards a failed delivery, and checks that it is found with the reason.
async fn discard(operator: &Client, failed: &Value, hook: &str) {
    let path = format!("{OF_SYSTEM}/{}", id(failed));
    let reason = json!({ "reason": "nobody needs it" });
    assert_eq!(post(operator, &format!("{path}/_discard"), reason).await.status, StatusCode::OK);
    let discarded = async || {
        let found = given_up(operator, OF_SYSTEM, json!({ "state": "FAILED_EVENT_STATE_DISCARDED" })).await;
        found.into_iter().next()
    };
    let discarded = eventually("it is discarded", discarded).await;
    assert_eq!((&discarded["reason"], &discarded["targetId"]), (&json!("nobody needs it"), &json!(hook)));
    for name in ["id", "sequence", "firstFailed", "lastFailed"] {
        assert_eq!(discarded[name], failed[name], "{name}");
    }
    let gone = async || {
        let shown = send(operator.request(Method::GET, &path)).await.body;
        (shown["failedEvent"]["state"] == "FAILED_EVENT_STATE_DISCARDED").then_some(())
    };
    eventually("it waits no more", gone).await;
}

#[tokio::test]
async fn what_was_given_up_is_made_again_in_order_or_left_out() {
    let platform = Platform::start_with(&patient("2"), &[]).await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let (endpoint, hook) = failing(&client, json!({ "group": "target" })).await;
    let target = client.create_target("0").await.expect("it is created");
    for name in ["1", "2"] {
        let patch = client.request(Method::PATCH, &format!("{TARGETS}/{target}")).json(&json!({ "name": name }));
        assert_eq!(send(patch).await.status, StatusCode::OK);
    }
    let mut failed = are_given_up(&operator, 3).await;
    failed.sort_by_key(sequence);
    assert_told(&operator, &failed[0], (&hook, &target)).await;
    assert_attempted(&client, &failed[0], (&hook, &target)).await;
    let is_counted =
        async || (platform.management().cells("platform_deliveries_given_up", &[]).await == [3.0]).then_some(());
    eventually("a metric says how many were given up", is_counted).await;

    // One that fails again is kept again, although that is soon.
    endpoint.take();
    assert_eq!(retry(&operator, OF_SYSTEM, &failed[0]).await.status, StatusCode::OK);
    endpoint.called(2).await;
    let (data, is_printed) = (platform.data().display().to_string(), |said: &str| said.contains(", given up: 3\n"));
    let status = async || Some(run(&["status", "--data-dir", &data]).1).filter(|said| is_printed(said));
    eventually("the status says how many were given up", status).await;
    let again = async || {
        let found = given_up(&operator, OF_SYSTEM, json!({ "id": id(&failed[0]) })).await;
        (found.first()?["lastFailed"] != failed[0]["lastFailed"]).then_some(())
    };
    eventually("it was given up again", again).await;

    discard(&operator, &failed[1], &hook).await;
    are_given_up(&operator, 2).await;

    // Those that are left come in the order of their events, though the first one was given up last.
    endpoint.take();
    endpoint.reply(Reply::status(204));
    let (is_done, said, told) = run(&[
        "failed-events",
        "retry",
        "--view",
        "deliveries",
        "--target",
        &hook,
        "--error",
        "503",
        "--data-dir",
        &data,
    ]);
    assert!(is_done && said.contains("2 are being retried"), "{said}{told}");
    let told: Vec<_> = endpoint.called(2).await.iter().map(|call| call.json()["sequence"].as_u64()).collect();
    assert_eq!(told, [Some(sequence(&failed[0])), Some(sequence(&failed[2]))]);
    are_given_up(&operator, 0).await;
    let last = &attempts(&client, &hook, 10).await[0];
    assert_eq!((&last["outcome"], &last["deliveryId"].is_string()), (&json!("DELIVERY_OUTCOME_DELIVERED"), &true));
    retry(&operator, OF_SYSTEM, &failed[0]).await.assert_refused("done", 404, "RESOURCE_NOT_FOUND");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(endpoint.calls().len(), 2, "what was left out is told to nobody");
}

#[tokio::test]
async fn an_administrator_mends_what_is_of_the_instance_and_nothing_else() {
    let platform = Platform::start_with(&patient("1"), &[]).await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let other = instance_beside(&platform).await.client().await;
    let endpoint = Endpoint::replying(Reply::status(503)).await;
    for client in [&client, &other] {
        let (hook, _) = endpoint.target(client, "restWebhook", &json!({})).await;
        execute(client, json!({ "event": { "event": "target.added" } }), &[&hook]).await;
        client.create_target("told").await.expect("it is created");
    }
    let all = are_given_up(&operator, 2).await;
    let own = given_up(&client, OF_INSTANCE, json!({ "errorMessage": "503" })).await;
    assert_eq!((own.len(), &own[0]["instanceId"]), (1, &json!(platform.bootstrap.instance_id)));
    let foreign = all.iter().find(|one| id(one) != id(&own[0])).expect("there is another one");
    let of_foreign = format!("{OF_INSTANCE}/{}", id(foreign));
    send(client.request(Method::GET, &of_foreign)).await.assert_refused("get", 404, "RESOURCE_NOT_FOUND");
    retry(&client, OF_INSTANCE, foreign).await.assert_refused("retry", 404, "RESOURCE_NOT_FOUND");
    let reason = json!({ "reason": "x" });
    let discarded = post(&client, &format!("{of_foreign}/_discard"), reason.clone()).await;
    discarded.assert_refused("discard", 404, "RESOURCE_NOT_FOUND");
    let filter = json!([{ "instanceId": foreign["instanceId"] }]);
    let none = post(&client, &format!("{OF_INSTANCE}/_retry"), filter).await;
    assert_eq!((none.status, &none.body), (StatusCode::OK, &json!({})), "nothing of it is another's");

    let shown = send(client.request(Method::GET, &format!("{OF_INSTANCE}/{}", id(&own[0])))).await;
    assert_eq!(shown.body["event"]["type"], "target.added", "{}", shown.body);
    endpoint.reply(Reply::status(204));
    endpoint.take();
    let many = post(&client, &format!("{OF_INSTANCE}/_retry"), json!([])).await;
    assert_eq!((many.status, &many.body["count"]), (StatusCode::OK, &json!("1")), "{}", many.body);
    let called = endpoint.called(1).await;
    assert_eq!(called[0].json()["instanceID"], platform.bootstrap.instance_id);
    let left = are_given_up(&operator, 1).await;
    assert_eq!(id(&left[0]), id(foreign));
    let audited = post(&client, "/resources/v3alpha/events/_search", json!([{ "type": "failed_event.retried" }])).await;
    assert_eq!(audited.body["result"].as_array().map(Vec::len), Some(1), "{}", audited.body);

    let own = format!("{OF_INSTANCE}/{}/_discard", id(&left[0]));
    assert_eq!(post(&other, &own, reason).await.status, StatusCode::OK);
    are_given_up(&operator, 0).await;
    assert_eq!(endpoint.calls().len(), 1);
}

#[tokio::test]
async fn an_administrator_mends_deliveries_about_the_instance_too() {
    let platform = Platform::start_with(&patient("1"), &[]).await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let (endpoint, _) = failing(&client, json!({ "event": "instance.changed" })).await;
    let path = format!("/resources/v3alpha/instances/{}", platform.bootstrap.instance_id);
    let renamed = send(operator.request(Method::PATCH, &path).json(&json!({ "name": "Renamed" }))).await;
    assert_eq!(renamed.status, StatusCode::OK, "{}", renamed.body);
    let given_up = are_given_up(&operator, 1).await;
    assert_eq!(given_up[0]["aggregateType"], "instance");
    endpoint.reply(Reply::status(204));
    assert_eq!(retry(&client, OF_INSTANCE, &given_up[0]).await.status, StatusCode::OK);
    are_given_up(&operator, 0).await;
    assert_eq!(endpoint.called(2).await.len(), 2);
}

#[tokio::test]
async fn the_list_is_made_again_where_rows_are_lost_and_what_nobody_decides_about_is_forgotten() {
    let flags = [patient("1"), ["--delivery-kept", "3"].map(str::to_owned).to_vec()].concat();
    let platform = Platform::start_with(&flags, &[]).await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let (_endpoint, _) = failing(&client, json!({ "event": "target.added" })).await;
    client.create_target("0").await.expect("it is created");
    client.create_target("1").await.expect("it is created");
    let all = are_given_up(&operator, 2).await;

    let postgres = connect(&platform.postgres_url()).await;
    let lost = postgres.execute("delete from platform.given_up_deliveries", &[]).await.expect("it can be changed");
    assert_eq!(lost, 2);
    assert_eq!(are_given_up(&operator, 2).await, all, "they are in the queue");

    let old = "update platform.given_up_deliveries set last_failed = last_failed - interval '73 hours' where id = $1";
    let first: i64 = id(&all[0]).parse().expect("an id is a number");
    assert_eq!(postgres.execute(old, &[&first]).await.expect("it can be changed"), 1);
    assert_eq!(are_given_up(&operator, 1).await, all[1..]);
    let data = platform.data().display().to_string();
    assert!(run(&["deliveries", "--data-dir", &data]).1.contains("1 given up, 0 waiting"));
}

#[tokio::test]
async fn a_retry_that_dies_on_its_way_is_done_by_the_next_and_the_list_is_made_again_from_the_queue() {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&[servers.flags(), patient("1")].concat(), &[]).await;
    platform.ready().await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let (endpoint, _) = failing(&client, json!({ "event": "target.added" })).await;
    client.create_target("0").await.expect("it is created");
    let before = are_given_up(&operator, 1).await;
    platform.stop().await;
    drop_read_models(&servers.places.postgres_url).await;
    platform.restart(&[("PLATFORM_FAULT", "deliveries.again:1:kill")]).await;
    assert_eq!(are_given_up(&operator, 1).await, before, "it is in the queue");

    endpoint.take();
    endpoint.reply(Reply::status(204));
    let all = operator.request(Method::POST, &format!("{OF_SYSTEM}/_retry")).json(&json!({}));
    // It may die before it answers.
    let _ = all.send().await;
    eventually("it dies", || std::future::ready(platform.process().has_ended().then_some(()))).await;
    platform.restart(&[]).await;
    are_given_up(&operator, 0).await;
    let calls = endpoint.called(1).await;
    assert_eq!(calls[0].json()["event_type"], "target.added");

    // What is given up after a retry is another's business.
    endpoint.reply(Reply::status(503));
    client.create_target("1").await.expect("it is created");
    are_given_up(&operator, 1).await;
    platform.stop().await;
    platform.restart(&[]).await;
    let calls = endpoint.calls().len();
    tokio::time::sleep(Duration::from_secs(2)).await;
    are_given_up(&operator, 1).await;
    assert_eq!(endpoint.calls().len(), calls);
}

#[tokio::test]
async fn deliveries_are_shown_as_retried_until_they_are_made_again() {
    let platform = Platform::start_with(&patient("1"), &[]).await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let (endpoint, hook) = failing(&client, json!({ "event": "target.added" })).await;
    for name in ["0", "1"] {
        client.create_target(name).await.expect("it is created");
    }
    are_given_up(&operator, 2).await;
    endpoint.reply(Reply::status(204));

    let mut postgres = connect(&platform.postgres_url()).await;
    let held = postgres.transaction().await.expect("Postgres answers");
    held.query("select from platform.given_up_deliveries for update", &[]).await.expect("the table is there");
    // Two at once, of whom an administrator is not told who operates the platform.
    let [of_instance, of_system] = [OF_INSTANCE, OF_SYSTEM].map(|path| format!("{path}/_retry"));
    let both = tokio::join!(post(&client, &of_instance, json!([])), post(&operator, &of_system, json!({})));
    for retried in [both.0, both.1] {
        assert_eq!(retried.body["count"], "2", "{}", retried.body);
    }
    let by = async |wanted: Value| {
        let found = given_up(&client, OF_INSTANCE, json!({ "state": "FAILED_EVENT_STATE_RETRYING" })).await;
        (found.len() == 2 && found.iter().all(|one| one["retriedBy"] == wanted)).then_some(())
    };
    let own = json!(platform.bootstrap.service_user.user_id);
    let is_either = async || by(own.clone()).await.or(by(Value::Null).await);
    eventually("they are shown as retried", is_either).await;
    drop(held);
    let gone = async || given_up(&operator, OF_SYSTEM, json!({ "targetId": hook })).await.is_empty().then_some(());
    eventually("they are made", gone).await;
    // Whatever is delivered after it comes last.
    client.create_target("2").await.expect("it is created");
    assert_eq!(endpoint.called(5).await.len(), 5, "each was made again once");
    assert_eq!(endpoint.calls().last().map(|call| call.json()["event_payload"]["name"].clone()), Some(json!("2")));
}
