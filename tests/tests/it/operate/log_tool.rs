//! `platform log`: its output for a log, for a damaged one, and where there is none.

use std::{fs, process::Stdio, time::Duration};

use async_nats::jetstream;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::Value;
use tests::{
    client::{TARGETS, send, target},
    eventually,
    forge::{Forged, changed},
    platform::Platform,
    ports::free_port,
    process::{Process, run, server},
    proxy::Proxy,
    servers::Servers,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

/// Runs the tool on the NATS server of these servers.
fn log(servers: &Servers, words: &[&str]) -> (bool, String, String) {
    let nats = ["--nats-url", &servers.places.nats_url, "--nats-token", &servers.places.nats_token];
    run(&[&["log"], words, &nats].concat())
}

/// Returns a member of each line of JSON.
fn column(lines: &str, name: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON")[name].clone()).collect()
}

#[tokio::test]
async fn a_platform_s_log_is_whole_and_can_be_followed() {
    let mut platform = Platform::start().await;
    platform.ready().await;
    let client = platform.client().await;
    let made = send(client.request(Method::POST, TARGETS).json(&target("first"))).await;
    let data = platform.data().display().to_string();
    let tail = |words: &[&str]| {
        let (is_success, out, told) = run(&[&["log", "tail", "--data-dir", &data], words].concat());
        assert!(is_success, "{words:?}: {told}");
        out
    };
    let (end, messages) = platform.log_end().await;

    let (is_success, out, told) = run(&["log", "verify", "--data-dir", &data]);
    assert!(is_success, "{told}");
    assert!(
        out.starts_with(&format!(
            "the log is intact from message 1 to {messages}: {messages} records, events up to {end}"
        )),
        "{out}"
    );
    let (is_success, out, _) = run(&["log", "verify", "--data-dir", &data, "--from", &end.to_string()]);
    assert!(is_success && out.contains(&format!("from message {messages} to {messages}: 1 records")), "{out}");

    let last = tail(&[]);
    assert_eq!(last.lines().count(), 10, "{last}");
    let line = last.lines().last().expect("there are ten");
    let id = made.id();
    assert!(
        line.starts_with(&format!("{end} ")) && line.contains(&format!("target/{id} v1 target.added by ")),
        "{line}"
    );
    assert!(!last.contains("https://"), "no payload is shown unasked");
    assert_eq!(column(&tail(&["--from", "2", "--limit", "3", "--json"]), "sequence"), [2, 3, 4]);
    assert_eq!(column(&tail(&["--limit", "1", "--json"]), "aggregateId"), [id.as_str()]);
    let all = tail(&["--from", "1", "--json", "--payload"]);
    assert_eq!(column(&all, "sequence"), (1..=end).map(Value::from).collect::<Vec<_>>());
    assert_eq!(column(&all, "payload").last().expect("there are some")["name"], "first");
    let signing_key = made.body["signingKey"].as_str().expect("it is told once");
    let secret = &platform.bootstrap.service_user.client_secret;
    let master_key = fs::read_to_string(platform.data().join("master.key")).expect("it is there");
    for secret in [signing_key, secret.as_str(), master_key.trim()] {
        assert!(secret.len() > 10 && !all.contains(secret), "no secret is in the log");
    }

    let mut follow = follower(&["log", "tail", "--data-dir", &data, "--follow", "--limit", "1"]);
    let mut lines = BufReader::new(follow.stdout().expect("it is piped")).lines();
    let mut next = async || lines.next_line().await.expect("it can be read").expect("it goes on");
    assert!(next().await.starts_with(&format!("{end} ")));
    let second = client.create_target("second").await.expect("it is created");
    assert!(next().await.contains(&format!("target/{second} v1 target.added")));
    follow.signal(Signal::INT);
    assert!(follow.ended().await.success(), "Ctrl-C is its end in order");

    platform.stop().await;
    let (is_success, _, told) = run(&["log", "tail", "--data-dir", &data]);
    assert!(!is_success && told.contains("nothing runs on") && told.contains("--nats-url"), "{told}");
}

fn follower(words: &[&str]) -> Process {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    Process::spawn(&words, &[], Stdio::piped())
}

#[tokio::test]
async fn the_first_fault_of_a_log_is_named_with_its_place() {
    let servers = Servers::start().await;
    let context = jetstream::new(servers.nats().await);
    for (case, place, words) in [
        ("none", 0, &["from message 1 to 5: 5 records, events up to 4, 2 aggregates, epoch 1 now, 1 begun here"][..]),
        ("foreign", 4, &["is not a commit record", "docs/nats-permissions.md"]),
        ("digest", 4, &["was not written after", "found the digest abab", "backup"]),
        ("hole in the events", 4, &["begins with event 6, expected event 4", "backup"]),
        ("older epoch", 4, &["found epoch 1, expected 2 or more"]),
        ("version", 4, &["found version 4", "expected version 3 of target a"]),
        ("older time", 4, &["commit time goes back"]),
        ("message deleted", 3, &["it is missing: found message 4 after message 2", "backup"]),
        ("last message deleted", 5, &["it is missing: found nothing, in a stream that ends at 5"]),
        ("first message deleted", 1, &["it is missing: found message 2 after message 0"]),
    ] {
        let mut forged = Forged::begin(servers.nats().await).await;
        if case == "older epoch" {
            forged.put(vec![], |it| it.epoch = 2).await;
        } else {
            forged.put(vec![changed("a", 1)], |_| {}).await;
        }
        let version = if case == "older epoch" { 1 } else { 2 };
        forged.put(vec![changed("a", version), changed("b", 1)], |_| {}).await;
        if case == "foreign" {
            context.publish("events.0", "hello".into()).await.expect("it is sent").await.expect("it is taken");
        }
        forged
            .put(vec![changed("a", if case == "version" { 4 } else { version + 1 })], |it| match case {
                "digest" => it.previous_digest = vec![0xab; 32].into(),
                "hole in the events" => it.first_sequence += 2,
                "older epoch" => it.epoch = 1,
                "older time" => it.committed_at = 1,
                _ => {}
            })
            .await;
        forged.put(vec![], |_| {}).await;
        let stream = context.get_stream("EVENTS_0").await.expect("it is there");
        let deleted = [("message deleted", 3), ("last message deleted", 5), ("first message deleted", 1)];
        if let Some((_, sequence)) = deleted.iter().find(|(of, _)| *of == case) {
            stream.delete_message(*sequence).await.expect("these can be deleted");
        }

        let (is_success, out, told) = log(&servers, &["verify"]);
        println!("{case}: {out}{told}");
        assert_eq!(is_success, case == "none", "{case}: {told}");
        let text = if is_success { &out } else { &told };
        assert!(words.iter().all(|word| text.contains(word)), "{case}: {text}");
        assert!(is_success || told.starts_with(&format!("platform: message {place} of the log")), "{case}: {told}");
        if case == "foreign" {
            let (is_success, out, told) = log(&servers, &["tail", "--from", "1"]);
            assert!(!is_success && told.contains("message 4 of the log") && told.contains("log verify"), "{told}");
            assert_eq!(out.lines().count(), 3, "what is before it is printed: {out}");
        }
        context.delete_stream("EVENTS_0").await.expect("it is there");
    }
}

#[tokio::test]
async fn what_has_no_log_is_told_and_left_as_it_is() {
    let servers = Servers::start().await;
    let (url, token) = (servers.places.nats_url.as_str(), servers.places.nats_token.as_str());
    let bare = free_port();
    let program = server(&servers.folder(), "nats").expect("it runs").as_raw_nonzero();
    let mut command = tokio::process::Command::new(format!("/proc/{program}/exe"));
    command.args(["--addr", "127.0.0.1", "--port", &bare.to_string()]).kill_on_drop(true).stderr(Stdio::null());
    let _bare = command.spawn().expect("it starts");
    let bare = format!("nats://127.0.0.1:{bare}");
    eventually("a NATS without JetStream", || async { async_nats::connect(&bare).await.ok() }).await;
    let folder = tempfile::tempdir().expect("a folder");
    let nothing = folder.path().display().to_string();
    for words in [["log", "tail"], ["log", "verify"]] {
        for (flags, told) in [
            (&[][..], &["--nats-url", "--data-dir"][..]),
            (&["--nats-url", "nats://127.0.0.1:1"], &["cannot connect to NATS at nats://127.0.0.1:1", "--nats-url"]),
            (&["--nats-url", url, "--nats-token", "wrong"], &["cannot connect to NATS", "authorization", "token"]),
            (&["--nats-url", url], &["cannot connect to NATS", "authorization", "token"]),
            (
                &["--nats-url", url, "--nats-token", token],
                &["there is no stream EVENTS_0", "no platform of this version was set up"],
            ),
            (&["--nats-url", &bare], &["without JetStream", "--nats-url"]),
            (&["--data-dir", &nothing], &["nothing runs on", "--nats-url"]),
            (&["--nats-url", url, "--from", "0"], &["--from"]),
        ] {
            let (is_success, out, complaint) = run(&[&words, flags].concat());
            println!("{complaint}");
            assert!(!is_success && out.is_empty(), "{words:?} {flags:?}: {out}");
            assert!(told.iter().all(|word| complaint.contains(word)), "{words:?} {flags:?}: {complaint}");
        }
    }
    let account = jetstream::new(servers.nats().await).query_account().await.expect("NATS is there");
    assert_eq!(account.streams, 0, "a look makes nothing");
    assert!(fs::read_dir(folder.path()).expect("it is there").next().is_none());
}

#[tokio::test]
async fn following_goes_on_when_nats_was_away() {
    let servers = Servers::start().await;
    let proxy = Proxy::start(servers.places.nats_url.trim_start_matches("nats://")).await;
    let mut forged = Forged::begin(servers.nats().await).await;
    forged.put(vec![changed("a", 1)], |_| {}).await;
    let (url, token) = (format!("nats://{}", proxy.address), servers.places.nats_token.as_str());
    let words = ["log", "tail", "--nats-url", &url, "--nats-token", token, "--follow"].map(str::to_owned);
    let complaints = servers.folder().join("complaints");
    let stderr = fs::File::create(&complaints).expect("the folder can be written");
    let mut follow = Process::spawn_to(&words, &[], Stdio::piped(), stderr.into());
    let mut lines = BufReader::new(follow.stdout().expect("it is piped")).lines();
    let mut next = async || {
        let line = timeout(Duration::from_mins(1), lines.next_line()).await.expect("it goes on");
        line.expect("it can be read").expect("it has not ended")
    };
    assert!(next().await.contains("target/a v1 target.changed by a test"));
    proxy.cut();
    forged.put(vec![changed("a", 2)], |_| {}).await;
    proxy.open();
    assert!(next().await.contains("target/a v2 "), "a short pause is nothing");
    proxy.cut();
    forged.put(vec![changed("a", 3)], |_| {}).await;
    let has_complained = || fs::read_to_string(&complaints).is_ok_and(|told| told.contains("trying again"));
    eventually("it says that NATS is away", || std::future::ready(has_complained().then_some(()))).await;
    proxy.open();
    assert!(next().await.contains("target/a v3 "));
}
