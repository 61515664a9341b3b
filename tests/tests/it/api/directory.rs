//! The directory of a node: who asks for something newer while it is loaded waits for that load.

use std::time::Duration;

use base::health::Reached;
use eventlog::log::Log;
use tests::{auditor::connect, eventually, platform::Platform, servers::Servers};
use view::{
    database::Database,
    directory::{Directory, Name},
    progress::{Announcer, Progress},
    projection::ACCESS,
};

const CALLERS: usize = 50;

/// How often the users were read, by connections that have ended.
async fn reads(url: &str) -> i64 {
    // A connection tells what it did when it ends.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let text = "select seq_scan + coalesce(idx_scan, 0) from pg_stat_user_tables where relname = 'users'";
    connect(url).await.query_one(text, &[]).await.expect("Postgres is there").get(0)
}

#[tokio::test]
async fn what_many_find_too_old_is_loaded_once() {
    let servers = Servers::start().await;
    let url = &servers.places.postgres_url;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    platform.stop().await;
    let client = servers.nats().await;
    let log = Log::open(client.clone(), 0, 1).await.expect("the log is there");
    let last = log.last().await.expect("the log can be read").expect("it was set up").position();
    let progress = Progress::listen(&client, 0).await.expect("NATS is there");
    let (instance, user) = (&platform.bootstrap.instance_id, &platform.bootstrap.service_user.user_id);

    for (case, required, announced, most) in [
        ("old enough", last.sequence, last.sequence, 1),
        ("the read model is not there yet", last.sequence + 100, last.sequence, 1),
        ("the read model says that it is further", last.sequence + 1, last.sequence + 1, 5),
    ] {
        let before = reads(url).await;
        let announcer = Announcer::new(client.clone(), &ACCESS, 0);
        let reached = Reached { sequence: announced, stream_sequence: last.stream_sequence };
        let heard = progress.of(&ACCESS);
        announcer.announce(reached).await;
        eventually("it is heard", || async { (*heard.borrow() == reached).then_some(()) }).await;

        let database = Database::new(url, 16).expect("the address is right");
        let directory = Directory::new(database, progress.clone(), 0);
        let ask = || directory.principal(instance, Name::Id(user.clone()), required);
        assert!(ask().await.expect("Postgres is there").is_some());
        for principal in futures::future::join_all((0..CALLERS).map(|_| ask())).await {
            assert_eq!(principal.expect("Postgres is there").expect("the user is there").id, *user);
        }
        drop(directory);
        let read = reads(url).await - before;
        println!("{case}: {read} reads for {CALLERS} callers");
        assert!(read <= most, "{case}: {read} reads");
    }
}
