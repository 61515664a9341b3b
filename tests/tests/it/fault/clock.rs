//! Nodes whose clock differs from that of NATS and Postgres.

use std::time::Duration;

use base::clock;
use tests::{
    clock::Clock,
    cluster::{Cluster, is_writer},
    eventually,
};

const AHEAD: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_node_whose_clock_goes_wrong_leaves_the_writing_to_another_until_it_is_right() {
    let cluster = Cluster::start_with_short_leases().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let own = Clock::of_one_node();
    let wrong = cluster.node("command", "wrong", &[], &[own.environment()]);
    cluster.writes(&wrong).await;
    let right = cluster.node("command", "right", &[("--node-number", "1")], &[]);

    own.set_ahead(AHEAD);
    cluster.writes(&right).await;
    assert!(cluster.client(&right).create_target("by the other").await.is_some());
    assert!(wrong.log().contains("ahead of that of NATS"), "{}", wrong.log());
    eventually("an operator sees why", || async {
        let state = wrong.management.check("writer").await?.to_string();
        state.contains("ahead of that of NATS").then_some(())
    })
    .await;

    own.set_ahead(Duration::ZERO);
    drop(right);
    cluster.writes(&wrong).await;
    assert_no_time_of_the_future(&cluster).await;
}

#[tokio::test]
async fn a_node_that_starts_with_a_wrong_clock_writes_nothing() {
    let cluster = Cluster::start_with_short_leases().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let own = Clock::of_one_node();
    own.set_ahead(AHEAD);
    let wrong = cluster.node("command", "wrong", &[], &[own.environment()]);
    eventually("it says so", || async { wrong.log().contains("while its clock is wrong").then_some(()) }).await;
    assert!(!is_writer(&cluster.client(&wrong)).await);
    own.set_ahead(Duration::ZERO);
    cluster.writes(&wrong).await;
    assert_no_time_of_the_future(&cluster).await;
}

/// A record with a time in the future would hold back the times of all later ones.
async fn assert_no_time_of_the_future(cluster: &Cluster) {
    let until = clock::now() + AHEAD / 2;
    for record in cluster.audit().await.records {
        assert!(record.committed_at() < until, "{record:?}");
    }
}
