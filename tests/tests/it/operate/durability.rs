//! Whether NATS syncs what it acknowledges: the settings of the servers with the log, and their number.

use std::{fs, path::Path, process::Stdio};

use eventlog::{
    durability::{Durability, Unsafe},
    flow::Flow,
};
use futures::future::join_all;
use tempfile::TempDir;
use tests::{eventually, ports::free_address, servers::Servers};
use tokio::process::{Child, Command};

/// A NATS server, and the address of its monitoring port.
struct Broker {
    _child: Child,
    _folder: TempDir,
    url: String,
    monitor: String,
}

impl Broker {
    async fn start(program: &Path, sync: &str) -> Self {
        Self::with(program, &format!("sync_interval: \"{sync}\"")).await
    }

    /// Starts a server with these settings of JetStream.
    async fn with(program: &Path, settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let (listen, monitor) = (free_address(), free_address());
        let text = format!(
            "listen: \"{listen}\"\nhttp: \"{monitor}\"\njetstream {{ store_dir: \"{}\", {settings} }}\n",
            folder.path().display()
        );
        let file = folder.path().join("nats.conf");
        fs::write(&file, text).expect("the folder can be written");
        let mut command = Command::new(program);
        command.arg("--config").arg(file).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().expect("it can be started");
        let (url, monitor) = (format!("nats://{listen}"), format!("http://{monitor}"));
        let alone = Durability { monitor_url: Some(monitor.clone()), ..Durability::default() };
        eventually("it tells", || async { alone.storage().await.ok() }).await;
        // It tells how it is before it listens for others.
        eventually("it listens", || async { async_nats::connect(&url).await.ok().map(drop) }).await;
        Self { _child: child, _folder: folder, url, monitor }
    }
}

#[tokio::test]
async fn every_server_that_answers_must_sync_and_a_majority_must_answer() {
    let servers = Servers::start().await;
    let program = servers.nats_program();
    let safe = [Broker::start(&program, "always").await, Broker::start(&program, "always").await];
    let lazy = Broker::start(&program, "2m").await;
    let check = async |replicas: usize, urls: &[&str]| {
        Durability { monitor_url: Some(urls.join(", ")), replicas, ..Durability::default() }.check().await
    };
    let (first, second, away) = (safe[0].monitor.as_str(), safe[1].monitor.as_str(), "http://127.0.0.1:1");
    check(1, &[first]).await.expect("it is the only one");
    check(3, &[first, second, away]).await.expect("one may be away");
    check(3, &[away, first, second]).await.expect("whichever");
    let found = check(3, &[first, second, &lazy.monitor]).await;
    assert!(matches!(found, Err(Unsafe::LazySync(_))), "{found:?}");
    for urls in [&[first][..], &[first, away, away]] {
        let found = check(3, urls).await;
        assert!(matches!(found, Err(Unsafe::TooFew { answered: 1, replicas: 3 })), "{urls:?}: {found:?}");
    }
    let found = check(1, &[away]).await;
    assert!(matches!(found, Err(Unsafe::NoAnswer(..))), "{found:?}");
}

#[tokio::test]
async fn whoever_gives_nats_too_little_memory_is_told_how_much_it_takes() {
    let servers = Servers::start().await;
    let small = Broker::with(&servers.nats_program(), "max_memory_store: 150MB").await;
    let client = async_nats::connect(&small.url).await.expect("it is there");
    let refused = Flow::open(&async_nats::jetstream::new(client), 1).await.expect_err("the second one has no place");
    let told = "NATS: no memory is left for the stream KV_CODES, which takes 96 MiB: \
                set max_memory_store of JetStream to 224MB at least";
    assert_eq!(refused.to_string(), told);
}

#[tokio::test]
async fn nodes_that_start_at_the_same_time_share_what_is_in_the_memory_of_nats() {
    let servers = Servers::start().await;
    let small = Broker::with(&servers.nats_program(), "max_memory_store: 225MB").await;
    let open = || async {
        let client = async_nats::connect(&small.url).await.expect("it is there");
        Flow::open(&async_nats::jetstream::new(client), 1).await.map(drop)
    };
    for round in 0..20 {
        let opened = join_all((0..8).map(|_| open())).await;
        assert!(opened.iter().all(Result::is_ok), "round {round}: {opened:?}");
        let context = async_nats::jetstream::new(async_nats::connect(&small.url).await.expect("it is there"));
        for stream in ["AUTH_REQUESTS", "KV_CODES"] {
            context.delete_stream(stream).await.expect("it is there");
        }
    }
}
