//! An upgrade that raises the version of a projection: nodes of the old version answer while a projector of the new one
//! builds it, and nodes of both run side by side.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::Value;
use tests::{
    auditor::connect,
    client::{Client, TARGETS, created, target},
    cluster::Cluster,
    eventually, forge,
};

use super::generations::Clients;

/// The environment variable with the projection whose version a process raises ([`base::fault::raised_version`]).
const NEW: (&str, &str) = ("PLATFORM_RAISED_PROJECTION", "targets");
/// A size of the log, in bytes, for which a projector needs several batches.
const LARGE: usize = 24 * 1024 * 1024;

#[tokio::test]
async fn a_raised_projection_is_built_while_nodes_of_the_old_version_answer() {
    let cluster = Cluster::start().await;
    let ids = forge::append(cluster.servers.nats().await, &cluster.bootstrap.instance_id, LARGE).await;
    let command = cluster.node("command", "command", &[], &[]);
    let old = [cluster.node("projector", "old projector", &[], &[]), cluster.node("query", "old query", &[], &[])];
    let old_reader = cluster.client(&old[1]);
    cluster.writes(&command).await;
    cluster.searches(&old_reader).await;
    cluster.audit().await.wait_projected(&cluster.servers.places.postgres_url).await;
    let reading = readers(&old_reader, &ids);

    let halfway = ("PLATFORM_FAULT", "project.committed:2:stop");
    let projector = cluster.node("projector", "new projector", &[], &[NEW, halfway]);
    eventually("it stands still", async || projector.process.is_stopped().then_some(())).await;
    let query = cluster.node("query", "new query", &[], &[NEW]);
    let waits = eventually("it answers", async || query.management.readiness().await).await;
    assert_eq!(waits.0, 503, "half of a projection is none: {}", waits.1);
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    let rows = "select (select count(*) from targets_1.targets), (select count(*) from targets_2.targets)";
    let row = postgres.query_one(rows, &[]).await.expect("both are there");
    let (all, built): (i64, i64) = (row.get(0), row.get(1));
    assert!(0 < built && built < all, "{built} of {all}");

    projector.process.signal(Signal::CONT);
    cluster.is_ready(&query).await;
    let reader = cluster.client(&query);
    for id in ids.iter().step_by(ids.len() / 20) {
        assert_eq!(name(&reader, id, None).await, name(&old_reader, id, None).await);
    }
    let made = created(&cluster.client(&command), TARGETS, target("seen by both")).await;
    for reader in [&old_reader, &reader] {
        assert_eq!(name(reader, &made.id(), Some(&made.consistency())).await, "seen by both");
    }
    let (reads, slowest) = reading.end().await;
    println!("{reads} reads from the old node, the slowest took {slowest:?}");
    let differing = "select count(*) from targets_1.targets a full join targets_2.targets b using (instance_id, id) \
                     where a::text is distinct from b::text";
    let row = postgres.query_one(differing, &[]).await.expect("both are there");
    assert_eq!(row.get::<_, i64>(0), 0);

    for mut node in old {
        node.process.end().await;
    }
    let made = created(&cluster.client(&command), TARGETS, target("of the new version alone")).await;
    assert_eq!(name(&reader, &made.id(), Some(&made.consistency())).await, "of the new version alone");
}

/// Returns the name of a target as a node answers it.
async fn name(client: &Client, id: &str, token: Option<&str>) -> Value {
    let read = client.get_target(id, token).await;
    assert_eq!(read.status, StatusCode::OK, "{}", read.body);
    read.body["target"]["target"]["name"].clone()
}

/// Starts clients that read targets all the time, of which no read may fail.
fn readers(client: &Client, ids: &[String]) -> Clients {
    Clients::start(4, |number, is_over| {
        let (client, ids) = (client.reconnected(), ids.to_vec());
        async move {
            let (mut reads, mut slowest) = (0, Duration::ZERO);
            while !is_over.load(Ordering::SeqCst) {
                let begin = Instant::now();
                let id = &ids[(number * 7 + reads) % ids.len()];
                let read = client.get_target(id, None).await;
                assert_eq!(read.status, StatusCode::OK, "{}", read.body);
                (reads, slowest) = (reads + 1, slowest.max(begin.elapsed()));
            }
            (reads, slowest)
        }
    })
}
