use async_nats::jetstream::{self, stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

fn open(path: &Path) -> DataDir {
    DataDir::open(path, None, || [3; 32]).unwrap()
}

fn silent(_: &str) {}

async fn jetstream(nats: &Nats) -> jetstream::Context {
    jetstream::new(ConnectOptions::with_token(nats.token.clone()).connect(&nats.url).await.unwrap())
}

/// Sends a bare HTTP request: nothing else here would need an HTTP client.
async fn get(url: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn the_log_is_synced_guarded_and_kept_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a \"quoted\" $name");
    let data = open(&path);
    let nats = Nats::start(&data, &Binaries::new(), &silent).await.unwrap();
    assert!(get(&nats.monitor_url, "/varz").await.contains("\"sync_always\": true"));
    assert!(async_nats::connect(&nats.url).await.is_err(), "a client without the token was let in");
    let context = jetstream(&nats).await;
    let log = stream::Config { name: "LOG".to_owned(), subjects: vec!["log".to_owned()], ..Default::default() };
    context.create_stream(log).await.unwrap();
    context.publish("log", "one".into()).await.unwrap().await.unwrap();
    let url = nats.url.clone();
    nats.stop().await;
    drop(data);

    let data = open(&path);
    let nats = Nats::start(&data, &Binaries::new(), &silent).await.unwrap();
    assert_eq!(nats.url, url);
    let message = jetstream(&nats).await.get_stream("LOG").await.unwrap().get_raw_message(1).await.unwrap();
    assert_eq!(&message.payload[..], b"one");
    nats.stop().await;
}

#[tokio::test]
async fn what_a_killed_platform_left_is_stopped_first() {
    let folder = tempfile::tempdir().unwrap();
    let data = open(folder.path());
    std::mem::forget(Nats::start(&data, &Binaries::new(), &silent).await.unwrap());
    drop(data);
    let data = open(folder.path());
    let lines = std::sync::Mutex::new(Vec::new());
    let progress = |line: &str| lines.lock().unwrap().push(line.to_owned());
    let mut nats = Nats::start(&data, &Binaries::new(), &progress).await.unwrap();
    assert_eq!(
        *lines.lock().unwrap(),
        ["stopping the nats-server that an earlier platform left behind", "starting nats-server"]
    );
    let pid = std::fs::read_to_string(data.pid_file("nats")).unwrap();
    let pid = pid.split(' ').next().unwrap().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    assert!(nats.died().await.to_string().contains("SIGKILL"));
}

#[tokio::test]
async fn two_folders_work_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (open(&folder.path().join("1")), open(&folder.path().join("2")));
    let binaries = Binaries::new();
    let (one, two) = tokio::join!(Nats::start(&one, &binaries, &silent), Nats::start(&two, &binaries, &silent));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_ne!(one.url, two.url);
    tokio::join!(one.stop(), two.stop());
}
