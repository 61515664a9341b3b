//! A projection that stops until somebody acts: operators see that and why, and its read model still answers.

use std::path::Path;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tests::{
    browser::Browser,
    client::{Client, TARGETS, created, post, target},
    cluster::{Cluster, Node},
    endpoint::{Endpoint, Reply, execute},
    eventually, forge,
    process::run,
    system_user::{system_owner, system_token},
};
use view::reaction::REACTIONS;

use super::{nodes::link_to, open};

/// Returns a client of a system user whose key is in the folder, at a node.
fn operator(cluster: &Cluster, node: &Node, folder: &Path) -> Client {
    cluster.client(node).with(system_token(folder, &cluster.bootstrap.issuer))
}

/// Returns a view as it is listed.
async fn view(operator: &Client, name: &str) -> Value {
    let views = post(operator, "/system/v1/views/_search", json!({})).await.body;
    let all = views["result"].as_array().unwrap_or_else(|| panic!("views are listed: {views}"));
    all.iter().find(|view| view["viewName"] == name).cloned().unwrap_or_else(|| panic!("{name} is one"))
}

#[tokio::test]
async fn a_view_that_stands_still_is_told_as_stopped_with_the_reason_until_it_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = system_owner(folder.path()).display().to_string();
    let cluster = Cluster::start().await;
    let [command, query] = ["command", "query"].map(|role| cluster.node(role, role, &[("--system-users", &file)], &[]));
    let mut good = cluster.node("projector", "good", &[], &[]);
    cluster.writes(&command).await;
    cluster.is_ready(&query).await;
    let (client, reader) = (cluster.client(&command), cluster.client(&query));
    let operator = operator(&cluster, &query, folder.path());
    let before = client.create_target("before").await.expect("it is made");
    let reads = async |id: &str| reader.get_target(id, None).await.status;
    eventually("it is read", async || (reads(&before).await == StatusCode::OK).then_some(())).await;
    assert_eq!(view(&operator, "targets").await["state"], "VIEW_STATE_SERVING");
    good.process.end().await;

    forge::append(cluster.servers.nats().await, &cluster.bootstrap.instance_id, 110 * 30_000).await;
    let fault = [("PLATFORM_FAULT", "table.folding/*:1:panic")];
    let mut bad = cluster.node("projector", "bad", &[], &fault);
    for name in ["targets", "targets_index"] {
        // How far it is behind is told by views that go on, which may have just begun.
        let stopped = eventually("it stands still, and others go on", async || {
            let view = view(&operator, name).await;
            (view["state"] == "VIEW_STATE_STOPPED" && view["lag"] != "0").then_some(view)
        })
        .await;
        let reason = stopped["stoppedReason"].as_str().unwrap_or_default();
        assert!(reason.contains("too many aggregates failed"), "{name}: {stopped}");
    }
    assert_eq!(view(&operator, "organizations_index").await["state"], "VIEW_STATE_SERVING", "others go on");
    assert_eq!(reads(&before).await, StatusCode::OK, "what it has is answered");
    let mut browser = Browser::signed_in(&query.url, &link_to(&cluster, &query, folder.path())).await;
    for page in ["/ui/operate", "/ui/operate/projections/targets"] {
        let shown = open(&mut browser, page).await;
        assert!(shown.text.contains("stopped until an operator acts: too many aggregates failed"), "{}", shown.text);
    }
    bad.process.end().await;

    let _last = cluster.node("projector", "last", &[], &[]);
    for name in ["targets", "targets_index"] {
        eventually("it goes on", async || {
            let view = view(&operator, name).await;
            (view["state"] == "VIEW_STATE_SERVING" && view.get("stoppedReason").is_none() && view["lag"] == "0")
                .then_some(())
        })
        .await;
    }
}

/// Returns a reaction as it is listed.
async fn reaction(operator: &Client, name: &str) -> Value {
    let views = post(operator, "/system/v1/views/_search", json!({})).await.body;
    let all = views["reactions"].as_array().unwrap_or_else(|| panic!("reactions are listed: {views}"));
    all.iter().find(|reaction| reaction["name"] == name).cloned().unwrap_or_else(|| panic!("{name} is one"))
}

#[tokio::test]
async fn operators_see_how_far_reactions_are_and_that_nobody_does_them() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = system_owner(folder.path()).display().to_string();
    let cluster = Cluster::start().await;
    let patient =
        [("--system-users", file.as_str()), ("--delivery-pause", "60000"), ("--allow-targets", "127.0.0.0/8")];
    let mut command = cluster.node("command", "command", &patient, &[]);
    let query = cluster.node("query", "query", &[("--system-users", &file)], &[]);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    cluster.writes(&command).await;
    cluster.is_ready(&query).await;
    let (client, operator) = (cluster.client(&command), operator(&cluster, &query, folder.path()));
    let endpoint = Endpoint::replying(Reply::status(503)).await;
    let (hook, _) = endpoint.target(&client, "restWebhook", &json!({})).await;
    execute(&client, json!({ "event": { "event": "target.added" } }), &[&hook]).await;
    let last = created(&client, TARGETS, target("told")).await;
    let sequence = last.body["details"]["sequence"].as_str().expect("it has one").to_owned();

    let waits = async || {
        let told = reaction(&operator, "actions").await;
        (told["waiting"] == "1" && told["processedSequence"] == sequence.as_str()).then_some(told)
    };
    let told = eventually("a delivery waits", waits).await;
    assert_eq!((&told["state"], &told["log"]), (&json!("REACTION_STATE_WORKING"), &json!("EVENTS")), "{told}");
    for name in REACTIONS {
        let has_all = async || {
            let told = reaction(&operator, name).await;
            (told["state"] == "REACTION_STATE_WORKING" && told["lag"] == "0").then_some(())
        };
        eventually(name, has_all).await;
    }
    let mut flags = cluster.servers.flags();
    flags.truncate(flags.len() - 2);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (is_told, said, _) = run(&[&["status"], &flags[..]].concat());
    assert!(is_told && said.contains(&format!("reaction: actions has event {sequence}, lags 0 events")), "{said}");
    let mut browser = Browser::signed_in(&query.url, &link_to(&cluster, &query, folder.path())).await;
    let is_charted = async || {
        let shown = open(&mut browser.clone(), "/ui/operate/projections").await;
        assert!(shown.text.contains("Delivers events to targets"), "{}", shown.text);
        let parts = ["Not done by actions, 60 s: now 1, highest ", "id=\"rw-actions\">1<", "id=\"rr-actions\">"];
        parts.iter().all(|part| shown.text.contains(part)).then_some(())
    };
    eventually("the chart has a second in which a delivery waits", is_charted).await;

    let is_behind = async || {
        let shown = open(&mut browser.clone(), "/ui/operate").await;
        shown.text.contains(" s. Events not processed: 0; not done: 1.").then_some(())
    };
    eventually("it is told that a delivery waits", is_behind).await;

    command.process.end().await;
    let is_silent = async || (reaction(&operator, "actions").await["state"] == "REACTION_STATE_SILENT").then_some(());
    eventually("nobody does it", is_silent).await;
    let shown = open(&mut browser, "/ui/operate").await;
    assert!(shown.text.contains("sent no report lately. Check that a command node runs"), "{}", shown.text);
}
