//! Three brokers of which one dies, one is drained, and two are unavailable: acknowledged events are preserved, and
//! work goes on.

use std::time::Duration;

use reqwest::Method;
use tests::{
    auditor::Audit,
    client::{TARGETS, send, target},
    cluster::Cluster,
    load::Load,
};
use tokio::time::Instant;

/// How long the platform may take beyond the broker's own election, which takes 4 to 9 s.
const GOES_ON: Duration = Duration::from_secs(10);
const SLACK: u32 = 5;

#[tokio::test]
async fn brokers_die_are_drained_and_lose_their_quorum_under_load() {
    let (cluster, mut brokers) = Cluster::start_on_three().await;
    let projector = cluster.node("projector", "projector", &[], &[]);
    let command = cluster.node("command", "command", &[], &[]);
    cluster.writes(&command).await;
    let standby = cluster.node("command", "standby", &[("--node-number", "1")], &[]);
    // A node that loses its broker while it starts ends, and its supervisor starts it anew; here nobody would.
    cluster.is_ready(&projector).await;
    cluster.is_ready(&standby).await;
    let client = cluster.client(&command);
    let load = Load::start(std::slice::from_ref(&client), 8, "load");
    load.creates(50).await;

    let leader = brokers.leader("EVENTS_0").await;
    brokers.kill(leader).await;
    let gap = load.creates(50).await;
    println!("50 more creates {gap:?} after the leader was killed");
    assert!(gap < GOES_ON * SLACK);
    brokers.run(leader);
    brokers.ready().await;
    load.creates(50).await;

    let leader = brokers.leader("EVENTS_0").await;
    let begin = Instant::now();
    let (gap, ()) = tokio::join!(load.creates(50), brokers.drain(leader));
    println!("50 more creates {gap:?} after the leader was told to drain; it ended after {:?}", begin.elapsed());
    assert!(gap < GOES_ON * SLACK);
    brokers.run(leader);
    brokers.ready().await;
    load.creates(50).await;

    // Of three one is left: it must not acknowledge anything.
    let leader = brokers.leader("EVENTS_0").await;
    let away = [(leader + 1) % 3, (leader + 2) % 3];
    for member in away {
        brokers.kill(member).await;
    }
    let request = client.request(Method::POST, TARGETS).json(&target("without a quorum"));
    let refused = send(request.timeout(Duration::from_secs(45))).await;
    // Where its turn never came it was certainly not done; else its record was on its way.
    let was_on_its_way = refused.reason() == "OUTCOME_UNKNOWN";
    let reason = if was_on_its_way { "OUTCOME_UNKNOWN" } else { "WRITER_UNAVAILABLE" };
    refused.assert_refused("without a quorum", 503, reason);
    for member in away {
        brokers.run(member);
    }
    let gap = load.creates(50).await;
    println!("50 more creates {gap:?} after the quorum was back");
    assert!(gap < GOES_ON * SLACK);

    let mut told = load.finish().await;
    if was_on_its_way {
        // It may have been committed when the quorum was back.
        told.attempted.insert("without a quorum".to_owned());
    }
    println!("acknowledged: {}; not served: {:?}", told.acknowledged.len(), told.refused);
    let audit = Audit::of(brokers.client().await).await;
    audit.assert_told(&told);
    audit.assert_projected(&cluster.servers.places.postgres_url).await;
}
