//! The search index on other nodes: writes are found there, and pages are consistent.

use std::collections::HashSet;

use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{Client, TARGETS, send, target},
    cluster::Cluster,
};

/// Rounds of a write and a read, and how many run at a time; `INDEX_ROUNDS` overrides the first.
const ROUNDS: usize = 2_000;
const WRITERS: usize = 100;

#[tokio::test]
async fn who_brings_the_token_of_a_write_finds_it_on_every_query_node() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let queries = [1, 2].map(|number| cluster.node("query", &format!("query {number}"), &[], &[]));
    cluster.writes(&command).await;
    let writer = cluster.client(&command);
    let readers = queries.each_ref().map(|node| cluster.client(node));
    for reader in &readers {
        cluster.searches(reader).await;
    }
    let wanted = tests::how_many("INDEX_ROUNDS", ROUNDS);
    let rounds = (0..WRITERS).map(|lane| {
        let (writer, readers) = (writer.clone(), readers.clone());
        async move {
            let created = send(writer.request(Method::POST, TARGETS).json(&target(&format!("lane {lane}")))).await;
            let (id, path) = (created.id(), format!("{TARGETS}/{}", created.id()));
            for round in 0..wanted / WRITERS {
                let name = format!("lane {lane} round {round}");
                let written = send(writer.request(Method::PATCH, &path).json(&json!({ "name": name }))).await;
                assert_eq!(written.status, StatusCode::OK, "{}", written.body);
                let reader = &readers[round % readers.len()];
                let filter = json!([{ "name": { "name": name } }]);
                let search = reader.request(Method::POST, &format!("{TARGETS}/_search")).json(&filter);
                let search = search.header("consistency-token", written.consistency());
                let found = send(search.header("consistency-wait", "10s")).await;
                assert_eq!(found.body["result"][0]["details"], written.body["details"], "{id}: {}", found.body);
            }
        }
    });
    join_all(rounds).await;
}

#[tokio::test]
async fn a_write_that_prefers_to_wait_is_in_the_read_models_when_it_is_answered() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let mut projector = cluster.node("projector", "projector", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    cluster.writes(&command).await;
    let (writer, reader) = (cluster.client(&command), cluster.client(&query));
    cluster.searches(&reader).await;
    let create = |name: &str, prefer: &str| {
        send(writer.request(Method::POST, TARGETS).json(&target(name)).header("prefer", prefer))
    };
    for round in 0..20 {
        let created = create(&format!("round {round}"), "wait").await;
        assert_eq!(
            (created.status, created.headers["preference-applied"].as_bytes()),
            (StatusCode::CREATED, &b"wait"[..])
        );
        let read = reader.get_target(&created.id(), None).await;
        assert_eq!(read.status, StatusCode::OK, "it is read without a token: {}", read.body);
    }
    projector.process.kill().await;
    let created = create("nobody projects it", "wait=1").await;
    assert_eq!(created.status, StatusCode::CREATED, "it is committed all the same");
    assert!(!created.headers.contains_key("preference-applied"), "{created:?}");
}

#[tokio::test]
async fn pages_neither_repeat_nor_skip_while_others_write() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    cluster.writes(&command).await;
    let (writer, reader) = (cluster.client(&command), cluster.client(&query));
    cluster.searches(&reader).await;
    // All of them tie in what the pages are sorted by.
    let create = |number: usize| {
        let mut target = target(&format!("page {number}"));
        target["timeout"] = json!("1s");
        send(writer.request(Method::POST, TARGETS).json(&target))
    };
    let created = join_all((0..150).map(create)).await;
    let expected: HashSet<String> = created.iter().map(tests::client::Answer::id).collect();
    let newest = created.iter().max_by_key(|answer| answer.sequence()).expect("some were created").consistency();

    let others = tokio::spawn(write_others(writer));
    for walk in 0..20 {
        let (mut seen, mut offset) = (vec![], 0);
        while seen.len() < expected.len() {
            let path = format!(
                "{TARGETS}/_search?query.limit=7&query.asc=true&query.offset={offset}&sortingColumn=TARGET_FIELD_NAME_TIMEOUT"
            );
            let page = reader.request(Method::POST, &path).json(&json!([])).header("consistency-token", &newest);
            let page = send(page).await;
            let result = page.body["result"].as_array().unwrap_or_else(|| panic!("no result: {page:?}"));
            let ids = result.iter().filter_map(|found| found["details"]["id"].as_str().map(str::to_owned));
            seen.extend(ids.filter(|id| expected.contains(id)));
            offset += 7;
            assert!(offset < 200, "walk {walk}: {} of {}", seen.len(), expected.len());
        }
        let distinct: HashSet<String> = seen.iter().cloned().collect();
        assert_eq!((distinct.len(), seen.len()), (expected.len(), expected.len()), "walk {walk}");
        let mut in_order = seen.clone();
        in_order.sort_by_key(|id| id.parse::<u64>().unwrap_or_default());
        assert_eq!(seen, in_order, "walk {walk}: the id breaks ties");
    }
    assert!(!others.is_finished(), "the others wrote all the while");
    others.abort();
}

/// Creates, changes and deletes targets that are sorted after all pages.
async fn write_others(writer: Client) {
    for number in 0.. {
        let created = send(writer.request(Method::POST, TARGETS).json(&target(&format!("other {number}")))).await;
        let path = format!("{TARGETS}/{}", created.id());
        send(writer.request(Method::PATCH, &path).json(&json!({ "timeout": "20s" }))).await;
        if number % 2 == 0 {
            send(writer.request(Method::DELETE, &path)).await;
        }
    }
}
