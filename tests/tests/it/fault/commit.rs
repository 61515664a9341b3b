//! kill -9 of the platform at every step of a commit: nothing acknowledged is lost, nothing is invented.

use std::{os::unix::process::ExitStatusExt, time::Duration};

use tests::{
    auditor::Audit,
    load::{Load, Requested},
    platform::Platform,
    servers::Servers,
};
use tokio::time::Instant;

/// How long a debug build may take from its start to the first committed write, while other tests run on two
/// processors; with five times that as slack.
const RECOVERY: Duration = Duration::from_secs(4);
const SLACK: u32 = 5;

/// Every step of a commit, with the hits at which the process dies. The first two publishes of a start are its barrier
/// records.
const STEPS: &[(&str, &[u32])] = &[
    ("activate.barrier", &[1]),
    ("commit.decided", &[1, 2, 7]),
    ("commit.publishing", &[1, 2, 9]),
    ("commit.published", &[1, 2, 9]),
    // Where a command is repeated with its key.
    ("commit.confirming", &[1, 4]),
    ("commit.answering", &[1, 2, 7]),
    ("commit.answered", &[1, 2, 7]),
];

#[tokio::test]
async fn kill_before_the_record_is_in_the_log() {
    kill_at(&STEPS[..3]).await;
}

#[tokio::test]
async fn kill_when_the_record_is_in_the_log() {
    kill_at(&STEPS[3..]).await;
}

async fn kill_at(steps: &[(&str, &[u32])]) {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let client = platform.client().await;
    let (mut told, mut slowest) = (Requested::default(), Duration::ZERO);
    for (point, hits) in steps {
        for hit in *hits {
            // Under load too, but anywhere.
            platform.process().kill().await;
            platform.respawn(&[("PLATFORM_FAULT", &format!("{point}:{hit}:kill"))]);
            let load = Load::start(std::slice::from_ref(&client), 8, &format!("{point}-{hit}"));
            let status = platform.process().ended().await;
            assert_eq!(status.signal(), Some(9), "{point} {hit}: it died where it should");

            let begin = Instant::now();
            platform.respawn(&[]);
            load.creates(1).await;
            let recovery = begin.elapsed();
            slowest = slowest.max(recovery);
            load.creates(20).await;
            told.add(load.finish().await);
            let audit = Audit::of(servers.nats().await).await;
            audit.assert_told(&told);
            println!(
                "{point} {hit}: writes again after {recovery:?}; {} of {} creates acknowledged, not served: {:?}",
                told.acknowledged.len(),
                told.attempted.len(),
                told.refused
            );
        }
    }
    let audit = Audit::of(servers.nats().await).await;
    audit.assert_projected(&servers.places.postgres_url).await;
    println!("slowest recovery {slowest:?}");
    assert!(slowest < RECOVERY * SLACK, "{slowest:?}");
}
