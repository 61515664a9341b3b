//! What is decided about failed events: by administrators of an instance, and in a way that nobody can read.

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
    mending::{Failing, id_in, is_found, is_named},
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
    for payload in
        [&b"{\"view\":\"targets\""[..], b"", b"\xff\"targets\"\"targets_index\"", b"{\"view\":\"targets_index\"}"]
    {
        log.put(vec![forge::discarded(payload)], SignedDuration::ZERO).await;
    }
    failing.start_at("table.folding/*").await;
    is_named(&client, &a, "a renamed").await;
    is_found(&client, "a renamed", 1).await;
    failing.rebuild().await;
    is_named(&client, &a, "a renamed").await;
    is_found(&client, "a renamed", 1).await;
}
