//! Failed events on the command line: each command, with sentences and with JSON.

use std::process::Stdio;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{TARGETS, send},
    eventually,
    process::{Process, run},
};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::mending::{Failing, id_in};

/// Runs a tool, which must succeed, and returns what it prints.
fn printed(failing: &Failing, arguments: &[&str]) -> String {
    let (is_done, printed, said) = failing.tool(arguments);
    assert!(is_done, "{arguments:?}: {said}");
    printed
}

/// Runs a tool, which must succeed, and returns the JSON values that it prints, one a line.
fn values(failing: &Failing, arguments: &[&str]) -> Vec<Value> {
    let printed = printed(failing, arguments);
    printed.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("JSON: {line}"))).collect()
}

#[tokio::test]
async fn operators_find_look_at_retry_and_discard_on_the_command_line() {
    let failing = Failing::start().await;
    let [a, b] = failing.targets(["a", "b"]).await;
    let watching = ["failed-events", "watch", "--json", "--view", "targets", "--data-dir", &failing.data()];
    let watching: Vec<String> = watching.map(str::to_owned).into();
    let mut watch = Process::spawn(&watching, &[], Stdio::piped());
    let mut watched = BufReader::new(watch.stdout().expect("it is piped")).lines();
    // It watches once it has asked: what fails before is not shown.
    let flags = failing.flags();
    let of_servers: Vec<&str> = flags.iter().map(String::as_str).collect();
    let failed_in_status = || {
        let (is_told, told, said) = run(&[&["status", "--json"], &of_servers[..]].concat());
        assert!(is_told, "{said}");
        serde_json::from_str::<Value>(&told).expect("it is JSON")["failedEvents"].clone()
    };
    let before = failed_in_status();

    failing.fails(true);
    for (id, name) in [(&a, "a2"), (&b, "b2"), (&a, "a3")] {
        let patch = failing.client.request(Method::PATCH, &format!("{TARGETS}/{id}")).json(&json!({ "name": name }));
        assert_eq!(send(patch).await.status, StatusCode::OK);
    }
    let [of_a, of_b] = [&a, &b].map(|id| id_in(&failing.operator, "targets", id));
    let (of_a, of_b) = (of_a.await, of_b.await);
    for _ in 0..2 {
        let line = watched.next_line().await.expect("it can be read").expect("it goes on");
        let seen: Value = serde_json::from_str(&line).expect("it is JSON");
        assert!([&of_a, &of_b].iter().any(|id| seen["id"] == ***id), "{seen}");
    }
    watch.end().await;
    assert_eq!(before, json!([]));
    let told = failed_in_status();
    let of = |view: &str| told.as_array().into_iter().flatten().find(|waits| waits["view"] == view).cloned();
    for view in ["targets", "targets_index"] {
        let waits = of(view).unwrap_or_else(|| panic!("the status tells of {view}: {told}"));
        assert!(waits["count"] == 2 && waits["oldest"].is_string(), "{waits}");
    }

    assert_listed(&failing, (&a, &of_a), &of_b);
    decides(&failing, (&of_a, &of_b)).await;
}

/// Checks that the failed events of an aggregate are found and shown, and those of another one.
fn assert_listed(failing: &Failing, (a, of_a): (&str, &str), of_b: &str) {
    let of_view = ["list", "--view", "targets"];
    assert_eq!(printed(failing, &of_view).lines().count(), 2);
    assert_eq!(printed(failing, &[&of_view[..], &["--since", "1h"]].concat()).lines().count(), 2);
    // A path that is shorter than it looks would name all.
    for folded in [".", "..", ""] {
        let (is_done, _, said) = failing.tool(&["retry", folded]);
        assert!(!is_done && said.contains("check it"), "{folded}: {said}");
    }
    let of_one =
        [&of_view[..], &["--aggregate", a, "--aggregate-type", "target", "--state", "failed", "--json"]].concat();
    let listed = values(failing, &of_one);
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &json!(of_a)));
    let exported = values(failing, &["export", "--view", "targets", "--json"]);
    assert_eq!(exported.iter().map(|found| &found["id"]).collect::<Vec<_>>(), [&json!(of_a), &json!(of_b)]);
    for none in [
        ["--error", "no such text"],
        ["--before", "2020-01-01T00:00:00Z"],
        ["--since", "2999-01-01T00:00:00Z"],
        ["--state", "discarded"],
    ] {
        assert_eq!(printed(failing, &[&["list"], &none[..]].concat()), "", "{none:?}");
    }

    let shown = printed(failing, &["show", of_a]);
    for part in [of_a, "target.changed by", "1 event waits for it", "\"name\": \"a2\""] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown: Value = serde_json::from_str(&printed(failing, &["show", of_a, "--json"])).expect("it is JSON");
    assert_eq!((&shown["failedEvent"]["id"], &shown["waiting"]), (&json!(of_a), &json!("1")));
}

/// Discards one failed event, and retries the other.
async fn decides(failing: &Failing, (of_a, of_b): (&str, &str)) {
    let discarded = values(failing, &["discard", of_b, "--reason", "it is a test", "--json"]);
    assert_eq!(discarded, [json!({ "id": of_b })]);
    let is_listed = async || {
        let found = values(failing, &["list", "--state", "discarded", "--view", "targets", "--json"]);
        (found.len() == 1 && found[0]["id"] == of_b && found[0]["reason"] == "it is a test").then_some(())
    };
    eventually("it is found as discarded", is_listed).await;
    for shown in [&["show", of_b][..], &["list", "--state", "discarded", "--view", "targets"]] {
        let shown = printed(failing, shown);
        assert!(shown.contains("(discarded by operator at ") && shown.contains(": it is a test)"), "{shown}");
    }
    failing.fails(false);
    let retried = values(failing, &["retry", "--view", "targets", "--state", "failed", "--json"]);
    assert_eq!(retried, [json!({ "count": 1 })]);
    let of_view = ["list", "--view", "targets"];
    let is_mended = async || printed(failing, &of_view).is_empty().then_some(());
    eventually("nothing is left", is_mended).await;
    let (is_done, _, said) = failing.tool(&["show", "1"]);
    assert!(!is_done && said.contains("not found"), "{said}");
    let (is_done, _, said) = failing.tool(&["discard", of_a]);
    assert!(!is_done && said.contains("--reason"), "{said}");
    let (is_done, _, said) = failing.tool(&["discard", of_a, "--reason", " "]);
    assert!(!is_done && said.contains("must not be blank"), "{said}");
}
