//! Events that a projection cannot process: their aggregates wait, everything else goes on, and a capable build
//! processes them.

use std::time::Duration;

use base::clock;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    auditor::{Audit, connect},
    client::{Client, TARGETS, post, send},
    cluster::Cluster,
    eventually,
    load::Load,
    management::Management,
    platform::Platform,
    proxy::Proxy,
    search_audit::assert_search_results,
    servers::{Servers, drop_read_models},
};
use tokio::time::Instant;

const FAILED: &str = "/system/v1/failedevents/_search";
/// How soon an operator sees a failed event.
const SEEN: Duration = Duration::from_secs(1);
const SLACK: u32 = 5;

pub(super) async fn rename(client: &Client, id: &str, name: &str) {
    let patch = client.request(Method::PATCH, &format!("{TARGETS}/{id}")).json(&json!({ "name": name }));
    assert_eq!(send(patch).await.status, StatusCode::OK);
}

/// Returns the failed events that filters match.
pub(super) async fn failed(operator: &Client, filters: Value) -> Vec<Value> {
    let answer = post(operator, FAILED, json!({ "filters": filters })).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.body["result"].as_array().cloned().unwrap_or_default()
}

pub(super) async fn name(client: &Client, id: &str) -> Value {
    client.get_target(id, None).await.body["target"]["target"]["name"].clone()
}

/// Returns how many targets with a name a search finds.
async fn count(client: &Client, name: &str) -> Option<u64> {
    let filter = json!([{ "name": { "name": name } }]);
    let answer = post(client, &format!("{TARGETS}/_search"), filter).await;
    if answer.status != StatusCode::OK {
        return None;
    }
    answer.body["details"]["totalResult"].as_str().unwrap_or("0").parse().ok()
}

/// Checks what rows and search index report about the same event.
fn assert_told(events: &[Value], instance_id: &str) {
    for (database, view) in [("postgres", "targets"), ("tantivy", "targets_index")] {
        let event = events.iter().find(|event| event["viewName"] == view).expect("it is among them");
        assert_eq!((&event["database"], &event["aggregateType"]), (&json!(database), &json!("target")));
        assert_eq!((&event["failureCount"], &event["state"]), (&json!("1"), &json!("FAILED_EVENT_STATE_FAILED")));
        assert_eq!((&event["instanceId"], &event["failedSequence"]), (&json!(instance_id), &event["sequence"]));
        let told = event["errorMessage"].as_str().unwrap_or_default();
        assert!(told.contains("target.changed") && told.contains("panicked"), "{told}");
    }
}

/// Checks that a retry in the rows fails again, and that the first failure stays the same.
async fn fails_again(operator: &Client, before: &[Value]) {
    let first = before.iter().find(|event| event["viewName"] == "targets").expect("it is among them");
    let again = async || {
        let found = failed(operator, json!([{ "id": first["id"] }])).await.into_iter().next()?;
        (found["failureCount"] == "2").then_some(found)
    };
    let again = eventually("it failed again", again).await;
    assert_eq!((&again["firstFailed"], &first["firstFailed"]), (&first["firstFailed"], &first["lastFailed"]));
    assert_ne!(again["lastFailed"], again["firstFailed"]);
}

/// Returns the time as in metrics.
fn now() -> f64 {
    clock::now().as_duration().as_secs_f64()
}

/// Checks the metrics of the event, which failed after a time.
async fn assert_measured(management: &Management, begin: f64) {
    for (view, count) in [("targets", 1.0), ("targets_index", 1.0), ("organizations_index", 0.0)] {
        let told = async |metric: &str| management.cells(metric, &[&format!("\"{view}\"")]).await;
        for metric in ["platform_projection_failures_total", "platform_projection_parked"] {
            assert_eq!(told(metric).await, [count], "{metric} of {view}");
        }
        // It is counted now and then.
        let is_since = async || {
            let [since] = told("platform_failed_events_oldest_timestamp_seconds").await[..] else { return None };
            // It is told in whole seconds.
            let wanted = if count > 0.0 { begin.floor()..=now() } else { 0.0..=0.0 };
            wanted.contains(&since).then_some(())
        };
        eventually("since when it waits", is_since).await;
    }
}

/// Checks that each filter finds the event, and nothing with another value.
async fn assert_filters(operator: &Client, event: &Value) {
    let other_state = json!("FAILED_EVENT_STATE_DISCARDED");
    for (filter, other) in [
        ("id", json!("1")),
        ("viewName", json!("users")),
        ("instanceId", json!("1")),
        ("aggregateType", json!("user")),
        ("aggregateId", json!("1")),
        ("state", other_state),
        ("errorMessage", json!("no such error")),
    ] {
        let finds = async |value: &Value| {
            let found = failed(operator, json!([{ filter: value }])).await;
            found.iter().any(|found| found["id"] == event["id"])
        };
        assert!(finds(&event[filter]).await && !finds(&other).await, "{filter}");
    }
}

/// Returns how many events failed in views, all of which have processed what comes after one of them.
async fn counts(operator: &Client, names: &[&str], event: &Value) -> Vec<String> {
    let views = post(operator, "/system/v1/views/_search", json!({})).await;
    let count = |view: &&str| {
        let views = views.body["result"].as_array().expect("they are listed");
        let found = views.iter().find(|known| known["viewName"] == *view).expect("it is listed");
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok()).expect("it is a number");
        assert!(number(&found["processedSequence"]) >= number(&event["failedSequence"]), "{found}");
        found["failedEventCount"].as_str().unwrap_or("0").to_owned()
    };
    names.iter().map(count).collect()
}

#[tokio::test]
async fn an_aggregate_whose_event_fails_waits_and_all_others_go_on_until_a_build_can_process_it() {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let client = platform.client().await;
    let (broken, other) = (
        client.create_target("broken").await.expect("it is made"),
        client.create_target("other").await.expect("it is made"),
    );
    eventually("both are found", async || (count(&client, "broken").await? == 1).then_some(())).await;
    platform.stop().await;
    platform.restart(&[("PLATFORM_FAULT", &format!("table.folding/{broken}:1:panic"))]).await;

    let operator = platform.operator().await;
    let (begin, since) = (Instant::now(), now());
    rename(&client, &broken, "renamed").await;
    let of_broken = json!([{ "aggregateId": broken }]);
    let both = async || Some(failed(&operator, of_broken.clone()).await).filter(|failed| failed.len() == 2);
    let events = eventually("an operator sees it", both).await;
    println!("seen {:?} after the write", begin.elapsed());
    assert!(begin.elapsed() < SEEN * SLACK);
    assert_told(&events, &platform.bootstrap.instance_id);
    assert_measured(&platform.management(), since).await;
    assert_eq!(failed(&operator, json!([{ "viewName": "organizations_index" }])).await.len(), 0);
    post(&client, FAILED, json!({})).await.assert_refused("no operator", 403, "PERMISSION_DENIED");

    // What comes after waits behind it, and nobody else does.
    rename(&client, &broken, "renamed twice").await;
    rename(&client, &other, "others go on").await;
    let others = async || {
        (name(&client, &other).await == "others go on" && count(&client, "others go on").await? == 1).then_some(())
    };
    eventually("others go on", others).await;
    assert_eq!(name(&client, &broken).await, "broken");
    let event = &failed(&operator, of_broken.clone()).await[0];
    assert_filters(&operator, event).await;
    let written =
        send(client.request(Method::PATCH, &format!("{TARGETS}/{broken}")).json(&json!({ "timeout": "2s" }))).await;
    let stale = client.get_target(&broken, Some(&written.consistency())).await;
    stale.assert_refused("what was written does not show", 503, "AGGREGATE_PARKED");
    assert_eq!(counts(&operator, &["targets", "targets_index", "organizations_index"], event).await, ["1", "1", "0"]);

    // Starting again with the same build helps nobody, and is counted.
    platform.stop().await;
    platform.restart(&[("PLATFORM_FAULT", &format!("table.folding/{broken}:1:panic"))]).await;
    fails_again(&operator, &events).await;

    platform.stop().await;
    platform.restart(&[]).await;
    let healed = async || failed(&operator, json!([])).await.is_empty().then_some(());
    eventually("nothing is parked any more", healed).await;
    let audit = Audit::of(servers.nats().await).await;
    audit.assert_projected(&servers.places.postgres_url).await;
    assert_search_results(&audit, &client, &platform.bootstrap.instance_id).await;
    let found =
        async || (count(&client, "renamed twice").await? == 1 && count(&client, "broken").await? == 0).then_some(());
    eventually("the index has it", found).await;
}

#[tokio::test]
async fn an_index_knows_after_every_start_what_it_lacks_even_where_postgres_lost_everything() {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let broken = client.create_target("broken").await.expect("it is made");
    let other = client.create_target("other").await.expect("it is made");
    eventually("both are found", async || (count(&client, "broken").await? == 1).then_some(())).await;
    let fault = format!("table.folding/{broken}:1:panic");
    let lacks = async || {
        let of_index = json!([{ "aggregateId": broken }, { "viewName": "targets_index" }]);
        (failed(&operator, of_index).await.len() == 1).then_some(())
    };
    platform.stop().await;
    platform.restart(&[("PLATFORM_FAULT", &fault)]).await;
    rename(&client, &broken, "renamed").await;
    eventually("the index lacks it", lacks).await;

    // Nothing is written in between.
    platform.stop().await;
    platform.restart(&[("PLATFORM_FAULT", &fault)]).await;
    rename(&client, &other, "others go on").await;
    eventually("others go on", async || (count(&client, "others go on").await? == 1).then_some(())).await;
    eventually("the index still lacks it", lacks).await;

    platform.stop().await;
    drop_read_models(&servers.places.postgres_url).await;
    platform.restart(&[("PLATFORM_FAULT", &fault)]).await;
    eventually("the index tells it again", lacks).await;
    assert_eq!(count(&client, "renamed").await, Some(0));

    platform.stop().await;
    platform.restart(&[]).await;
    eventually("the index has it", async || (count(&client, "renamed").await? == 1).then_some(())).await;
    let healed = async || failed(&operator, json!([])).await.is_empty().then_some(());
    eventually("nothing is parked any more", healed).await;
    assert_eq!(count(&client, "broken").await, Some(0));
}

#[tokio::test]
async fn what_nodes_have_in_memory_is_right_where_its_rows_wait() {
    const LANGUAGES: &str = "/settings/v3alpha/languages";
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    platform.stop().await;
    // All that is written is settings.
    let fault = [("PLATFORM_FAULT", "table.folding/*:1:panic")];
    platform.restart(&fault).await;
    let set = client.request(Method::PATCH, LANGUAGES).json(&json!({ "defaultLanguage": { "key": "fr" } }));
    assert_eq!(send(set).await.status, StatusCode::OK);
    let parked = async || (failed(&operator, json!([])).await.len() == 1).then_some(());
    eventually("it waits", parked).await;
    platform.stop().await;
    platform.restart(&fault).await;
    let language = async || {
        let answer = send(client.request(Method::GET, LANGUAGES)).await;
        answer.body.to_string().contains("\"value\":\"fr\"").then_some(())
    };
    eventually("it holds", language).await;
    eventually("it waits still", parked).await;
}

#[tokio::test]
async fn nothing_fails_because_postgres_is_away() {
    let cluster = Cluster::start().await;
    let url = &cluster.servers.places.postgres_url;
    let (proxy, through) = Proxy::before(url).await;
    let command = cluster.node("command", "command", &[], &[]);
    let projector = cluster.node("projector", "projector", &[("--postgres-url", &through)], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    let waits = || projector.log().matches("the projection waits and tries again").count();
    for round in 0..3 {
        let writing = Load::start(&[client.reconnected()], 4, &format!("round {round}"));
        writing.creates(20).await;
        let before = waits();
        proxy.cut();
        writing.creates(20).await;
        eventually("it tries again", async || (waits() > before).then_some(())).await;
        proxy.open();
        assert!(writing.finish().await.refused.is_empty());
    }
    let audit = cluster.audit().await;
    audit.wait_projected(url).await;
    let failed = "select count(*) from platform.failed_events";
    let failed = connect(url).await.query_one(failed, &[]).await.expect("the table is there");
    assert_eq!(failed.get::<_, i64>(0), 0, "to be away is no fault of an event");
}
