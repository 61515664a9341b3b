//! Views of failed events: of retried ones, by administrators, in large numbers and sizes.

use std::collections::HashSet;

use eventlog::record::Event;
use jiff::SignedDuration;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    browser::{Browser, link},
    client::{Client, post, send},
    cluster::Cluster,
    eventually,
    forge::{self, Appending},
    platform::Platform,
    process::run,
    servers::Servers,
};

use super::{
    mending::{FAILED, Failing, id_in, is_named, one},
    parking::{failed, rename},
};

pub(super) const OF_INSTANCE: &str = "/resources/v3alpha/failed_events";
/// How many failed events a filter matches.
const MANY: i64 = 1_000_000;
/// The length of a name that a record can hardly contain: a record is a message of at most 1 MiB.
const LARGEST: usize = 1_000_000;

fn state(name: &str) -> Value {
    json!({ "state": format!("FAILED_EVENT_STATE_{name}") })
}

async fn total(caller: &Client, path: &str, body: Value) -> u64 {
    let answer = post(caller, &format!("{path}/_search"), body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.body["details"]["totalResult"].as_str().unwrap_or("0").parse().expect("it is a number")
}

#[tokio::test]
async fn who_has_something_tried_again_is_shown_until_that_is_done() {
    let failing = Failing::start().await;
    let Failing { client, operator, .. } = &failing;
    let [a] = &failing.targets(["a"]).await;
    // History is held where it is, and what waits is read from it.
    let mut postgres = connect(&failing.postgres_url()).await;
    let held = postgres.transaction().await.expect("Postgres answers");
    let lock = "select from platform.checkpoints where projection = 'history' for update";
    held.query(lock, &[]).await.expect("the table is there");
    failing.fails(true);
    rename(client, a, "a renamed").await;
    let ids = [id_in(operator, "targets", a).await, id_in(operator, "targets_index", a).await];
    let retry = format!("{FAILED}/_retry");
    failing.fails(false);
    assert_eq!(post(operator, &retry, json!({})).await.body["count"], "2");
    for id in &ids {
        let retrying = async || {
            let found = one(operator, id).await["failedEvent"].clone();
            (found["state"] == "FAILED_EVENT_STATE_RETRYING").then_some(found)
        };
        let found = eventually("it is being tried again", retrying).await;
        assert!(found["retriedBy"] == "operator" && found["retriedAt"].is_string(), "{found}");
        assert_eq!(found["discardedBy"], Value::Null);
        let seen = send(client.request(Method::GET, &format!("{OF_INSTANCE}/{id}"))).await.body["failedEvent"].clone();
        assert_eq!(
            (&seen["state"], &seen["retriedBy"]),
            (&found["state"], &Value::Null),
            "who operates is no tenant's"
        );
        let once_more = post(operator, &format!("{FAILED}/{id}/_retry"), json!({})).await;
        assert_eq!(once_more.status, StatusCode::OK, "nothing is in its way: {}", once_more.body);
    }
    assert_eq!(failed(operator, json!([state("RETRYING")])).await.len(), 2);
    assert_eq!(failed(operator, json!([state("FAILED")])).await.len(), 0);
    let nobody_decides = post(operator, &retry, json!({ "filters": [state("FAILED")] })).await;
    assert_eq!(nobody_decides.body, json!({}), "all of it is being tried again");
    drop(held);
    is_named(client, a, "a renamed").await;
    eventually("it is done", async || failed(operator, json!([])).await.is_empty().then_some(())).await;

    // What fails again waits for somebody again.
    failing.fails(true);
    rename(client, a, "a renamed twice").await;
    for view in ["targets", "targets_index"] {
        let id = id_in(operator, view, a).await;
        assert_eq!(post(operator, &format!("{FAILED}/{id}/_retry"), json!({})).await.status, StatusCode::OK);
        let again = async || {
            let found = failed(operator, json!([{ "id": id }, state("FAILED")])).await;
            (found.first()?["failureCount"] == "2").then_some(())
        };
        eventually("it failed again", again).await;
    }
    let marks = connect(&failing.postgres_url()).await;
    let left = marks.query_one("select count(*) from platform.retries", &[]).await.expect("the table is there");
    assert_eq!(left.get::<_, i64>(0), 0);
}

/// Inserts failed events, for the rows of a statement as `a (type, id, number)`.
pub(crate) async fn note(url: &str, instance_id: &str, found: &str) {
    let text = format!(
        "insert into platform.failed_events select 'targets', c.version, 0, $1, a.type, a.id, a.number, a.number, 0, 0, '', 1, \
         'made by hand', now(), now() from ({found}) as a (type, id, number), \
         (select max(version) as version from platform.checkpoints where projection = 'targets') as c"
    );
    connect(url).await.execute(&text, &[&instance_id]).await.expect("the table is there");
}

#[tokio::test]
async fn an_administrator_is_not_told_of_what_belongs_to_the_system() {
    let servers = Servers::start().await;
    let platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let (url, instance_id) = (&servers.places.postgres_url, &platform.bootstrap.instance_id);
    let target = client.create_target("own").await.expect("it is made");
    eventually("it is known", async || (client.get_target(&target, None).await.status == 200).then_some(())).await;
    // Of the third one history says nothing.
    let noted = format!("values ('instance', '{instance_id}', 1), ('target', '{target}', 2), ('target', '3', 3)");
    note(url, instance_id, &noted).await;

    let by_hand = json!({ "filters": [{ "errorMessage": "made by hand" }] });
    assert_eq!(total(&operator, FAILED, by_hand).await, 3);
    let found = post(&client, &format!("{OF_INSTANCE}/_search"), json!([])).await;
    let ids: Vec<&Value> =
        found.body["result"].as_array().expect("they are listed").iter().map(|one| &one["id"]).collect();
    assert_eq!((ids, &found.body["details"]["totalResult"]), (vec![&json!("2")], &json!("1")));
    for id in [1, 3] {
        let path = format!("{OF_INSTANCE}/{id}");
        send(client.request(Method::GET, &path)).await.assert_refused("get", 404, "RESOURCE_NOT_FOUND");
        let retried = post(&client, &format!("{path}/_retry"), json!({})).await;
        retried.assert_refused("retry", 404, "RESOURCE_NOT_FOUND");
        let discarded = post(&client, &format!("{path}/_discard"), json!({ "reason": "x" })).await;
        discarded.assert_refused("discard", 404, "RESOURCE_NOT_FOUND");
    }
    assert_eq!(post(&client, &format!("{OF_INSTANCE}/_retry"), json!([])).await.body["count"], "1");
}

#[tokio::test]
async fn a_filter_may_match_a_million() {
    let servers = Servers::start().await;
    let platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let (url, instance_id) = (&servers.places.postgres_url, &platform.bootstrap.instance_id);
    note(url, instance_id, &format!("select 'target', n::text, n from generate_series(1, {MANY}) as n")).await;
    let by_hand = json!([{ "errorMessage": "MADE BY" }, { "viewName": "targets" }]);
    let last = json!({ "filters": by_hand, "query": { "offset": "999998", "limit": 10, "asc": true } });
    // A busy machine may not count them in the time that a read has.
    let answer = eventually("they are found", async || {
        let answer = post(&operator, &format!("{FAILED}/_search"), last.clone()).await;
        (answer.status == StatusCode::OK).then_some(answer)
    })
    .await;
    let ids: Vec<_> = answer.body["result"].as_array().into_iter().flatten().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, [json!("999999"), json!("1000000")]);
    assert_eq!(answer.body["details"]["totalResult"], "1000000");
    many_are_looked_at(&platform).await;
    let retried = post(&operator, &format!("{FAILED}/_retry"), json!({ "filters": by_hand })).await;
    assert_eq!((retried.status, &retried.body["count"]), (StatusCode::OK, &json!("1000000")), "{}", retried.body);
    let event = json!([{ "type": "failed_event.retried" }]);
    let decided = async || {
        let found = post(&operator, "/system/v1/events/_search", json!({ "filters": event })).await;
        (found.body["result"].as_array()?.len() == 1).then_some(())
    };
    eventually("the log has one event of it", decided).await;
    let after = client.create_target("after").await.expect("it is made");
    eventually("it goes on", async || (client.get_target(&after, None).await.status == 200).then_some(())).await;
    many_are_exported(&platform, url).await;
    let of_instance = post(&client, &format!("{OF_INSTANCE}/_search"), json!([{ "id": "1" }])).await;
    assert_eq!(of_instance.body["details"]["totalResult"], "0", "history has no such target");
}

/// Checks that the page and the tool show the first of a million.
async fn many_are_looked_at(platform: &Platform) {
    let mut browser = Browser::signed_in(&platform.bootstrap.issuer, &link(&platform.data(), &[])).await;
    for (path, says) in [
        ("", "of 1,000,000"),
        ("/retry?all=1", "Retry 1,000,000 failed events"),
        ("/discard?all=1", "Discard 1,000 failed events"),
    ] {
        let path = format!("/ui/operate/failed{path}");
        let is_shown = async || {
            let shown = browser.clone().get(&path).await;
            (shown.status == StatusCode::OK && shown.text.contains(says)).then_some(())
        };
        eventually(&path, is_shown).await;
    }
    browser.get("/ui/operate/failed").await.assert_guarded();
    let data = platform.data().display().to_string();
    let (is_done, printed, said) = run(&["failed-events", "list", "--data-dir", &data]);
    assert_eq!((is_done, printed.lines().count()), (true, 1000), "{said}");
    assert!(said.contains("1000 of 1000000 failed events; `failed-events export` prints all of them"), "{said}");
}

/// Checks that the tool exports more than one page, where all events failed at the same time.
async fn many_are_exported(platform: &Platform, url: &str) {
    let data = platform.data().display().to_string();
    let others = "select 'user', n::text, n from generate_series(2000001, 2002500) as n";
    note(url, &platform.bootstrap.instance_id, others).await;
    let (is_done, printed, said) = run(&["failed-events", "export", "--aggregate-type", "user", "--data-dir", &data]);
    let ids: HashSet<String> = printed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("it is JSON")["id"].to_string())
        .collect();
    assert_eq!((is_done, printed.lines().count(), ids.len()), (true, 2500, 2500), "{said}");
}

#[tokio::test]
async fn what_failed_may_be_as_large_as_a_record() {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    platform.stop().await;
    let name = format!("a\0{}", "x".repeat(LARGEST));
    let refused = forge::append_named(servers.nats().await, &platform.bootstrap.instance_id, &name).await;
    platform.restart(&[]).await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let id = id_in(&operator, "targets", &refused).await;
    let found = one(&operator, &id).await;
    let payload = found["event"]["payload"].as_str().expect("it has one");
    assert!(payload.len() > LARGEST && payload.contains("xxxx"), "all of it is shown");
    let mut browser = Browser::signed_in(&platform.bootstrap.issuer, &link(&platform.data(), &[])).await;
    let page = browser.get(&format!("/ui/operate/failed/{id}")).await;
    assert!(page.status == StatusCode::OK && page.text.len() < 100_000, "{} of {}", page.text.len(), page.status);
    assert!(page.text.contains("Only the beginning is shown.") && page.text.contains("Download all of it"));
    assert_eq!(browser.get(&format!("/ui/operate/failed/{id}/payload")).await.text, payload);
    let (is_done, printed, said) =
        run(&["failed-events", "show", &id, "--data-dir", &platform.data().display().to_string()]);
    assert!(is_done && printed.len() > LARGEST, "{said}");
    let found = failed(&operator, json!([{ "aggregateId": refused }])).await;
    assert!(found.iter().all(|one| one.to_string().len() < 4000), "an error quotes nothing of it");
    assert_eq!(post(&operator, &format!("{FAILED}/{id}/_retry"), json!({})).await.status, StatusCode::OK);
    let again = async || {
        let found = failed(&operator, json!([{ "id": id }])).await;
        (found.first()?["failureCount"] == "2").then_some(())
    };
    eventually("it failed again", again).await;
    let discarded = post(&operator, &format!("{FAILED}/{id}/_discard"), json!({ "reason": "made by hand" })).await;
    assert_eq!(discarded.status, StatusCode::OK, "{}", discarded.body);
    let left_out = async || failed(&operator, json!([{ "id": id }])).await.is_empty().then_some(());
    eventually("it is left out", left_out).await;
    let after = client.create_target("after").await.expect("it is made");
    eventually("others go on", async || (client.get_target(&after, None).await.status == 200).then_some(())).await;
}

#[tokio::test]
async fn what_fails_at_another_event_has_failed_there_once() {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    platform.stop().await;
    let instance_id = &platform.bootstrap.instance_id;
    let spoilt = |version| Event { payload: "{".into(), ..forge::named(instance_id, ("7", version), "spoilt") };
    let mut log = Appending::begin(servers.nats().await).await;
    log.put(vec![forge::named(instance_id, ("7", 1), "good"), spoilt(2), spoilt(3)], SignedDuration::ZERO).await;
    platform.restart(&[]).await;
    let operator = platform.operator().await;
    let postgres = connect(&servers.places.postgres_url).await;
    for view in ["targets", "targets_index"] {
        let id = id_in(&operator, view, "7").await;
        assert_eq!(post(&operator, &format!("{FAILED}/{id}/_retry"), json!({})).await.status, StatusCode::OK);
        let counted = async |id: &str, count: &str| {
            let found = failed(&operator, json!([{ "id": id }])).await;
            (found.first()?["failureCount"] == count).then_some(())
        };
        eventually("it failed again", async || counted(&id, "2").await).await;
        let text = "select first_failed::text from platform.failed_events where projection = $1";
        let first = postgres.query_one(text, &[&view]).await.expect("it is there").get::<_, String>(0);
        let reason = json!({ "reason": "made by hand" });
        assert_eq!(post(&operator, &format!("{FAILED}/{id}/_discard"), reason).await.status, StatusCode::OK);
        let other = async || Some(id_in(&operator, view, "7").await).filter(|other| *other != id);
        let other = eventually("it fails at the next one", other).await;
        assert_eq!(counted(&other, "1").await, Some(()), "it has failed there once");
        let later = postgres.query_one(text, &[&view]).await.expect("it is there").get::<_, String>(0);
        assert!(first < later, "{later} is when it first failed there, not {first}");
    }
}

/// A rebuild meets the failures of a year at once, which does not make it a bad build.
#[tokio::test]
async fn what_failed_at_different_times_is_parked_though_it_is_met_at_once() {
    const AT_ONCE: i64 = 90;
    let cluster = Cluster::start().await;
    let mut log = Appending::begin(cluster.servers.nats().await).await;
    for minute in (0..3).rev() {
        let ids = (0..AT_ONCE).map(|number| format!("{}{number:017}", minute + 1));
        let spoilt = |id: String| {
            let event = forge::named(&cluster.bootstrap.instance_id, (&id, 1), "spoilt");
            Event { payload: "{".into(), ..event }
        };
        log.put(ids.map(spoilt).collect(), SignedDuration::from_secs(61 * minute)).await;
    }
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    for projection in ["targets", "targets_index"] {
        let text = "select count(*) from platform.failed_events where projection = $1";
        let all = async || {
            let found = postgres.query_one(text, &[&projection]).await.ok()?;
            (found.get::<_, i64>(0) == 3 * AT_ONCE).then_some(())
        };
        eventually(projection, all).await;
    }
}
