//! So many failures at once that the build must be bad: the projection stops, and reports that.

use std::time::Duration;

use base::clock;
use eventlog::record::Event;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    client::{Client, TARGETS, post},
    cluster::{Cluster, Node},
    eventually,
    forge::{self, Appending},
    throughout,
};
use tokio::time::Instant;

/// How long the old answers are observed.
const WHILE: Duration = Duration::from_secs(3);

/// The views that fail.
const VIEWS: [&str; 2] = ["targets", "targets_index"];

async fn stands_still(projector: &Node) {
    for view in VIEWS {
        let stalled = async || {
            let check = projector.management.check(&format!("projection.{view}")).await?;
            (check["state"] == "stalled" && check.to_string().contains("too many aggregates failed")).then_some(())
        };
        eventually("it stands still", stalled).await;
    }
}

async fn parked(postgres: &tokio_postgres::Client, view: &str) -> i64 {
    let text = "select count(*) from platform.failed_events where projection = $1";
    postgres.query_one(text, &[&view]).await.expect("the table is there").get(0)
}

/// Returns how many targets a search finds, and the name that a get returns.
async fn answers(client: &Client, id: &str) -> (Value, Value) {
    let found = post(client, &format!("{TARGETS}/_search"), json!([])).await.body["details"]["totalResult"].clone();
    (found, client.get_target(id, None).await.body["target"]["target"]["name"].clone())
}

#[tokio::test]
async fn a_flood_of_failures_stops_a_projection_and_old_answers_until_another_build_goes_on() {
    let cluster = Cluster::start().await;
    let instance_id = &cluster.bootstrap.instance_id;
    let (url, id) = (&cluster.servers.places.postgres_url, "70");
    // Every event says when its aggregate began.
    let created_at = clock::now().as_microsecond();
    let named = |version, name| Event { created_at, ..forge::named(instance_id, (id, version), name) };
    let mut log = Appending::begin(cluster.servers.nats().await).await;
    log.put(vec![named(1, "old")], SignedDuration::ZERO).await;
    let mut before = cluster.node("projector", "before", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    let client = cluster.client(&query);
    cluster.searches(&client).await;
    let old = (json!("1"), json!("old"));
    eventually("it is known", async || (answers(&client, id).await == old).then_some(())).await;
    before.process.end().await;
    log.put(vec![named(2, "new")], SignedDuration::ZERO).await;
    drop(log);
    forge::append(cluster.servers.nats().await, instance_id, 110 * 30_000).await;

    // All events that are not projected yet are targets'.
    let mut bad = cluster.node("projector", "bad", &[], &[("PLATFORM_FAULT", "table.folding/*:1:panic")]);
    stands_still(&bad).await;
    let postgres = connect(url).await;
    let all = async || parked(&postgres, VIEWS[0]).await + parked(&postgres, VIEWS[1]).await;
    let parked_then = all().await;
    assert!(parked_then < 2 * 100, "a bad build parks little");
    let mut log = Appending::begin(cluster.servers.nats().await).await;
    let mut version = 2;
    throughout(WHILE, "old answers go on, and nothing else does", async || answers(&client, id).await == old).await;
    let end = Instant::now() + WHILE;
    while Instant::now() < end {
        version += 1;
        log.put(vec![named(version, "newest")], SignedDuration::ZERO).await;
        assert_eq!(answers(&client, id).await, old, "old answers go on while events do");
        stands_still(&bad).await;
    }
    println!("{} events came meanwhile", version - 2);
    assert_eq!(all().await, parked_then, "nothing more is parked");
    let history = bad.management.check("projection.history").await.expect("it answers");
    assert_eq!(history["state"], "ok", "others go on: {history}");
    bad.process.end().await;

    let _good = cluster.node("projector", "good", &[], &[]);
    cluster.audit().await.assert_projected(url).await;
    eventually("nothing is parked", async || (all().await == 0).then_some(())).await;
    let newest = async || (answers(&client, id).await.1 == "newest").then_some(());
    eventually("what came meanwhile is answered", newest).await;
    let found = async || {
        let found = post(&client, &format!("{TARGETS}/_search"), json!([{ "name": { "name": "newest" } }])).await;
        (found.body["details"]["totalResult"] == "1").then_some(())
    };
    eventually("what came meanwhile is found", found).await;
}

#[tokio::test]
async fn what_failed_before_a_projector_began_counts_with_what_fails_now() {
    const AT_ONCE: i64 = 60;
    let cluster = Cluster::start().await;
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    let mut log = Appending::begin(cluster.servers.nats().await).await;
    let spoilt = |round: u64| {
        let one = |number| {
            let event = forge::named(&cluster.bootstrap.instance_id, (&format!("{round}{number:017}"), 1), "spoilt");
            Event { payload: "{".into(), ..event }
        };
        (0..AT_ONCE).map(one).collect::<Vec<_>>()
    };
    log.put(spoilt(1), SignedDuration::from_secs(30)).await;
    let mut first = cluster.node("projector", "first", &[], &[]);
    for view in VIEWS {
        eventually(view, async || (parked(&postgres, view).await == AT_ONCE).then_some(())).await;
    }
    let end = log.end();
    let history = async || {
        let check = first.management.check("projection.history").await?;
        (check["place"]["sequence"].as_u64()? >= end).then_some(())
    };
    eventually("history has it", history).await;
    first.process.end().await;
    log.put(spoilt(2), SignedDuration::ZERO).await;
    let second = cluster.node("projector", "second", &[], &[]);
    stands_still(&second).await;
    assert_eq!(parked(&postgres, "targets").await, AT_ONCE);
}
