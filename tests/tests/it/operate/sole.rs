//! Nodes with the name or the number of another node.

use tests::{
    cluster::{Cluster, Node},
    eventually,
};
use tokio::sync::Mutex;

/// Asserts that a node has ended by itself, and has reported why.
async fn assert_refused(mut node: Node, why: &str) {
    let status = node.process.ended().await;
    assert!(!status.success(), "{status}");
    assert!(node.log().contains(why), "{}", node.log());
}

#[tokio::test]
async fn a_second_node_of_one_name_or_number_is_refused() {
    let cluster = Cluster::start().await;
    let _projector = cluster.node("projector", "same", &[], &[]);
    let first = cluster.node("command", "same", &[("--node-number", "7")], &[]);
    cluster.writes(&first).await;

    let named = cluster.node("command", "same", &[("--node-number", "8")], &[]);
    assert_refused(named, "another node runs with the name same").await;
    let numbered = cluster.node("command", "another", &[("--node-number", "7")], &[]);
    assert_refused(numbered, "another node runs with the number 7").await;
    let projecting = cluster.node("projector", "same", &[], &[]);
    assert_refused(projecting, "--node-name").await;

    // What names and numbers are is asked within a role, and who is refused takes nothing with it.
    let _query = cluster.node("query", "same", &[("--node-number", "7")], &[]);
    let second = cluster.node("command", "second", &[("--node-number", "8")], &[]);
    assert!(cluster.client(&first).create_target("by the first").await.is_some());
    drop(first);
    cluster.writes(&second).await;
    // A name is free when its node has ended.
    let again = cluster.node("command", "same", &[("--node-number", "7")], &[]);
    drop(second);
    cluster.writes(&again).await;
}

#[tokio::test]
async fn of_nodes_that_start_together_under_one_name_one_stays() {
    let cluster = Cluster::start().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let nodes = Mutex::new(vec![]);
    nodes.lock().await.extend((0..3).map(|_| cluster.node("query", "same", &[], &[])));
    eventually("all but one have ended", || async {
        let mut nodes = nodes.lock().await;
        nodes.retain_mut(|node| !node.process.has_ended());
        (nodes.len() == 1).then_some(())
    })
    .await;
    cluster.searches(&cluster.client(&nodes.lock().await[0])).await;
}
