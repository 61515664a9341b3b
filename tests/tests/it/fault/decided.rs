//! Decisions about failed events: by administrators of an instance, and unreadable ones.

use jiff::SignedDuration;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{post, send},
    eventually,
    forge::{self, Appending},
};

use super::{
    failed_events::OF_INSTANCE,
    mending::{FAILED, Failing, id_in, is_found, is_named},
    parking::{failed, name, rename},
};

#[tokio::test]
async fn what_an_administrator_decides_is_done_and_holds_when_views_are_built_again() {
    let mut failing = Failing::start().await;
    let [a, b] = failing.targets(["a", "b"]).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.fails(true);
    rename(&client, &a, "a renamed").await;
    rename(&client, &b, "b left out").await;
    let mut ids = vec![];
    for (view, id) in [("targets", &a), ("targets_index", &a), ("targets", &b), ("targets_index", &b)] {
        ids.push(id_in(&operator, view, id).await);
        let seen = async || {
            let found = send(client.request(Method::GET, &format!("{OF_INSTANCE}/{}", ids.last()?))).await;
            (found.status == StatusCode::OK).then_some(())
        };
        eventually("an administrator sees it", seen).await;
    }
    failing.fails(false);
    assert_eq!((name(&client, &a).await, name(&client, &b).await), (json!("a"), json!("b")));

    // A retry of one alone, then of all that a filter finds.
    let retried = post(&client, &format!("{OF_INSTANCE}/{}/_retry", ids[0]), json!({})).await;
    assert_eq!(retried.status, StatusCode::OK, "{}", retried.body);
    is_named(&client, &a, "a renamed").await;
    let of_index = json!([{ "viewName": "targets_index" }, { "aggregateId": a }]);
    let retried = post(&client, &format!("{OF_INSTANCE}/_retry"), of_index).await;
    assert_eq!((retried.status, &retried.body["count"]), (StatusCode::OK, &json!("1")), "{}", retried.body);
    is_found(&client, "a renamed", 1).await;
    for id in &ids[2..] {
        let reason = json!({ "reason": "nobody needs it" });
        let discarded = post(&client, &format!("{OF_INSTANCE}/{id}/_discard"), reason).await;
        assert_eq!(discarded.status, StatusCode::OK, "{}", discarded.body);
    }
    eventually("nothing waits", async || failed(&operator, json!([])).await.is_empty().then_some(())).await;
    assert_eq!(name(&client, &b).await, "b");
    is_found(&client, "b", 1).await;

    failing.rebuild().await;
    is_named(&client, &a, "a renamed").await;
    is_found(&client, "a renamed", 1).await;
    is_named(&client, &b, "b").await;
    is_found(&client, "b", 1).await;
    is_found(&client, "b left out", 0).await;
    assert!(failed(&operator, json!([])).await.is_empty());
}

#[tokio::test]
async fn a_decision_that_cannot_be_read_is_in_nobodys_way() {
    let mut failing = Failing::start().await;
    let [a] = failing.targets(["a"]).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.fails(true);
    rename(&client, &a, "a renamed").await;
    for view in ["targets", "targets_index"] {
        id_in(&operator, view, &a).await;
    }
    failing.fails(false);
    let nats = failing.stop().await;
    let mut log = Appending::begin(nats).await;
    for payload in [
        &b"{\"view\":\"targets\""[..],
        b"",
        b"\xff\"targets\"\"targets_index\"",
        b"{\"view\":\"targets_index\"}",
        OF_NO_NUMBER,
    ] {
        log.put(vec![forge::discarded(payload)], SignedDuration::ZERO).await;
    }
    failing.start_at("table.folding/*").await;
    is_named(&client, &a, "a renamed").await;
    is_found(&client, "a renamed", 1).await;
    failing.rebuild().await;
    is_named(&client, &a, "a renamed").await;
    is_found(&client, "a renamed", 1).await;

    // Those that can be read are listed beside them.
    let discarded = json!([{ "state": "FAILED_EVENT_STATE_DISCARDED" }]);
    assert!(failed(&operator, discarded.clone()).await.is_empty());
    failing.stop().await;
    failing.start_at("table.folding/*").await;
    failing.fails(true);
    rename(&client, &a, "a left out").await;
    let of_rows = id_in(&operator, "targets", &a).await;
    let before = failed(&operator, json!([{ "id": of_rows }])).await[0].clone();
    let reason = json!({ "reason": "nobody needs it" });
    assert_eq!(post(&operator, &format!("{FAILED}/{of_rows}/_discard"), reason).await.status, StatusCode::OK);
    let listed = async || failed(&operator, discarded.clone()).await.into_iter().next();
    let listed = eventually("it is listed", listed).await;
    for name in ["id", "firstFailed", "lastFailed", "failureCount", "errorMessage", "sequence", "instanceId"] {
        assert_eq!(listed[name], before[name], "{name}");
    }
    assert!(listed["firstFailed"].is_string(), "{listed}");
}

/// A discard with an invalid sequence.
const OF_NO_NUMBER: &[u8] =
    br#"{"view":"targets","instance_id":"1","aggregate_type":"target","aggregate_id":"2","sequence":"x"}"#;
