//! Starts that cannot succeed: each ends at once, and reports a remedy.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tests::{
    eventually,
    platform::Platform,
    process::{Process, binary},
    servers::Servers,
};

fn start(arguments: &[&str], environment: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new("timeout");
    command.arg("60").arg(binary()).arg("standalone").args(arguments).envs(environment.iter().copied());
    let Output { status, stderr, .. } = command.output().expect("it runs");
    (status.success(), String::from_utf8_lossy(&stderr).into_owned())
}

fn assert_told(case: &str, (success, told): (bool, String), words: &[&str]) {
    assert!(!success, "{case}: {told}");
    for word in words {
        assert!(told.contains(word), "{case}: {word:?} is missing in: {told}");
    }
}

#[tokio::test]
async fn what_is_in_use_or_of_another_kind_is_refused() {
    let mut platform = Platform::start().await;
    let data = platform.data().display().to_string();
    let address = platform.bootstrap.issuer.trim_start_matches("http://").to_owned();
    let fresh = tempfile::tempdir().expect("a folder");
    let path = |name: &str| fresh.path().join(name).display().to_string();
    let free = "127.0.0.1:0";
    let pid = platform.process().pid().as_raw_nonzero().to_string();
    assert_told("a folder in use", start(&["--listen", free, "--data-dir", &data], &[]), &[&pid, "make down"]);
    let in_use = start(&["--listen", &address, "--data-dir", &path("a")], &[]);
    assert_told("a port in use", in_use, &[&address, "--listen"]);

    fs::create_dir(path("b")).expect("a folder");
    fs::write(fresh.path().join("b/version"), "99\n").expect("a file");
    assert_told("another version", start(&["--listen", free, "--data-dir", &path("b")], &[]), &["99"]);

    let setup = path("setup.toml");
    let many: String = (0..40).map(|number| format!("[[service_user]]\nname = \"user-{number}\"\n")).collect();
    let many = ["--setup".to_owned(), {
        fs::write(&setup, many).expect("a file");
        setup.clone()
    }];
    let crowded = Platform::start_with(&many, &[]).await;
    assert_eq!(crowded.bootstrap.service_users.len(), 40, "a setup of many users is one record");
    drop(crowded);
    for (text, word) in [
        ("[[service_user]]\nname = \"a\"\nroles = [\"KING\"]", "KING"),
        ("[[service_user]]\nname = \"12\"", "digits only"),
        ("king = 1", "king"),
    ] {
        fs::write(&setup, text).expect("a file");
        let told = start(&["--listen", free, "--data-dir", &path("c"), "--setup", &setup], &[]);
        assert_told("a wrong setup file", told, &[word, "setup.toml"]);
    }
    let nowhere = path("nowhere");
    let bare = [("HOME", nowhere.as_str()), ("XDG_CACHE_HOME", &nowhere), ("PATH", "/usr/bin:/bin")];
    assert_told("no servers", start(&["--listen", free, "--data-dir", &path("d")], &bare), &["deploy/setup"]);

    platform.stop().await;
    let key = path("key");
    fs::write(&key, "7".repeat(64)).expect("a file");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let told = start(&["--listen", &address, "--data-dir", &data, "--master-key-file", &key], &[]);
    assert_told("a key that everybody may read", told, &[&key, "mode 644", "chmod 600"]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let told = start(&["--listen", &address, "--data-dir", &data, "--master-key-file", &key], &[]);
    assert_told("a wrong master key", told, &["master key"]);
    platform.restart(&[]).await;
    assert!(platform.client().await.create_target("still").await.is_some(), "nothing was lost");
}

#[tokio::test]
async fn a_setup_that_is_refused_for_good_leaves_no_plan_behind() {
    let fresh = tempfile::tempdir().expect("a folder");
    let path = |name: &str| fresh.path().join(name);
    let (setup, data) = (path("setup.toml").display().to_string(), path("data").display().to_string());
    let arguments = ["--listen", "127.0.0.1:0", "--data-dir", &data, "--setup", &setup];
    let write = |count: usize| {
        let users: String = (0..count).map(|number| format!("[[service_user]]\nname = \"u{number}\"\n")).collect();
        fs::write(&setup, users).expect("a file");
    };
    write(2000);
    assert_told("a setup that is too large", start(&arguments, &[]), &["committed at once", "setup file"]);
    assert!(!path("data/bootstrap.plan.json").exists(), "what was refused is not kept");

    write(2);
    let arguments: Vec<String> = ["standalone"].iter().chain(&arguments).map(|word| (*word).to_owned()).collect();
    let mut mended = Process::spawn(&arguments, &[], Stdio::null());
    let users = eventually("bootstrap.json", || async {
        let bootstrap: Value = serde_json::from_slice(&fs::read(path("data/bootstrap.json")).ok()?).ok()?;
        bootstrap["serviceUsers"].as_array().map(Vec::len)
    });
    assert_eq!(users.await, 2, "the mended file counts");
    assert!(mended.end().await.success());
}

#[tokio::test]
async fn servers_that_are_away_or_unsafe_are_refused() {
    let servers = Servers::start().await;
    let fresh = tempfile::tempdir().expect("a folder");
    let data = fresh.path().join("data").display().to_string();
    let common = ["--listen", "127.0.0.1:0", "--data-dir", &data];
    let with = |more: &[&str]| start(&[&common[..], more].concat(), &[]);
    let (nats, token) = (servers.places.nats_url.as_str(), servers.places.nats_token.as_str());
    let here = ["--nats-url", nats, "--nats-token", token];
    let postgres = ["--postgres-url", &servers.places.postgres_url];
    let away = with(&[&["--nats-url", "nats://127.0.0.1:1"][..], &postgres].concat());
    assert_told("NATS is away", away, &["nats://127.0.0.1:1", "--nats-url"]);
    let unknown = with(&[&here[..], &postgres].concat());
    assert_told("nobody can ask NATS", unknown, &["--nats-monitor-url", "--unsafe-durability"]);
    let monitor = ["--nats-monitor-url", &servers.places.nats_monitor_url];
    let away = ["--postgres-url", "postgres://postgres@127.0.0.1:1/postgres"];
    assert_told("Postgres is away", with(&[&here[..], &monitor, &away].concat()), &["Postgres"]);
}
