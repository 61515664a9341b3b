//! Pages on query nodes, which do not write: actions are forwarded to the writer, and a link that was used on one node
//! is used on all.

use std::{fs, path::Path};

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    browser::{Browser, link, path_of},
    client::{TARGETS, send},
    cluster::{Cluster, Node},
    eventually,
    system_user::system_user,
};

use super::open;

const LIST: &str = "/ui/operate/failed";

/// Returns a sign-in link to a node.
pub(super) fn link_to(cluster: &Cluster, node: &Node, folder: &Path) -> String {
    link(folder, &["--issuer", &cluster.bootstrap.issuer, "--url", &node.url])
}

#[tokio::test]
async fn a_query_node_has_what_is_asked_done_by_the_node_that_writes() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (owner, viewer) = (folder.path().join("owner"), folder.path().join("viewer"));
    let files = [(&owner, "SYSTEM_OWNER"), (&viewer, "SYSTEM_OWNER_VIEWER")].map(|(folder, role)| {
        let file = folder.join("system-users.json");
        let users = system_user(folder, role);
        fs::write(&file, users.to_string()).expect("the folder can be written");
        file.display().to_string()
    });
    let switch = folder.path().join("fails");
    let fault = format!("table.folding/*:1:panic-while={}", switch.display());
    let cluster = Cluster::start().await;
    let users = |file: usize| [("--system-users", files[file].as_str())];
    let command = cluster.node("command", "command", &users(0), &[]);
    let _projector = cluster.node("projector", "projector", &[], &[("PLATFORM_FAULT", &fault)]);
    let nodes =
        [(0, "one"), (0, "other"), (1, "viewed")].map(|(file, name)| cluster.node("query", name, &users(file), &[]));
    cluster.writes(&command).await;
    for node in &nodes {
        cluster.is_ready(node).await;
    }
    let client = cluster.client(&command);
    let target = client.create_target("a").await.expect("it is made");
    let reads = cluster.client(&nodes[0]);
    let is_read = async || (reads.get_target(&target, None).await.status == StatusCode::OK).then_some(());
    eventually("it is read", is_read).await;

    let link = link_to(&cluster, &nodes[0], &owner);
    let mut browser = used_once(&link, [&nodes[0], &nodes[1]]).await;

    fs::write(&switch, "").expect("the folder can be written");
    let patch = client.request(Method::PATCH, &format!("{TARGETS}/{target}")).json(&json!({ "name": "b" }));
    assert_eq!(send(patch).await.status, StatusCode::OK);
    let fails = async || {
        let shown = open(&mut browser.clone(), LIST).await;
        (shown.text.matches("name=\"id\"").count() == 2).then_some(shown)
    };
    eventually("both views fail", fails).await;
    let shown = open(&mut browser, "/ui/operate/nodes").await;
    for name in ["command", "projector", "other", "writes the log"] {
        assert!(shown.text.contains(name), "{name}: {}", shown.text);
    }

    let viewing = Browser::signed_in(&nodes[2].url, &link_to(&cluster, &nodes[2], &viewer)).await;
    looks_only(viewing).await;

    fs::remove_file(&switch).expect("it is there");
    let signed_in = async |node: &Node| Browser::signed_in(&node.url, &link_to(&cluster, node, &owner)).await;
    retries_on_both([signed_in(&nodes[0]).await, signed_in(&nodes[1]).await]).await;
    let is_named =
        async || (reads.get_target(&target, None).await.body["target"]["target"]["name"] == "b").then_some(());
    eventually("it goes on", is_named).await;
    let heals = async || open(&mut browser.clone(), LIST).await.text.contains("No failed events.").then_some(());
    eventually("nothing is parked any more", heals).await;
    let elsewhere = cluster.client(&command).anonymous(Method::GET, "/ui/operate");
    send(elsewhere).await.assert_refused("no pages", 404, "ROUTE_NOT_FOUND");
}

/// Checks that a link works on one node only once, and returns the browser that was signed in.
async fn used_once(link: &str, nodes: [&Node; 2]) -> Browser {
    let [mut one, mut other] = nodes.map(|node| Browser::new(&node.url));
    let forms = (one.get(path_of(link)).await.hidden(), other.get(path_of(link)).await.hidden());
    let both = tokio::join!(one.post("/ui/operate/sign-in", &forms.0), other.post("/ui/operate/sign-in", &forms.1));
    let mut statuses = [both.0.status, both.1.status];
    statuses.sort();
    assert_eq!(statuses, [StatusCode::SEE_OTHER, StatusCode::FORBIDDEN], "{} {}", both.0.text, both.1.text);
    if both.0.status == StatusCode::SEE_OTHER { one } else { other }
}

/// Checks that two operators can retry everything concurrently on different nodes.
async fn retries_on_both([one, other]: [Browser; 2]) {
    let retries = async |mut browser: Browser| {
        let confirm = open(&mut browser, &format!("{LIST}/retry?all=1")).await;
        browser.post(&format!("{LIST}/retry"), &confirm.hidden()).await
    };
    let both = tokio::join!(retries(one), retries(other));
    let done = [both.0, both.1].map(|done| {
        assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.text);
        done.location().to_owned()
    });
    assert!(done.iter().any(|location| location.contains("done=2")), "{done:?}");
}

/// Checks that an operator with read permissions gets no buttons, and that their forms are refused.
async fn looks_only(mut viewing: Browser) {
    let looked = open(&mut viewing, LIST).await;
    assert!(!looked.text.contains("Retry selected") && !looked.text.contains("Discard selected"), "{}", looked.text);
    let form = looked.form(&[("all", "1"), ("confirmed", "1"), ("reason", "none"), ("until", "9999")]);
    for what in ["retry", "discard"] {
        let refused = viewing.get(&format!("{LIST}/{what}?all=1")).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{what}: {}", refused.text);
        let refused = viewing.post(&format!("{LIST}/{what}"), &form).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{what}: {}", refused.text);
    }
}
