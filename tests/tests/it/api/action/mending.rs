//! Deliveries that were given up are failed events like others: seen, made again in order, and left out.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Client, TARGETS, post, send},
    endpoint::{Endpoint, Reply, execute},
    eventually,
    platform::Platform,
    servers::Servers,
};

const FAILED: &str = "/system/v1/failedevents";

/// The deliveries that were given up, those first that failed longest ago.
async fn given_up(operator: &Client, state: Option<&str>) -> Vec<Value> {
    let state = state.map(|state| json!({ "state": format!("FAILED_EVENT_STATE_{state}") }));
    let filters: Vec<Value> = [json!({ "viewName": "actions" })].into_iter().chain(state).collect();
    let body = json!({ "filters": filters, "query": { "asc": true } });
    let answer = post(operator, &format!("{FAILED}/_search"), body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.body["result"].as_array().cloned().unwrap_or_default()
}

async fn are_given_up(operator: &Client, count: usize) -> Vec<Value> {
    let all = async || Some(given_up(operator, None).await).filter(|found| found.len() == count);
    eventually(&format!("{count} are given up"), all).await
}

fn sequence(failed: &Value) -> u64 {
    failed["sequence"].as_str().and_then(|text| text.parse().ok()).expect("it has a sequence")
}

#[tokio::test]
async fn what_was_given_up_is_made_again_in_order_or_left_out() {
    let patient = ["--delivery-tries", "2", "--delivery-pause", "20"].map(str::to_owned);
    let platform = Platform::start_with(&patient, &[]).await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let endpoint = Endpoint::replying(Reply::status(503)).await;
    let (hook, _) = endpoint.target(&client, "restWebhook", &json!({})).await;
    execute(&client, json!({ "event": { "group": "target" } }), &[&hook]).await;
    let id = client.create_target("0").await.expect("it is created");
    for name in ["1", "2"] {
        let patch = client.request(Method::PATCH, &format!("{TARGETS}/{id}")).json(&json!({ "name": name }));
        assert_eq!(send(patch).await.status, StatusCode::OK);
    }

    let mut failed = are_given_up(&operator, 3).await;
    failed.sort_by_key(sequence);
    for one in &failed {
        assert_eq!(
            (&one["database"], &one["targetId"], &one["aggregateId"]),
            (&json!("nats"), &json!(hook), &json!(id))
        );
        assert_eq!((&one["failureCount"], &one["aggregateType"]), (&json!("2"), &json!("target")), "{one}");
        assert!(one["errorMessage"].as_str().is_some_and(|error| error.contains("503")), "{one}");
    }
    let one = |at: usize| format!("{FAILED}/{}", failed[at]["id"].as_str().expect("it has an id"));
    let shown = send(operator.request(Method::GET, &one(0))).await.body;
    assert_eq!((&shown["event"]["type"], &shown["waiting"]), (&json!("target.added"), &Value::Null), "{shown}");
    let own = post(&client, "/resources/v3alpha/failed_events/_search", json!([{ "viewName": "actions" }])).await;
    assert_eq!(own.body["details"]["totalResult"], "3", "{}", own.body);

    // One that fails again is kept again.
    endpoint.take();
    assert_eq!(post(&operator, &format!("{}/_retry", one(0)), json!({})).await.status, StatusCode::OK);
    endpoint.called(2).await;
    let again = async || {
        let found = given_up(&operator, None).await;
        let last = found.last().filter(|_| found.len() == 3)?;
        (last["id"] == failed[0]["id"] && last["lastFailed"] != failed[0]["lastFailed"]).then_some(())
    };
    eventually("it was given up again", again).await;

    let reason = json!({ "reason": "nobody asks for it" });
    assert_eq!(post(&operator, &format!("{}/_discard", one(1)), reason).await.status, StatusCode::OK);
    are_given_up(&operator, 2).await;
    let left_out = given_up(&operator, Some("DISCARDED")).await;
    assert_eq!((&left_out[0]["id"], &left_out[0]["targetId"]), (&failed[1]["id"], &json!(hook)), "{left_out:?}");

    // Those that are left come in the order of their events, though the first one was given up last.
    endpoint.take();
    endpoint.reply(Reply::status(204));
    let many = post(&operator, &format!("{FAILED}/_retry"), json!({ "filters": [{ "viewName": "actions" }] })).await;
    assert_eq!((many.status, &many.body["count"]), (StatusCode::OK, &json!("2")), "{}", many.body);
    let told: Vec<_> = endpoint.called(2).await.iter().map(|call| call.json()["sequence"].as_u64()).collect();
    assert_eq!(told, [Some(sequence(&failed[0])), Some(sequence(&failed[2]))]);
    are_given_up(&operator, 0).await;
    post(&operator, &format!("{}/_retry", one(0)), json!({})).await.assert_refused("done", 404, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn a_retry_that_dies_on_its_way_is_done_by_the_next() {
    let servers = Servers::start().await;
    let patient = ["--delivery-tries", "1", "--delivery-pause", "20"].map(str::to_owned);
    let mut platform = Platform::start_with(&[servers.flags(), patient.to_vec()].concat(), &[]).await;
    platform.ready().await;
    let endpoint = Endpoint::replying(Reply::status(503)).await;
    let client = platform.client().await;
    let (hook, _) = endpoint.target(&client, "restWebhook", &json!({})).await;
    execute(&client, json!({ "event": { "event": "target.added" } }), &[&hook]).await;
    client.create_target("0").await.expect("it is created");
    let operator = platform.operator().await;
    are_given_up(&operator, 1).await;
    for point in ["deliveries.again", "deliveries.mended"] {
        platform.stop().await;
        platform.restart(&[("PLATFORM_FAULT", &format!("{point}:1:kill"))]).await;
        are_given_up(&operator, 1).await;
        let filters = json!({ "filters": [{ "viewName": "actions" }] });
        // It may die before it answers.
        let _ = operator.request(Method::POST, &format!("{FAILED}/_retry")).json(&filters).send().await;
        eventually("it dies", || std::future::ready(platform.process().has_ended().then_some(()))).await;
        let before = endpoint.calls().len();
        if point == "deliveries.mended" {
            endpoint.reply(Reply::status(204));
        }
        platform.restart(&[]).await;
        if point == "deliveries.again" {
            endpoint.called(before + 1).await;
            are_given_up(&operator, 1).await;
        }
    }
    are_given_up(&operator, 0).await;
    assert_eq!(endpoint.calls().last().map(|call| call.json()["event_type"].clone()), Some(json!("target.added")));
}
