//! A standalone platform: what it leaves, how it ends, how it comes back.

mod refused;

use std::{fs, os::unix::fs::PermissionsExt, time::Instant};

use rustix::process::Signal;
use tests::{
    eventually,
    platform::Platform,
    process::{Process, server},
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
