//! Event executions: events are delivered at least once, in order per aggregate, and what cannot be delivered is
//! stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, TARGETS, send, target},
    endpoint::{Called, Endpoint, Reply, execute},
    eventually,
    platform::Platform,
    process::run,
    tenant::instance_beside,
};
use tokio::time::Instant;

const WEBHOOK: &str = "restWebhook";

fn on(kind: &str, name: &str) -> Value {
    json!({ "event": { kind: name } })
}

fn patient(tries: &str, pause: &str) -> Vec<String> {
    ["--delivery-tries", tries, "--delivery-pause", pause].map(str::to_owned).to_vec()
}

async fn rename(client: &Client, id: &str, name: &str) -> bool {
    let request = client.request(Method::PATCH, &format!("{TARGETS}/{id}")).json(&json!({ "name": name }));
    request.send().await.is_ok_and(|answer| answer.status() == 200)
}

/// Gives each target the same new name, and adds it to the names that the target had.
async fn rename_all(client: &Client, names: &mut BTreeMap<String, Vec<String>>, name: &str) {
    for (id, names) in names {
        assert!(rename(client, id, name).await);
        names.push(name.to_owned());
    }
}

/// Returns the names in calls about targets, in their order, by target.
fn names_by_target(calls: &[Called]) -> BTreeMap<String, Vec<String>> {
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for call in calls {
        let payload = call.json();
        let state = if payload["event_type"] == "target.added" { "" } else { "/to" };
        let name = payload["event_payload"].pointer(&format!("{state}/name")).and_then(Value::as_str);
        let id = payload["aggregateID"].as_str().expect("it has an id").to_owned();
        told.entry(id).or_default().push(name.unwrap_or_default().to_owned());
    }
    told
}

/// Checks that operators see three attempts at a target that was given up, and one at another target.
async fn were_told_lately(platform: &Platform, (of_broken, of_fine): (&str, &str)) {
    let data = platform.data().display().to_string();
    let told = |arguments: &[&str]| run(&[&["target", "deliveries", "--data-dir", &data], arguments].concat());
    let given_up = async || {
        let (is_fine, printed, said) = told(&[of_broken]);
        assert!(is_fine, "{said}");
        printed.lines().next()?.contains("attempt 3, was given up: ").then_some(printed)
    };
    let printed = eventually("its attempts are noted", given_up).await;
    let tried_again = printed.lines().skip(1).filter(|line| line.contains(", failed, and is being retried: "));
    assert_eq!((printed.lines().count(), tried_again.count()), (3, 2), "{printed}");
    let (_, printed, said) = told(&[of_fine, "--json"]);
    let attempts: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert_eq!(attempts.len(), 1, "{printed}{said}");
    assert_eq!(attempts[0]["outcome"], "DELIVERY_OUTCOME_DELIVERED", "{printed}");
    let (is_fine, printed, said) = told(&["4711"]);
    assert!(!is_fine && printed.is_empty() && said.contains("NOT_FOUND"), "{printed}{said}");
}

/// Returns the contents of a platform's queue.
fn queue(platform: &Platform) -> Vec<Value> {
    let data = platform.data().display().to_string();
    let (is_fine, printed, said) = run(&["deliveries", "--json", "--data-dir", &data]);
    assert!(is_fine, "{said}");
    printed.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

async fn is_empty(platform: &Platform) {
    eventually("an empty queue", || std::future::ready(queue(platform).is_empty().then_some(()))).await;
}

#[tokio::test]
async fn an_event_is_told_complete_and_without_secrets_to_the_best_match() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let (exact, group, all) = (Endpoint::start().await, Endpoint::start().await, Endpoint::start().await);
    let (of_exact, _) = exact.target(&client, WEBHOOK, &json!({})).await;
    let (of_group, _) = group.target(&client, "restRequestResponse", &json!({})).await;
    let (of_all, _) = all.target(&client, WEBHOOK, &json!({ "isAsync": true })).await;
    execute(&client, json!({ "event": { "all": true } }), &[&of_all]).await;
    execute(&client, on("group", "target"), &[&of_group]).await;
    execute(&client, on("event", "target.added"), &[&of_exact, &of_exact]).await;
    let created = send(client.request(Method::POST, TARGETS).json(&target("told"))).await;
    let id = created.id();
    assert!(rename(&client, &id, "renamed").await);

    let calls = exact.called(2).await;
    let payload = calls[0].json();
    assert_eq!(payload["event_payload"]["name"], "told");
    assert_eq!(payload["event_payload"]["signing_keys"], json!([{ "valid_until": null }]), "no secret, sealed or not");
    let expected = json!({
        "aggregateID": id, "aggregateType": "target", "resourceOwner": platform.bootstrap.instance_id,
        "instanceID": platform.bootstrap.instance_id, "version": 1, "event_type": "target.added",
        "sequence": created.body["details"]["sequence"].as_str().and_then(|it| it.parse::<u64>().ok()),
        "created_at": payload["created_at"], "userID": platform.bootstrap.service_user.user_id,
        "event_payload": payload["event_payload"],
    });
    assert_eq!(payload, expected);
    assert!(payload["created_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{payload}");
    let ids: Vec<_> = calls.iter().map(|call| call.header("platform-delivery-id")).collect();
    assert_ne!(ids[0], ids[1], "a target that is named twice is told twice");
    assert_eq!(group.called(1).await[0].json()["event_payload"]["fields"], json!(["name"]));
    let of_executions: Vec<_> = all.called(2).await.iter().map(|call| call.json()["event_type"].clone()).collect();
    assert_eq!(of_executions, ["execution.added", "execution.added"], "its own making is none of its events");
    is_empty(&platform).await;
    assert_eq!((exact.calls().len(), group.calls().len(), all.calls().len()), (2, 1, 2));
}

#[tokio::test]
async fn what_fails_is_tried_again_under_the_same_id_and_in_order() {
    let platform = Platform::start_with(&patient("10", "20"), &[]).await;
    let (client, endpoint) = (platform.client().await, Endpoint::replying(Reply::status(500)).await);
    let (hook, _) = endpoint.target(&client, WEBHOOK, &json!({})).await;
    execute(&client, on("group", "target"), &[&hook]).await;
    let id = client.create_target("0").await.expect("it is created");
    for name in ["1", "2", "3"] {
        assert!(rename(&client, &id, name).await);
    }
    let failed = endpoint.called(3).await;
    let first = failed[0].header("platform-delivery-id");
    assert!(failed.iter().all(|call| call.header("platform-delivery-id") == first), "the later ones wait");
    assert!(failed.iter().all(|call| call.body == failed[0].body));
    endpoint.reply(Reply::status(204));
    is_empty(&platform).await;
    let mut names = names_by_target(&endpoint.calls())[&id].clone();
    names.dedup();
    assert_eq!(names, ["0", "1", "2", "3"]);
}

#[tokio::test]
async fn what_finally_fails_is_kept_and_listed_and_holds_up_nothing_else() {
    let platform = Platform::start_with(&patient("3", "20"), &[]).await;
    let client = platform.client().await;
    let (broken, fine) = (Endpoint::replying(Reply::status(503)).await, Endpoint::start().await);
    let (of_broken, _) = broken.target(&client, WEBHOOK, &json!({})).await;
    let (of_fine, _) = fine.target(&client, WEBHOOK, &json!({})).await;
    execute(&client, on("event", "target.added"), &[&of_broken, &of_fine]).await;
    let id = client.create_target("x").await.expect("it is created");
    fine.called(1).await;
    let kept = eventually("a delivery that was given up", || {
        let queue = queue(&platform);
        std::future::ready(queue.first().filter(|it| !it["failed"].is_null()).cloned())
    });
    let kept = kept.await;
    let delivery = &kept["failed"]["delivery"];
    assert_eq!((&kept["failed"]["tries"], broken.calls().len()), (&json!(3), 3));
    assert!(kept["failed"]["error"].as_str().is_some_and(|error| error.contains("503")), "{kept}");
    assert_eq!((&delivery["targetId"], &delivery["eventType"]), (&json!(of_broken), &json!("target.added")));
    assert_eq!(delivery["body"]["aggregateID"], id);
    let (is_fine, printed, _) = run(&["deliveries", "--data-dir", &platform.data().display().to_string()]);
    assert!(is_fine && printed.contains("1 given up, 0 waiting") && printed.contains(&of_broken), "{printed}");
    let counted = platform.management().sum("platform_deliveries_total", &["\"failed\""]).await;
    assert!((counted - 1.).abs() < 0.1, "{counted}");
    were_told_lately(&platform, (&of_broken, &of_fine)).await;
    // A target that is gone is told nothing, and waits for nobody.
    client.create_target("y").await.expect("it is created");
    send(client.request(Method::DELETE, &format!("{TARGETS}/{of_broken}"))).await;
    eventually("nothing waits", || {
        std::future::ready(queue(&platform).iter().all(|it| it["waiting"].is_null()).then_some(()))
    })
    .await;
}

#[tokio::test]
async fn no_event_is_lost_when_the_worker_is_killed_and_none_comes_again_with_a_new_read_model() {
    let mut platform = Platform::start_with(&patient("100", "20"), &[]).await;
    let endpoint = Endpoint::replying(Reply::status(200).after(Duration::from_millis(5))).await;
    let client = platform.client().await;
    let (hook, _) = endpoint.target(&client, WEBHOOK, &json!({})).await;
    execute(&client, on("group", "target"), &[&hook]).await;
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..4 {
        names.insert(client.create_target("0").await.expect("it is created"), vec!["0".to_owned()]);
    }
    for round in 0..3 {
        for number in 0..10 {
            rename_all(&client, &mut names, &format!("{round}.{number}")).await;
        }
        platform.process().kill().await;
        platform.restart(&[]).await;
    }
    // Once these are told, the relay has come past all that it saw before it was killed.
    rename_all(&client, &mut names, "last").await;
    eventually("everything is told", || {
        let told = names_by_target(&endpoint.calls());
        let all =
            names.iter().all(|(id, names)| names.iter().all(|name| told.get(id).is_some_and(|it| it.contains(name))));
        std::future::ready(all.then_some(()))
    })
    .await;
    is_empty(&platform).await;
    let calls = endpoint.calls();
    let mut bodies: BTreeMap<String, Value> = BTreeMap::new();
    for call in &calls {
        let known = bodies.entry(call.header("platform-delivery-id").to_owned()).or_insert_with(|| call.json());
        assert_eq!(*known, call.json(), "one id is one event");
    }
    for (id, names) in &names {
        // The first time that each is told is in order.
        let mut first: Vec<String> = vec![];
        for name in &names_by_target(&calls)[id] {
            if !first.contains(name) {
                first.push(name.clone());
            }
        }
        assert_eq!(first, *names, "{id}");
    }

    let before = endpoint.calls().len();
    platform.stop().await;
    std::fs::remove_dir_all(platform.data().join("postgres")).expect("it is there");
    platform.restart(&[]).await;
    let last = client.create_target("after").await.expect("it is created");
    let calls = endpoint.called(before + 1).await;
    assert_eq!(calls[before].json()["aggregateID"], last, "the first call after a rebuild is of a new event");
    is_empty(&platform).await;
    assert_eq!(endpoint.calls().len(), before + 1);
}

#[tokio::test]
async fn a_crash_between_queue_and_log_tells_nobody_twice_what_was_done() {
    for point in ["deliveries.put", "deliveries.delivered"] {
        let mut platform = Platform::start().await;
        let (client, endpoint) = (platform.client().await, Endpoint::start().await);
        let (hook, _) = endpoint.target(&client, WEBHOOK, &json!({})).await;
        execute(&client, on("event", "target.added"), &[&hook]).await;
        platform.stop().await;
        let fault = format!("{point}:1:kill");
        platform.restart(&[("PLATFORM_FAULT", &fault)]).await;
        let created = client.create_target("x").await;
        let ended = tokio::time::timeout(Duration::from_secs(30), platform.process().ended()).await;
        assert!(ended.is_ok(), "{point}: it is killed");
        platform.restart(&[]).await;
        let calls = endpoint.called(1).await;
        is_empty(&platform).await;
        let calls = if calls.len() < endpoint.calls().len() { endpoint.calls() } else { calls };
        assert!(created.is_none_or(|id| calls[0].json()["aggregateID"] == id), "{point}");
        let first = calls[0].header("platform-delivery-id");
        assert!(calls.iter().all(|call| call.header("platform-delivery-id") == first), "{point}");
        assert_eq!(calls.len(), if point == "deliveries.put" { 1 } else { 2 }, "{point}");
    }
}

#[tokio::test]
async fn thousands_of_deliveries_at_once_keep_nothing_from_going_on() {
    const EVENTS: usize = 30;
    const TARGETS: usize = 200;
    let platform = Platform::start().await;
    let (client, endpoint) = (platform.client().await, Endpoint::start().await);
    let (id, _) = endpoint.target(&client, WEBHOOK, &json!({})).await;
    let mut others = vec![];
    for _ in 0..EVENTS {
        others.push(client.create_target("x").await.expect("it is created"));
    }
    execute(&client, on("event", "target.changed"), &vec![id.as_str(); TARGETS]).await;
    let renamed = others.iter().map(|other| rename(&client, other, "y"));
    assert!(futures::future::join_all(renamed).await.into_iter().all(|is_done| is_done));
    let begun = Instant::now();
    for _ in 0..20 {
        client.create_target("written meanwhile").await.expect("the log is written on");
    }
    println!("20 more writes took {:?}", begun.elapsed());
    let calls = endpoint.called(EVENTS * TARGETS).await;
    let ids: BTreeSet<_> = calls.iter().map(|call| call.header("platform-delivery-id").to_owned()).collect();
    println!("{} deliveries took {:?}", ids.len(), begun.elapsed());
    assert_eq!(ids.len(), EVENTS * TARGETS, "each is told under an id of its own");
    is_empty(&platform).await;
}

#[tokio::test]
async fn an_aggregate_that_fails_holds_up_no_other_of_its_target() {
    let platform = Platform::start_with(&patient("3", "20000"), &[]).await;
    platform.ready().await;
    let (client, endpoint) = (platform.client().await, Endpoint::start().await);
    let (id, _) = endpoint.target(&client, WEBHOOK, &json!({})).await;
    let (failing, other) = (
        client.create_target("x").await.expect("it is created"),
        client.create_target("x").await.expect("it is created"),
    );
    execute(&client, on("event", "target.changed"), &[&id]).await;
    endpoint.reply(Reply::status(500));
    for number in 0..100 {
        assert!(rename(&client, &failing, &format!("{number}")).await);
    }
    endpoint.called(1).await;
    endpoint.take();
    assert!(rename(&client, &other, "told at once").await);
    let calls = endpoint.called(1).await;
    let told = names_by_target(&calls);
    assert_eq!(told.get(&other).map(Vec::len), Some(1), "{told:?}");
}

#[tokio::test]
async fn a_target_has_only_so_many_deliveries_and_takes_no_room_from_others() {
    const MOST: u16 = 40;
    let of_instance = (10 * MOST).to_string();
    let platform = Platform::start_with(&patient("100", "50"), &[("PLATFORM_MOST_DELIVERIES", &of_instance)]).await;
    let (client, endpoint) = (platform.client().await, Endpoint::replying(Reply::status(500)).await);
    let (hook, _) = endpoint.target(&client, WEBHOOK, &json!({})).await;
    execute(&client, on("group", "target"), &[&hook]).await;
    let id = client.create_target("0").await.expect("it is created");
    for number in 1..2 * MOST {
        assert!(rename(&client, &id, &number.to_string()).await);
    }
    let management = platform.management();
    let refused = async || management.sum("platform_deliveries_total", &["\"refused\""]).await;
    let all = async || {
        let queued = queue(&platform);
        let taken = refused().await + f64::from(u16::try_from(queued.len()).expect("they are few"));
        (taken > f64::from(2 * MOST) - 0.5).then_some(queued)
    };
    let queued = eventually("each is queued or refused", all).await;
    let with_bodies = queued.iter().filter(|it| it["waiting"]["body"].is_object()).count();
    // A count does not have what is being put in.
    let [about_all, about_half] = [MOST, MOST / 2].map(usize::from).map(|bound| bound..=bound + 5);
    assert!(about_all.contains(&queued.len()) && about_half.contains(&with_bodies), "{} {with_bodies}", queued.len());

    let fine = Endpoint::start().await;
    let (of_fine, _) = fine.target(&client, WEBHOOK, &json!({})).await;
    execute(&client, on("event", "target.added"), &[&of_fine]).await;
    let beside = client.create_target("beside").await.expect("it is created");
    assert_eq!(fine.called(1).await[0].json()["aggregateID"], beside);
    let other = instance_beside(&platform).await;
    let (client_there, endpoint_there) = (other.client().await, Endpoint::start().await);
    let (hook_there, _) = endpoint_there.target(&client_there, WEBHOOK, &json!({})).await;
    execute(&client_there, on("event", "target.added"), &[&hook_there]).await;
    let there = client_there.create_target("there").await.expect("it is created");
    assert_eq!(endpoint_there.called(1).await[0].json()["aggregateID"], there);

    endpoint.reply(Reply::status(204));
    is_empty(&platform).await;
    let mut names = names_by_target(&endpoint.calls())[&id].clone();
    names.dedup();
    let first: Vec<String> = (0..queued.len()).map(|number| number.to_string()).collect();
    assert_eq!(names, first, "those without bodies get them from history, in order");
    let is_called = async || {
        let name = format!("again at {:?}", Instant::now());
        assert!(rename(&client, &id, &name).await);
        names_by_target(&endpoint.calls())[&id].iter().any(|it| it.starts_with("again")).then_some(())
    };
    eventually("there is room again", is_called).await;
}

#[tokio::test]
async fn a_slow_target_holds_up_no_other() {
    let mut platform = Platform::start().await;
    let client = platform.client().await;
    let (slow, quick) =
        (Endpoint::replying(Reply::status(200).after(Duration::from_secs(20))).await, Endpoint::start().await);
    let (of_slow, _) = slow.target(&client, WEBHOOK, &json!({ "timeout": "60s" })).await;
    let (of_quick, _) = quick.target(&client, WEBHOOK, &json!({})).await;
    execute(&client, on("event", "target.added"), &[&of_slow, &of_quick]).await;
    let begun = Instant::now();
    for _ in 0..20 {
        client.create_target("x").await.expect("it is created");
    }
    quick.called(20).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    platform.process().end().await;
}
