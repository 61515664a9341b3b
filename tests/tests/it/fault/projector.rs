//! kill -9 and SIGSTOP of the projector at every step: nothing is applied twice, nothing is skipped.

use std::{collections::HashMap, os::unix::process::ExitStatusExt, time::Duration};

use rustix::process::Signal;
use tests::{auditor::connect, cluster::Cluster, eventually, load::Load};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep},
};

/// How long a projector may take to catch up after another one was killed, including the end of the latter's leases.
const TAKE_OVER: Duration = Duration::from_secs(6);
const SLACK: u32 = 5;

const STEPS: &[(&str, &[u32])] = &[
    ("project.fetched", &[1, 4, 9]),
    ("history.applied", &[1, 3]),
    ("project.applied", &[1, 4, 9]),
    ("project.committed", &[1, 4, 9]),
];

#[tokio::test]
async fn kill_at_every_step_applies_nothing_twice() {
    let cluster = Cluster::start_with_short_leases().await;
    let command = cluster.node("command", "command", &[], &[]);
    cluster.writes(&command).await;
    let watch = Checkpoints::watch(&cluster).await;
    let load = Load::start(&[cluster.client(&command)], 4, "load");
    let mut slowest = Duration::ZERO;
    for (point, hits) in STEPS {
        for hit in *hits {
            let fault = format!("{point}:{hit}:kill");
            let mut projector = cluster.node("projector", "projector", &[], &[("PLATFORM_FAULT", &fault)]);
            assert_eq!(projector.process.ended().await.signal(), Some(9), "{fault}: it died where it should");

            let mut projector = cluster.node("projector", "projector", &[], &[]);
            let begin = Instant::now();
            let audit = cluster.audit().await;
            audit.wait_projected(&cluster.servers.places.postgres_url).await;
            let recovery = begin.elapsed();
            println!("{fault}: at message {} after {recovery:?}", audit.end().stream_sequence);
            slowest = slowest.max(recovery);
            projector.process.end().await;
        }
    }
    let told = load.finish().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let audit = cluster.audit().await;
    audit.assert_told(&told);
    audit.assert_projected(&cluster.servers.places.postgres_url).await;
    watch.end().await;
    println!("slowest recovery {slowest:?}, {} events", audit.events.len());
    assert!(slowest < TAKE_OVER * SLACK, "{slowest:?}");
}

#[tokio::test]
async fn a_projector_that_was_stopped_changes_nothing() {
    let cluster = Cluster::start_with_short_leases().await;
    let command = cluster.node("command", "command", &[], &[]);
    cluster.writes(&command).await;
    let url = &cluster.servers.places.postgres_url;
    let watch = Checkpoints::watch(&cluster).await;
    let load = Load::start(&[cluster.client(&command)], 4, "load");
    for fault in
        ["project.fetched:9:stop", "history.applied:3:stop", "project.applied:9:stop", "project.committed:9:stop"]
    {
        let stopped = cluster.node("projector", fault, &[], &[("PLATFORM_FAULT", fault)]);
        eventually("the projector stands still", || async { stopped.process.is_stopped().then_some(()) }).await;
        let next = cluster.node("projector", &format!("after {fault}"), &[], &[]);
        let begin = Instant::now();
        cluster.audit().await.wait_projected(url).await;
        let gap = begin.elapsed();
        println!("{fault}: another projector has caught up after {gap:?}");
        assert!(gap < TAKE_OVER * SLACK, "{gap:?}");

        // The resumed one goes on with what it had, which changes nothing any more.
        stopped.process.signal(Signal::CONT);
        load.creates(50).await;
        let audit = cluster.audit().await;
        audit.wait_projected(url).await;
        for mut projector in [stopped, next] {
            projector.process.end().await;
        }
    }
    let _projector = cluster.node("projector", "last", &[], &[]);
    let told = load.finish().await;
    let audit = cluster.audit().await;
    audit.assert_told(&told);
    audit.assert_projected(url).await;
    watch.end().await;
}

/// Watches the checkpoints continuously: neither epochs nor sequences ever go back.
struct Checkpoints {
    end: oneshot::Sender<()>,
    watching: JoinHandle<usize>,
}

impl Checkpoints {
    async fn watch(cluster: &Cluster) -> Self {
        let client = connect(&cluster.servers.places.postgres_url).await;
        let (end, mut ended) = oneshot::channel();
        let watching = tokio::spawn(async move {
            let (mut last, mut moves): (HashMap<String, (i64, i64)>, usize) = (HashMap::new(), 0);
            while ended.try_recv().is_err() {
                let text = "select projection, epoch, stream_sequence from platform.checkpoints";
                for row in client.query(text, &[]).await.expect("Postgres is there") {
                    let (projection, epoch, sequence): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
                    let before = last.insert(projection.clone(), (epoch, sequence)).unwrap_or_default();
                    assert!(before.0 <= epoch && before.1 <= sequence, "{projection} went back from {before:?}");
                    moves += usize::from(before != (epoch, sequence));
                }
                sleep(Duration::from_millis(5)).await;
            }
            moves
        });
        Self { end, watching }
    }

    async fn end(self) {
        self.end.send(()).expect("it is watching");
        println!("checkpoints were seen to move {} times", self.watching.await.expect("no checkpoint went back"));
    }
}
