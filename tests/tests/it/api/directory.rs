//! Shared reads: a node reads the directory and data keys once for all concurrent requests.

use std::{
    fs,
    time::{Duration, Instant},
};

use base::health::Reached;
use domain::log_class::LogClass;
use eventlog::log::{self, Log};
use tests::{auditor::connect, eventually, platform::Platform, servers::Servers};
use view::{
    database::Database,
    directory::{Directory, Name, SIZE, Sources},
    keyring::{Keyring, MasterKeys, OF_INSTANCE},
    progress::{Announcer, Progress},
    projection::ACCESS,
};

const CALLERS: usize = 50;
/// Longer than an answer would be used if the log did not say that nothing has changed.
const AT_REST: Duration = Duration::from_millis(2500);

/// Returns how often a table was read, by connections that have ended.
async fn reads(url: &str, table: &str) -> i64 {
    let client = connect(url).await;
    // A connection tells what it did when it ends.
    let others = "select 1 from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    eventually("others have ended", async || client.query(others, &[]).await.ok()?.is_empty().then_some(())).await;
    let text =
        "select coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0)::bigint from pg_stat_user_tables where relname = $1";
    client.query_one(text, &[&table]).await.expect("Postgres is there").get(0)
}

#[tokio::test]
async fn what_many_find_too_old_is_loaded_once() {
    let servers = Servers::start().await;
    let url = &servers.places.postgres_url;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    platform.stop().await;
    let client = servers.nats().await;
    let log = Log::open(client.clone(), LogClass::Events, 0, 1).await.expect("the log is there");
    let last = log.last().await.expect("the log can be read").expect("it was set up").position();
    let progress = Progress::listen(&client, 0).await.expect("NATS is there");
    let (instance, user) = (&platform.bootstrap.instance_id, &platform.bootstrap.service_user.user_id);

    for (case, required, announced, most) in [
        ("old enough", last.sequence, last.sequence, 1),
        ("the read model is not there yet", last.sequence + 100, last.sequence, 1),
        ("the read model says that it is further", last.sequence + 1, last.sequence + 1, 5),
    ] {
        let before = reads(url, "users").await;
        let announcer = Announcer::new(client.clone(), &ACCESS, 0);
        let reached = Reached { sequence: announced, stream_sequence: last.stream_sequence };
        let heard = progress.of(&ACCESS);
        announcer.announce(reached).await;
        eventually("it is heard", || async { (*heard.borrow() == reached).then_some(()) }).await;

        let database = Database::new(url, 16).expect("the address is right");
        let ended = log::Reached::new(last.sequence);
        let sources = Sources { log: log.clone(), progress: progress.clone(), ended };
        let opened = Directory::open(sources, database, 0, SIZE).await;
        let directory = opened.expect("the log can be read");
        let ask = || directory.principal(instance, Name::Id(user.clone()), required);
        assert!(ask().await.expect("Postgres is there").is_some());
        for principal in futures::future::join_all((0..CALLERS).map(|_| ask())).await {
            assert_eq!(principal.expect("Postgres is there").expect("the user is there").id, *user);
        }
        if required == last.sequence {
            let until = Instant::now() + AT_REST;
            while Instant::now() < until {
                assert!(ask().await.expect("Postgres is there").is_some());
                tokio::task::yield_now().await;
            }
        }
        drop(directory);
        let read = reads(url, "users").await - before;
        println!("{case}: {read} reads for {CALLERS} callers");
        assert!(read <= most, "{case}: {read} reads");
    }
}

#[tokio::test]
async fn a_data_key_that_many_need_is_loaded_once() {
    let servers = Servers::start().await;
    let url = &servers.places.postgres_url;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    platform.stop().await;
    let text = fs::read_to_string(servers.folder().join("master.key")).expect("the folder has the key");
    let before = reads(url, "data_keys").await;
    let keyring = Keyring::new(
        text.parse::<MasterKeys>().expect("it is a key"),
        Database::new(url, 16).expect("the address is right"),
    );
    let instance = &platform.bootstrap.instance_id;
    let wanted = (0..CALLERS).flat_map(|_| OF_INSTANCE).map(|purpose| keyring.key(instance, purpose));
    for key in futures::future::join_all(wanted).await {
        key.expect("Postgres is there");
    }
    drop(keyring);
    let read = reads(url, "data_keys").await - before;
    println!("{read} reads of {} keys for {CALLERS} callers", OF_INSTANCE.len());
    assert_eq!(usize::try_from(read), Ok(OF_INSTANCE.len()), "each is read once");
}
