//! Two versions of the platform on one log: nothing of the newer one is lost, and a build that cannot read it reports
//! that.

use crate::oidc::{
    flow::PASSWORD,
    pages::{home::logs_in, title},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    browser::Browser,
    client::{Answer, Client, TARGETS, created, post, send},
    cluster::{Cluster, Node},
    eventually, forge,
    platform::Platform,
    process::NEXT_VERSION,
};
use view::{progress::Progress, projection::PROJECTIONS};

async fn rename(client: &Client, id: &str, name: &str) -> Answer {
    send(client.request(Method::PATCH, &format!("{TARGETS}/{id}")).json(&json!({ "name": name }))).await
}

async fn stop(mut node: Node) {
    node.process.end().await;
}

/// Fails unless the node reports that these parts of it are outdated, and goes on with the others.
async fn are_outdated(node: &Node, parts: &[&str]) {
    let (status, readiness) = node.management.readiness().await.expect("it answers");
    assert_eq!((status, &readiness["state"]), (200, &json!("outdated")));
    for part in parts {
        let check = node.management.check(part).await.expect("it answers");
        assert_eq!(check["state"], "outdated", "{check}");
        let labels = [format!("component=\"{part}\""), "state=\"outdated\"".to_owned()];
        let labels = labels.each_ref().map(String::as_str);
        assert!(node.management.sum("platform_component_state", &labels).await > 0.5);
    }
}

/// Checks that these projections announce that they have stopped, and why.
async fn stand_still(cluster: &Cluster, projections: &[&str]) {
    let progress = Progress::listen(&cluster.servers.nats().await, 0).await.expect("NATS is there");
    for name in projections {
        let projection = PROJECTIONS.iter().find(|projection| projection.name == *name).expect("it is one");
        let is_told =
            || progress.stopped(projection).is_some_and(|reason| reason.contains("is outdated")).then_some(());
        eventually(name, || std::future::ready(is_told())).await;
    }
}

/// Returns the state in the last event of a target.
async fn last_state(cluster: &Cluster, id: &str) -> Value {
    let audit = cluster.audit().await;
    let payload = audit.events_of(id).last().expect("it has events").event.payload.clone();
    let payload: Value = serde_json::from_slice(&payload).expect("it is JSON");
    payload.get("to").unwrap_or(&payload).clone()
}

/// Checks that a target has the members of the next version, its own and those of its key.
fn assert_kept(state: &Value) {
    let kept = json!({ "kept": true });
    let members = ["/of_the_next_version", "/signing_keys/0/of_the_next_version"].map(|path| state.pointer(path));
    assert_eq!(members, [Some(&kept), Some(&kept)], "{state}");
}

#[tokio::test]
async fn what_a_newer_version_wrote_survives_a_change_by_an_older_one() {
    let cluster = Cluster::start().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let newer = || cluster.node("command", "newer", &[], &[NEXT_VERSION]);
    let next = newer();
    cluster.writes(&next).await;
    let id = cluster.client(&next).create_target("by the newer").await.expect("it is created");
    assert_kept(&last_state(&cluster, &id).await);

    stop(next).await;
    let older = cluster.node("command", "older", &[("--node-number", "1")], &[]);
    cluster.writes(&older).await;
    let changed = rename(&cluster.client(&older), &id, "by the older").await;
    assert_eq!(changed.status, StatusCode::OK, "{changed:?}");
    let state = last_state(&cluster, &id).await;
    assert_eq!(state["name"], "by the older");
    assert_kept(&state);
    let own = cluster.client(&older).create_target("without").await.expect("it is created");

    stop(older).await;
    let next = newer();
    cluster.writes(&next).await;
    let client = cluster.client(&next);
    assert_eq!(rename(&client, &id, "again").await.status, StatusCode::OK);
    assert_eq!(rename(&client, &own, "with nothing of it").await.status, StatusCode::OK);
    let audit = cluster.audit().await;
    assert_kept(&last_state(&cluster, &id).await);
    audit.assert_projected(&cluster.servers.places.postgres_url).await;
}

#[tokio::test]
async fn who_cannot_read_an_event_says_so_and_gives_the_work_back() {
    let cluster = Cluster::start().await;
    let projector = cluster.node("projector", "projector", &[], &[]);
    let command = cluster.node("command", "before", &[], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    let archived = client.create_target("archived").await.expect("it is created");
    let other = client.create_target("other").await.expect("it is created");
    stop(command).await;
    forge::append_newer(cluster.servers.nats().await, &cluster.bootstrap.instance_id, &archived).await;

    // Both projections of targets are free for a newer node, and the others go on.
    for line in ["leaves the projection to others", "leaves the search index to others"] {
        eventually(line, || async { projector.log().contains(line).then_some(()) }).await;
    }
    are_outdated(&projector, &["projection.targets", "projection.targets_index"]).await;
    stand_still(&cluster, &["targets", "targets_index"]).await;
    let context = async_nats::jetstream::new(cluster.servers.nats().await);
    let is_held = async |name: &str| {
        let held = eventlog::lease::holders(&context).await.expect("NATS is there");
        held.iter().any(|(held, _)| held == name)
    };
    eventually("the lease is given back", async || (!is_held("projection.targets.1.0").await).then_some(())).await;
    assert!(is_held("projection.history.2.0").await);

    // Of two nodes that cannot read it one writes again, because no newer one is there.
    let nodes = ["one", "two"].map(|name| {
        let number = if name == "one" { "1" } else { "2" };
        cluster.node("command", name, &[("--node-number", number)], &[])
    });
    let client = cluster.client(&nodes[0]);
    let created = eventually("a write", || client.create_target("behind"));
    created.await;
    let refused = rename(&client, &archived, "never").await;
    refused.assert_refused("it cannot be read", 503, "WRITER_UNAVAILABLE");
    assert!(refused.body["message"].as_str().is_some_and(|told| told.contains("newer version")), "{refused:?}");
    eventually("it gives way", || async {
        nodes.iter().any(|node| node.log().contains("so that a node of the newer version can")).then_some(())
    })
    .await;
    // Each gives way once, and then stays.
    for name in ["a", "b", "c", "d"] {
        rename(&client, &archived, "never").await.assert_refused("it cannot be read", 503, "WRITER_UNAVAILABLE");
        let changed = || async { (rename(&client, &other, name).await.status == StatusCode::OK).then_some(()) };
        eventually("other targets can be changed", changed).await;
    }
    for node in &nodes {
        assert!(node.log().contains("this node is outdated"), "{}", node.log());
        assert_eq!(node.log().matches("so that a node of the newer version can").count(), 1, "{}", node.log());
        are_outdated(node, &["writer"]).await;
    }
    assert_eq!(cluster.audit().await.events_of(&archived).len(), 2);
}

const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const USERS: &str = "/resources/v3alpha/users";

#[tokio::test]
async fn what_was_written_before_there_were_references_gets_them() {
    let mut platform = Platform::start_with(&[], &[("PLATFORM_BEFORE_REFERENCES", "1")]).await;
    platform.ready().await;
    let admin = platform.client().await;
    let organization = async |name: &str| created(&admin, ORGANIZATIONS, json!({ "name": name })).await.id();
    let (home, other, gone) = (organization("home").await, organization("other").await, organization("gone").await);
    let user = async |of: &str, name: &str| {
        created(&admin, &format!("{USERS}?ctx.orgId={of}"), json!({ "username": name, "service": {} })).await.id()
    };
    let (manager, holder) = (user(&home, "manager").await, user(&home, "holder").await);
    user(&gone, "left-behind").await;
    let give = async |to: &str, context: &str, role: &str| {
        let membership = json!({ "userId": to, "roles": [role] });
        created(&admin, &format!("{MEMBERSHIPS}?ctx.orgId={context}"), membership).await.id()
    };
    give(&manager, &home, "ORG_USER_MANAGER").await;
    let held = give(&holder, &other, "ORG_OWNER").await;
    let removed = send(admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{gone}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let holders = post(&admin, &format!("{USERS}/{holder}/_generate_secret"), json!({})).await;
    assert_eq!(holders.status, 200, "{}", holders.body);
    let manager = platform.log_in(&admin, &manager, "manager").await;
    platform.stop().await;

    platform.restart(&[]).await;
    let path = format!("{USERS}/{holder}");
    eventually("what the manager may not take away is known", async || {
        let deleted = send(manager.request(Method::DELETE, &path)).await;
        assert_ne!(deleted.status, 200, "{}", deleted.body);
        (deleted.status == 403).then_some(())
    })
    .await;
    let deleted = send(admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{home}"))).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    eventually("the membership goes with its user", async || {
        (send(admin.request(Method::GET, &format!("{MEMBERSHIPS}/{held}"))).await.status == 404).then_some(())
    })
    .await;
    let filters = json!([{ "type": "user.removed" }]);
    let found = post(&admin, "/resources/v3alpha/events/_search", filters).await;
    assert_eq!(found.body["details"]["totalResult"], "3", "with the one left behind: {}", found.body);

    is_done_once(platform).await;
}

#[tokio::test]
async fn people_of_before_are_found_by_their_addresses() {
    let mut platform = Platform::start_with(&[], &[("PLATFORM_BEFORE_CONTACTS", "1")]).await;
    platform.ready().await;
    let admin = platform.client().await;
    let person = json!({ "username": "ada", "human": {
        "data": { "given_name": "Ada", "family_name": "Lovelace" }, "email": { "address": "ada@mail.example", "isVerified": true },
        "password": { "password": PASSWORD },
    } });
    created(&admin, USERS, person).await;
    let issuer = platform.bootstrap.issuer.clone();
    let logged_in =
        async || title(&logs_in(&issuer, &mut Browser::new(&issuer), ("ada@mail.example", PASSWORD)).await).to_owned();
    assert_eq!(logged_in().await, "Error: Enter your password", "the log does not say whose that is");
    platform.stop().await;
    platform.restart(&[]).await;
    eventually("it says so now", async || (logged_in().await == "You are signed in").then_some(())).await;
    is_done_once(platform).await;
}

/// Fails unless data of an earlier version is migrated by the first start, and by no other one.
async fn is_done_once(mut platform: Platform) {
    let end = platform.log_end().await;
    platform.stop().await;
    platform.restart(&[]).await;
    platform.client().await.create_target("after").await.expect("it is created");
    assert_eq!(platform.log_end().await.0, end.0 + 1);
}
