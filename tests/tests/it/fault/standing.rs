//! Views that stand still as operators see them and let them go on, and what owners of an instance see and do.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    client::{Client, TARGETS, post, send},
    endpoint::{Endpoint, execute},
    eventually, forge,
    tenant::{instance_beside, new_name},
};

use super::{
    mending::{Failing, id_in, is_named},
    parking::{failed, name, rename},
};

const FAILED: &str = "/system/v1/failedevents";
const OF_INSTANCE: &str = "/resources/v3alpha/failed_events";

/// A view as operators see it.
async fn view(operator: &Client, name: &str) -> Value {
    let views = post(operator, "/system/v1/views/_search", json!({})).await;
    let views = views.body["result"].as_array().expect("they are listed");
    views.iter().find(|view| view["viewName"] == name).expect("it is listed").clone()
}

async fn is_in_state(operator: &Client, name: &str, state: &str) -> Value {
    let wanted = format!("VIEW_STATE_{state}");
    eventually(&wanted, async || Some(view(operator, name).await).filter(|view| view["state"] == wanted)).await
}

/// Notes by hand that an event of a target has failed, under the id of the target.
async fn note(failing: &Failing, (id, sequence): (&str, i64)) {
    let text = "insert into platform.failed_events select 'targets', max(version), 0, $2, 'target', $1, $3, $4, \
                0, 0, '', 1, 'made by hand', now(), now() from platform.checkpoints where projection = 'targets'";
    let (number, instance): (i64, _) = (id.parse().expect("ids are numbers"), &failing.platform.bootstrap.instance_id);
    let postgres = connect(&failing.servers.places.postgres_url).await;
    postgres.execute(text, &[&id, instance, &number, &sequence]).await.expect("the table is there");
}

#[tokio::test]
async fn a_view_that_stands_still_says_so_and_goes_on_when_an_operator_lets_it() {
    let mut failing = Failing::start().await;
    let [known] = failing.targets(["known"]).await;
    let made = failing.client.get_target(&known, None).await.body["target"]["details"]["sequence"].clone();
    let sequence = made.as_str().and_then(|text| text.parse().ok()).expect("it has a sequence");
    failing.platform.stop().await;
    let instance_id = failing.platform.bootstrap.instance_id.clone();
    let targets = forge::append(failing.servers.nats().await, &instance_id, 110 * 30_000).await;
    failing.fails(true);
    failing.restart().await;
    let (client, operator) = (&failing.client, &failing.operator);

    let stopped = is_in_state(operator, "targets", "STOPPED").await;
    is_in_state(operator, "targets_index", "STOPPED").await;
    let told = stopped["errorMessage"].as_str().unwrap_or_default();
    assert!(told.contains("too many aggregates failed") && stopped["stoppedSince"].is_string(), "{stopped}");
    let lacks: u64 = stopped["lagEvents"].as_str().and_then(|text| text.parse().ok()).expect("it lags");
    assert!(lacks >= 110 && stopped["lag"].as_str().is_some_and(|lag| lag != "0s"), "{stopped}");
    assert_eq!(view(operator, "users").await["state"], "VIEW_STATE_SERVING");
    assert_eq!(name(client, &known).await, "known", "it answers from what it has");

    // It does not meet what is asked of it, which is seen.
    note(&failing, (&known, sequence)).await;
    assert_eq!(post(operator, &format!("{FAILED}/{known}/_retry"), json!({})).await.status, StatusCode::OK);
    let retrying = async || {
        let found = failed(operator, json!([{ "state": "FAILED_EVENT_STATE_RETRYING" }])).await;
        found.first().filter(|found| found["id"] == known.as_str()).cloned()
    };
    let retrying = eventually("it is tried again", retrying).await;
    assert!(retrying["retriedBy"].is_string() && retrying["retriedAt"].is_string(), "{retrying}");
    assert_eq!(failed(operator, json!([{ "state": "FAILED_EVENT_STATE_FAILED" }])).await.len(), 0);

    // One of a single aggregate lets no view go on, and one of a view no other view.
    failing.fails(false);
    let retry = format!("{FAILED}/_retry");
    let one = post(operator, &retry, json!({ "filters": [{ "aggregateId": "1" }] })).await;
    assert_eq!((one.status, &one.body), (StatusCode::OK, &json!({})));
    let of_view = post(operator, &retry, json!({ "filters": [{ "viewName": "targets" }] })).await;
    assert_eq!((&of_view.body["count"], &of_view.body["resumedViews"]), (&json!("1"), &json!("1")), "{}", of_view.body);
    let going = is_in_state(operator, "targets", "SERVING").await;
    assert_eq!(going["errorMessage"], json!(null), "{going}");
    let there = async || (client.get_target(&targets[109], None).await.status == StatusCode::OK).then_some(());
    eventually("it goes on", there).await;
    eventually("nothing waits", async || failed(operator, json!([])).await.is_empty().then_some(())).await;
    assert_eq!(view(operator, "targets_index").await["state"], "VIEW_STATE_STOPPED");

    let (is_done, said, told) = failing.tool(&["retry", "--all"]);
    assert!(is_done, "{said}{told}");
    is_in_state(operator, "targets_index", "SERVING").await;
}

#[tokio::test]
async fn owners_of_an_instance_see_and_mend_what_is_of_it_and_nothing_else() {
    let failing = Failing::start().await;
    let (client, operator) = (&failing.client, &failing.operator);
    let [a] = &failing.targets(["a"]).await;
    let other = instance_beside(&failing.platform).await.client().await;
    let viewer = failing.platform.client_named("viewer").await;
    failing.fails(true);
    rename(client, a, "a renamed").await;
    let id = id_in(operator, "targets", a).await;
    id_in(operator, "targets_index", a).await;
    failing.fails(false);

    let search = format!("{OF_INSTANCE}/_search");
    let total = async |who: &Client, filters: Value| {
        let answer = post(who, &search, filters).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        answer.body["details"]["totalResult"].as_str().unwrap_or("0").to_owned()
    };
    for who in [client, &viewer] {
        assert_eq!(total(who, json!([])).await, "2");
        assert_eq!(total(who, json!([{ "viewName": "targets" }])).await, "1");
        let shown = send(who.request(Method::GET, &format!("{OF_INSTANCE}/{id}"))).await;
        assert_eq!(shown.body["failedEvent"]["aggregateId"], a.as_str(), "{}", shown.body);
    }
    assert_eq!(total(&other, json!([])).await, "0");
    let own = &failing.platform.bootstrap.instance_id;
    assert_eq!(total(&other, json!([{ "instanceId": own }])).await, "0", "no filter leaves the instance");
    let (retry, discard) = (format!("{OF_INSTANCE}/{id}/_retry"), format!("{OF_INSTANCE}/{id}/_discard"));
    let reason = json!({ "reason": "it is not ours" });
    send(other.request(Method::GET, &format!("{OF_INSTANCE}/{id}"))).await.assert_refused(
        "get",
        404,
        "RESOURCE_NOT_FOUND",
    );
    post(&other, &retry, json!({})).await.assert_refused("retry", 404, "RESOURCE_NOT_FOUND");
    post(&other, &discard, reason.clone()).await.assert_refused("discard", 404, "RESOURCE_NOT_FOUND");
    let nothing = post(&other, &format!("{OF_INSTANCE}/_retry"), json!([])).await;
    assert_eq!((nothing.status, &nothing.body), (StatusCode::OK, &json!({})));
    for path in [&retry, &discard] {
        post(&viewer, path, reason.clone()).await.assert_refused("a viewer", 403, "PERMISSION_DENIED");
    }
    assert_eq!(name(client, a).await, "a");

    assert_eq!(post(client, &retry, json!({})).await.status, StatusCode::OK);
    is_named(client, a, "a renamed").await;
    let many = post(client, &format!("{OF_INSTANCE}/_retry"), json!([])).await;
    assert_eq!((many.status, &many.body["count"]), (StatusCode::OK, &json!("1")), "{}", many.body);
    eventually("nothing waits", async || (total(client, json!([])).await == "0").then_some(())).await;
    assert_eq!(send(client.request(Method::GET, &format!("{TARGETS}/{a}"))).await.status, StatusCode::OK);
}

#[tokio::test]
async fn nodes_forget_what_operators_have_left_out() {
    const LANGUAGES: &str = "/settings/v3alpha/languages";
    let failing = Failing::start().await;
    let (client, operator) = (&failing.client, &failing.operator);
    let endpoint = Endpoint::start().await;
    let (hook, _) = endpoint.target(client, "restWebhook", &json!({})).await;
    let language = async || send(client.request(Method::GET, LANGUAGES)).await.body.to_string();
    let is_french = async || language().await.contains("\"value\":\"fr\"");
    assert!(!is_french().await);
    failing.fails(true);
    let set = client.request(Method::PATCH, LANGUAGES).json(&json!({ "defaultLanguage": { "key": "fr" } }));
    assert_eq!(send(set).await.status, StatusCode::OK);
    let method = "/platform.resources.action.v3alpha.PlatformActions/CreateTarget";
    execute(client, json!({ "request": { "method": method } }), &[&hook]).await;
    let parked = async || Some(failed(operator, json!([])).await).filter(|found| found.len() >= 3);
    let parked = eventually("all wait", parked).await;
    client.create_target("told").await.expect("it is made");
    assert!(is_french().await);
    assert_eq!(endpoint.calls().len(), 1);

    for one in parked {
        let discard = format!("{FAILED}/{}/_discard", one["id"].as_str().expect("it has an id"));
        assert_eq!(post(operator, &discard, json!({ "reason": "a mistake" })).await.status, StatusCode::OK);
    }
    eventually("the language is what it was", async || (!is_french().await).then_some(())).await;
    let silent = async || {
        let before = endpoint.calls().len();
        client.create_target(&new_name()).await.expect("it is made");
        (endpoint.calls().len() == before).then_some(())
    };
    eventually("nobody is called any more", silent).await;
    failing.fails(false);
}
