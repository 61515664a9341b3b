//! `platform doctor`: it reports no fault on a good platform, and the remedy on every other.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio, time::Duration};

use async_nats::jetstream::{self, stream::Config};
use domain::log_class::LogClass;
use eventlog::log::Log;
use jiff::SignedDuration;
use serde_json::Value;
use tests::{
    auditor::connect,
    cluster::{Cluster, Node},
    eventually,
    forge::{self, Forged},
    platform::Platform,
    ports::free_port,
    process::{run, server},
    servers::Servers,
};
use tokio::process::Command;

/// Runs the doctor, and returns whether nothing failed, and its lines.
fn doctor(words: &[&str]) -> (bool, String) {
    let (is_success, out, told) = run(&[&["doctor"], words].concat());
    println!("{out}{told}");
    assert!(!out.is_empty() && out.contains("\nfail ") != is_success, "it ends with 1 when something fails");
    (is_success, out)
}

/// Fails unless a line begins like this and has these words.
fn assert_line(out: &str, begin: &str, words: &[&str]) {
    let is_it = |line: &str| line.starts_with(begin) && words.iter().all(|word| line.contains(word));
    assert!(out.lines().any(is_it), "no line {begin:?} with {words:?} in:\n{out}");
}

/// Returns the flags of servers, with some of them replaced.
fn flags(servers: &Servers, instead: &[(&str, &str)]) -> Vec<String> {
    let mut flags = servers.flags();
    for (flag, value) in instead {
        let place = flags.iter().position(|word| word == flag).expect("it is given");
        (*value).clone_into(&mut flags[place + 1]);
    }
    flags
}

fn as_strs(flags: &[String]) -> Vec<&str> {
    flags.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn a_good_platform_is_told_to_be_good() {
    let mut platform = Platform::start().await;
    platform.ready().await;
    let data = platform.data().display().to_string();
    let (before, _) = platform.log_end().await;
    let (is_success, out, told) = run(&["doctor", "--data-dir", &data, "--index-dir", &data, "--json"]);
    assert!(is_success, "{out}{told}");
    let report: Value = serde_json::from_str(&out).expect("it is JSON");
    assert_eq!(report["ok"], true);
    let mut seen = vec![];
    for check in report["checks"].as_array().expect("they are a list") {
        let name = check["check"].as_str().expect("it has a name");
        // This is of the machine that the test runs on.
        let is_of_machine = ["open files", "data folder", "index folder", "nats storage"].contains(&name);
        assert!(is_of_machine || (check["status"] == "ok" && check["remedy"].is_null()), "{check}");
        seen.push(name);
    }
    seen.dedup();
    let all = [
        "platform",
        "open files",
        "data folder",
        "index folder",
        "master key",
        "nats",
        "nats version",
        "durability",
        "jetstream",
        "nats storage",
        "max_payload",
        "log",
        "log messages",
        "log",
        "log messages",
        "nats clock",
        "stream",
        "postgres",
        "postgres version",
        "postgres disk",
        "schemas",
        "postgres clock",
        "read model",
        "master key",
    ];
    assert_eq!(seen, all);
    assert_eq!(platform.log_end().await.0, before);
    other_flags_tell_more(&platform);
    another_log_is_told(&platform).await;

    platform.stop().await;
    let (is_success, out) = doctor(&["--data-dir", &data]);
    assert!(!is_success);
    assert_line(&out, "fail  nats ", &["nothing runs on", "--nats-url"]);
    assert_line(&out, "fail  postgres ", &["nothing runs on", "--postgres-url"]);
}

fn other_flags_tell_more(platform: &Platform) {
    let data = platform.data().display().to_string();
    // The same servers by their addresses; nobody is given who tells whether NATS syncs.
    let ((nats, token), postgres) = (platform.nats(), platform.postgres_url());
    let by_address = ["--nats-url", &nats, "--nats-token", &token, "--postgres-url", &postgres];
    let (is_success, out) = doctor(&by_address);
    assert!(!is_success);
    assert_line(&out, "fail  durability", &["--nats-monitor-url", "--unsafe-durability"]);
    let (is_success, out) = doctor(&[&by_address[..], &["--unsafe-durability"]].concat());
    assert!(is_success);
    assert_line(&out, "warn  durability", &["may be lost", "sync_interval: always"]);

    let (_, out) = doctor(&["--data-dir", &data, "--nats-replicas", "3"]);
    assert_line(&out, "fail  log", &["EVENTS_0 has fewer replicas than asked for", "nats stream edit"]);
    assert_line(&out, "fail  stream", &["OBJ_INDEX_FILES", "fewer replicas"]);

    let key = platform.data().join("master.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let (is_success, out) = doctor(&["--data-dir", &data]);
    assert!(!is_success);
    assert_line(&out, "fail  master key", &["mode 644", "chmod 600"]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let (is_success, out) = doctor(&["--data-dir", &data]);
    assert!(is_success);
    assert_line(&out, "warn  master key", &["mode 640", "chmod 600"]);
    let other = platform.data().join("node-id").display().to_string();
    let (_, out) = doctor(&["--data-dir", &data, "--master-key-file", &other]);
    assert_line(&out, "fail  master key", &["node-id", "64 hexadecimal digits"]);
}

async fn another_log_is_told(platform: &Platform) {
    let servers = Servers::start().await;
    let postgres = platform.postgres_url();
    let mut forged = Forged::begin(servers.nats().await).await;
    for _ in 0..5 {
        forged.put(vec![], |_| {}).await;
    }
    let mixed = flags(&servers, &[("--postgres-url", &postgres)]);
    let (is_success, out) = doctor(&as_strs(&mixed));
    assert!(!is_success);
    assert_line(&out, "fail  read model", &["history_2", "is missing in this log", "--postgres-url", "last copy"]);
}

#[tokio::test]
async fn what_is_not_set_up_is_left_so() {
    let servers = Servers::start().await;
    let all = servers.flags();
    let (is_success, out) = doctor(&as_strs(&all));
    assert!(is_success, "a platform can begin here");
    assert_line(&out, "warn  log", &["there is no stream EVENTS_0", "platform standalone"]);
    assert_line(&out, "warn  stream", &["KV_HOLDERS", "the first node"]);
    assert_line(&out, "warn  read model", &["history_2 are missing"]);
    let account = jetstream::new(servers.nats().await).query_account().await.expect("NATS is there");
    assert_eq!(account.streams, 0, "a look makes nothing");
    let postgres = connect(&servers.places.postgres_url).await;
    let schemas = postgres.query("select 1 from pg_namespace where nspname in ('platform', 'history_2')", &[]).await;
    assert!(schemas.expect("Postgres is there").is_empty(), "a look makes nothing");
    let (is_success, out) = doctor(&[]);
    assert!(!is_success);
    assert_line(&out, "fail  nats ", &["--nats-url", "--data-dir"]);
    assert_line(&out, "fail  postgres ", &["--postgres-url", "--data-dir"]);
}

#[tokio::test]
async fn each_fault_of_the_servers_is_named_with_its_remedy() {
    let servers = Servers::start().await;
    let nats = jetstream::new(servers.nats().await);
    // Neither has what keeps it from losing what it must not lose.
    for (name, subject) in [("EVENTS_0", "events.0"), ("KV_HOLDERS", "$KV.HOLDERS.>")] {
        let config = Config { name: name.into(), subjects: vec![subject.into()], ..Config::default() };
        nats.create_stream(Config { max_messages_per_subject: 1, max_age: Duration::from_hours(1), ..config })
            .await
            .expect("NATS takes it");
    }
    let postgres = connect(&servers.places.postgres_url).await;
    postgres.batch_execute("alter system set full_page_writes = off").await.expect("it is the superuser");
    postgres.batch_execute("select pg_reload_conf(); create role guest login password 'guest'").await.expect("it may");
    let address = servers.places.postgres_url.rsplit_once('@').expect("it has a password").1;
    let guest = flags(&servers, &[("--postgres-url", &format!("postgres://guest:guest@{address}"))]);
    eventually("Postgres has read its settings", || async {
        let row = postgres.query_one("show full_page_writes", &[]).await.ok()?;
        (row.get::<_, String>(0) == "off").then_some(())
    })
    .await;
    let (_, out) = doctor(&as_strs(&guest));
    assert_line(&out, "fail  log", &["EVENTS_0 has deletes allowed", "docs/nats-permissions.md"]);
    assert_line(&out, "fail  stream", &["KV_HOLDERS", "no end of single values", "remove KV_HOLDERS"]);
    assert_line(&out, "fail  postgres disk", &["full_page_writes is off", "alter system"]);
    assert_line(&out, "fail  schemas", &["guest may not create", "grant create on database postgres to guest"]);

    let away = "postgres://postgres@127.0.0.1:1/postgres";
    let closed = format!("postgres://guest:wrong@{address}");
    for (url, word) in [(away, "refused"), (&closed, "password authentication failed"), ("nonsense", "invalid")] {
        let (_, out) = doctor(&as_strs(&flags(&servers, &[("--postgres-url", url)])));
        assert_line(&out, "fail  postgres", &["cannot connect to Postgres", word, "--postgres-url"]);
    }
    for (flag, value, begin, word) in [
        ("--nats-url", "nats://127.0.0.1:1", "fail  nats ", "cannot connect to NATS at nats://127.0.0.1:1"),
        ("--nats-token", "wrong", "fail  nats ", "authorization"),
        ("--nats-monitor-url", "http://127.0.0.1:1", "fail  durability", "--nats-monitor-url"),
        ("--master-key-file", "/no/such/file", "fail  master key", "/no/such/file"),
    ] {
        let (_, out) = doctor(&as_strs(&flags(&servers, &[(flag, value)])));
        assert_line(&out, begin, &[word]);
    }
}

#[tokio::test]
async fn a_nats_that_acknowledges_before_it_syncs_is_named() {
    let servers = Servers::start().await;
    let program = server(&servers.folder(), "nats").expect("it runs").as_raw_nonzero();
    let [port, monitor] = [(); 2].map(|()| free_port());
    let store = servers.folder().join("lazy");
    let configuration = servers.folder().join("lazy.conf");
    let text = format!(
        "listen: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor}\"\nmax_payload: 100KB\n\
         jetstream {{ store_dir: \"{}\", max_file_store: 100MB }}\n",
        store.display()
    );
    fs::write(&configuration, text).expect("the folder can be written");
    let mut command = Command::new(format!("/proc/{program}/exe"));
    let _lazy =
        command.arg("-c").arg(&configuration).kill_on_drop(true).stderr(Stdio::null()).spawn().expect("it runs");
    let (url, monitor) = (format!("nats://127.0.0.1:{port}"), format!("http://127.0.0.1:{monitor}"));
    eventually("NATS answers", || async { async_nats::connect(&url).await.ok() }).await;
    let (is_success, out) =
        doctor(&["--nats-url", &url, "--nats-monitor-url", &monitor, "--postgres-url", &servers.places.postgres_url]);
    assert!(!is_success);
    assert_line(&out, "fail  durability", &["sync_interval: always", "--unsafe-durability"]);
    assert_line(&out, "fail  max_payload", &["102400 bytes", "max_payload: 1MB"]);
    assert_line(&out, "warn  nats storage", &["MiB", "max_file_store"]);
}

#[tokio::test]
async fn read_models_that_stand_still_are_named() {
    let cluster = Cluster::start().await;
    let all = cluster.servers.flags();
    let (is_success, out) = doctor(&as_strs(&all));
    assert!(is_success);
    assert_line(&out, "ok    read model", &["history_2 has event"]);
    let nobody = cluster.node("query", "query", &[], &[]);
    nobody_keeps_the_read_models(&cluster, &nobody).await;
    let key = cluster.servers.folder().join("other.key");
    fs::write(&key, "ab".repeat(32)).expect("the folder can be written");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let key = key.display().to_string();
    let (is_success, out) = doctor(&as_strs(&flags(&cluster.servers, &[("--master-key-file", &key)])));
    assert!(!is_success);
    assert_line(&out, "fail  master key", &["another key", "--nats-url"]);
    a_wrong_key_keeps_every_node_from_starting(&cluster, &key).await;
    // Postgres has tables, but one is missing.
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    postgres.batch_execute("drop table history_2.claims").await.expect("it is there");
    let (_, out) = doctor(&as_strs(&all));
    assert_line(&out, "warn  read model", &["tables of history_2 are missing", "start a node"]);
}

/// The age of the first event that a read model lacks decides, not the number of such events.
async fn nobody_keeps_the_read_models(cluster: &Cluster, reader: &Node) {
    let all = cluster.servers.flags();
    forge::append_small(cluster.servers.nats().await, 1001, SignedDuration::ZERO).await;
    let (is_success, out) = doctor(&as_strs(&all));
    assert!(is_success, "it may still catch up");
    assert_line(&out, "ok    read model", &["history_2 has event", "it lags "]);
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    // What is appended was committed long ago, and the read models have all before it.
    let log = Log::find(cluster.servers.nats().await, LogClass::Events, 0).await.expect("there is a log");
    let at = log.last().await.expect("it can be read").expect("there is one").position();
    let text = "update platform.checkpoints set sequence = $1, stream_sequence = $2, digest = $3 \
                where projection not in ('session_history', 'sessions')";
    let number = |number: u64| i64::try_from(number).expect("the log is short");
    let moved =
        postgres.execute(text, &[&number(at.sequence), &number(at.stream_sequence), &at.digest.as_slice()]).await;
    moved.expect("it is there");
    forge::append_small(cluster.servers.nats().await, 0, SignedDuration::from_secs(20)).await;
    let (is_success, out) = doctor(&as_strs(&all));
    // The barrier before it was committed now.
    assert!(is_success && !out.contains("lags 20"), "{out}");
    let end = log.end().await.expect("it can be read") - 1;
    let at = log.read(end).await.expect("it can be read").expect("there is one").position();
    let moved =
        postgres.execute(text, &[&number(at.sequence), &number(at.stream_sequence), &at.digest.as_slice()]).await;
    moved.expect("it is there");
    let (_, out) = doctor(&as_strs(&all));
    assert_line(&out, "warn  read model", &["history_2 has event", "it lags 2", "projector"]);
    let lags = eventually("the reader says so", || async {
        reader.management.check("read_models").await.filter(|check| check["state"] == "degraded")
    });
    let lags = lags.await;
    assert!(lags["place"]["lagSeconds"].as_f64().is_some_and(|seconds| seconds > 19.0), "{lags}");
    assert!(lags["reason"].as_str().is_some_and(|reason| reason.contains("projector")), "{lags}");
    assert!(reader.management.sum("platform_projection_lag_seconds", &["\"history\""]).await > 19.0);
    let (is_success, out, told) = run(&[&["status", "--json"], &as_strs(&status_flags(&all))[..]].concat());
    assert!(is_success, "{told}");
    let status: Value = serde_json::from_str(&out).expect("it is JSON");
    let nodes = status["nodes"].as_array().expect("it lists nodes");
    assert!(
        nodes.iter().any(|node| node["role"] == "query" && node["node"] == "query" && node["state"] == "degraded"),
        "{out}"
    );
    assert!(status["writer"].is_null(), "{out}");
    assert!(status["readModels"][0]["lagSeconds"].as_f64().is_some_and(|seconds| seconds > 19.0), "{out}");
    let (is_success, out, _) = run(&[&["status"], &as_strs(&status_flags(&all))[..]].concat());
    assert!(is_success && out.contains("writer: none") && out.contains("node: query query, version "), "{out}");
}

/// Returns the flags without the master key, which `status` does not need.
fn status_flags(all: &[String]) -> Vec<String> {
    let key = all.iter().position(|word| word == "--master-key-file").expect("it is given");
    all.iter()
        .enumerate()
        .filter(|(index, _)| *index != key && *index != key + 1)
        .map(|(_, word)| word.clone())
        .collect()
}

async fn a_wrong_key_keeps_every_node_from_starting(cluster: &Cluster, key: &str) {
    for role in ["command", "query", "oidc"] {
        let mut node = cluster.node(role, "another key", &[("--master-key-file", key)], &[]);
        assert!(!node.process.ended().await.success());
        let told = node.log();
        assert!(told.contains("the master key is not the one that this log was set up with"), "{role}: {told}");
        assert!(told.contains(key), "it names the file: {told}");
    }
    let leases = eventlog::lease::holders(&jetstream::new(cluster.servers.nats().await)).await.expect("NATS is there");
    assert!(leases.iter().all(|(name, _)| name != "writer.0"), "none was taken: {leases:?}");
}
