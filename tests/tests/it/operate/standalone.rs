//! A standalone platform: the files that it leaves, its end, and its restart.

mod refused;

use std::{fs, os::unix::fs::PermissionsExt, time::Instant};

use rustix::process::Signal;
use serde_json::json;
use tests::{
    client::{done, post},
    eventually,
    platform::Platform,
    process::{Process, run, server},
};

#[tokio::test]
async fn a_later_start_leaves_the_bootstrap_as_it_is() {
    let mut platform = Platform::start_from_nothing().await;
    let path = platform.data().join("bootstrap.json");
    assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    let before = fs::read(&path).expect("it can be read");
    for signal in [Signal::TERM, Signal::INT] {
        let (nats, postgres) = (server(&platform.data(), "nats"), server(&platform.data(), "postgres"));
        assert!(nats.is_some() && postgres.is_some());
        let start = Instant::now();
        platform.process().signal(signal);
        assert!(platform.process().ended().await.success(), "{signal:?} is an orderly end");
        println!("ended after {:?}", start.elapsed());
        assert!(start.elapsed().as_secs() < 15, "{signal:?}");
        let left = (server(&platform.data(), "nats"), server(&platform.data(), "postgres"));
        assert_eq!(left, (None, None), "no server is left behind");
        platform.restart(&[]).await;
        assert_eq!(fs::read(&path).expect("it can be read"), before);
    }
}

/// Returns a line of the file about the first login.
fn first_login(platform: &Platform, name: &str) -> Option<String> {
    let text = fs::read_to_string(platform.data().join("first-login")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")).map(str::to_owned))
}

#[tokio::test]
async fn how_the_first_person_logs_in_is_left_for_its_owner_and_renewed() {
    let platform = Platform::start_from_nothing().await;
    let path = platform.data().join("first-login");
    assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(first_login(&platform, "open"), Some(format!("{}/ui/login", platform.bootstrap.issuer)));
    let operator = platform.operator().await;
    let says = async |password: &str| {
        let checks = json!({ "checks": { "user": { "loginName": "admin" }, "password": { "password": password } } });
        post(&operator, "/resources/v3alpha/sessions", checks).await.status.as_u16()
    };
    let password = || first_login(&platform, "one-time password").expect("it is told");
    let first = password();
    assert_eq!(says(&first).await, 201);
    let data = platform.data().display().to_string();
    let renew = |more: &[&str]| {
        let (is_done, told, error) = run(&[&["bootstrap", "renew", "--data-dir", &data], more].concat());
        assert!(is_done, "{told}{error}");
        told
    };
    let told = renew(&[]);
    assert!(told.contains("the new secret of platform-admin") && told.contains("how admin logs in"), "{told}");
    let second = password();
    assert_eq!((says(&first).await, says(&second).await), (400, 201), "the one before lets nobody in any more");

    // Whoever has chosen a password keeps it, unless another one is asked for.
    let wanted = json!([{ "username": { "name": "admin" } }]);
    let found = post(&operator, "/resources/v3alpha/users/_search", wanted).await;
    let id = found.body["result"][0]["details"]["id"].as_str().expect("it is there");
    let user = format!("/resources/v3alpha/users/{id}");
    let chosen = json!({ "newPassword": "another-one-of-ten-cats-7", "currentPassword": second });
    done(&operator, &format!("{user}/password"), chosen).await;
    done(&operator, &format!("{user}/_lock"), json!({})).await;
    assert!(!renew(&[]).contains("logs in"));
    let told = renew(&["--first-person"]);
    assert!(!told.contains("secret") && told.contains("how admin logs in"), "{told}");
    assert_eq!(says(&password()).await, 201, "and it was unlocked");

    // Where it is not known who that is, it has to be said.
    fs::remove_file(platform.data().join("bootstrap.json")).expect("it was there");
    let of = ["--data-dir", &data, "--issuer", &platform.bootstrap.issuer];
    let refused = |more: &[&str]| {
        let (is_done, told, error) = run(&[&["bootstrap", "renew"], &of[..], more].concat());
        assert!(!is_done && told.is_empty(), "{told}");
        error
    };
    assert!(refused(&["--first-person"]).contains("give --first-person NAME"));
    assert!(refused(&["--first-person", "nobody-here"]).contains("the instance has no user nobody-here"));
    let (is_done, told, error) = run(&[&["bootstrap", "renew"], &of[..], &["--first-person", "admin"]].concat());
    assert!(is_done && told.contains("how admin logs in"), "{told}{error}");
    assert_eq!(says(&password()).await, 201);
}

#[tokio::test]
async fn a_platform_whose_output_nobody_reads_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let arguments = ["standalone", "--listen", "127.0.0.1:0", "--data-dir", &data.display().to_string()];
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = writer.try_clone().expect("a pipe has any number of ends");
    let mut process =
        Process::spawn_to(&arguments.map(str::to_owned), &[("RUST_LOG", "debug")], output.into(), writer.into());
    let bootstrap = data.join("bootstrap.json");
    eventually("bootstrap.json", || std::future::ready(bootstrap.exists().then_some(()))).await;
    assert!(process.end().await.success());
}

#[tokio::test]
async fn a_killed_platform_comes_back_at_once_and_two_run_side_by_side() {
    let mut platform = Platform::start().await;
    let client = platform.client().await;
    let id = client.create_target("kept").await.expect("it is created");
    platform.process().kill().await;
    let start = Instant::now();
    platform.restart(&[]).await;
    println!("back after {:?}", start.elapsed());
    assert!(start.elapsed().as_secs() < 20, "the old lease is taken over at once");
    assert_eq!(client.get_target(&id, None).await.body["target"]["target"]["name"], "kept");
    assert!(client.create_target("new").await.is_some(), "it writes");

    let other = Platform::start().await;
    assert!(other.client().await.create_target("elsewhere").await.is_some());
    assert_eq!(other.client().await.get_target(&id, None).await.status, 404, "nothing is shared");
}
