//! A log that could lose events is not used, and a log with a foreign message is not written or read any further.

use std::{fs::File, process::Stdio, time::Duration};

use async_nats::jetstream::{
    self,
    stream::{Config, DiscardPolicy, PersistenceMode, RetentionPolicy, StorageType},
};
use domain::log_class::LogClass;
use eventlog::{
    log::Log,
    record::{CommitRecord, Position},
};
use futures::StreamExt;
use reqwest::{Method, StatusCode};
use tests::{
    auditor::connect,
    client::{TARGETS, send, target},
    cluster::Cluster,
    eventually,
    forge::Forged,
    process::{Process, run},
    servers::Servers,
};
use tokio::time::timeout;

/// Returns the configuration of the stream as the platform makes it.
fn rules() -> Config {
    Config {
        name: "EVENTS_0".into(),
        subjects: vec!["events.0".into()],
        discard: DiscardPolicy::New,
        deny_delete: true,
        deny_purge: true,
        ..Config::default()
    }
}

#[tokio::test]
async fn a_stream_that_could_lose_events_is_refused() {
    let servers = Servers::start().await;
    let context = jetstream::new(servers.nats().await);
    let broken: [(&str, Config); 14] = [
        ("deletes allowed", Config { deny_delete: false, ..rules() }),
        ("purges allowed", Config { deny_purge: false, ..rules() }),
        ("discard policy old", Config { discard: DiscardPolicy::Old, ..rules() }),
        ("memory storage", Config { storage: StorageType::Memory, ..rules() }),
        ("no acknowledgements", Config { no_ack: true, ..rules() }),
        (
            "acknowledgements before it keeps a message",
            Config { persist_mode: Some(PersistenceMode::Async), ..rules() },
        ),
        ("a maximum age", Config { max_age: Duration::from_hours(1), ..rules() }),
        ("a maximum of messages", Config { max_messages: 1000, ..rules() }),
        ("a maximum of bytes", Config { max_bytes: 1_000_000_000, ..rules() }),
        ("a maximum message size", Config { max_message_size: 500_000, ..rules() }),
        ("a maximum of messages per subject", Config { max_messages_per_subject: 1000, ..rules() }),
        ("a retention policy that removes what was read", Config { retention: RetentionPolicy::WorkQueue, ..rules() }),
        ("messages with a time to live", Config { allow_message_ttl: true, ..rules() }),
        ("other subjects", Config { subjects: vec!["events.>".into()], ..rules() }),
    ];
    for (rule, config) in broken {
        // NATS may still be removing the files of the one before.
        eventually("NATS takes it", || async { context.create_stream(config.clone()).await.ok() }).await;
        let log = servers.folder().join("complaint");
        let stderr = File::create(&log).expect("the folder can be written");
        let folder = servers.folder().join("platform").display().to_string();
        let mut arguments = servers.flags();
        let own = ["standalone", "--data-dir", &folder, "--listen", "127.0.0.1:0"];
        arguments.splice(0..0, own.map(str::to_owned));
        let mut platform = Process::spawn_to(&arguments, &[], Stdio::null(), stderr.into());
        assert!(!platform.ended().await.success(), "{rule}");
        let complaint = std::fs::read_to_string(&log).expect("it was just written");
        let last = complaint.lines().last().unwrap_or_default();
        println!("{last}");
        assert!(last.starts_with(&format!("platform: stream EVENTS_0 has {rule}")), "{rule}: {complaint}");
        context.delete_stream("EVENTS_0").await.expect("it is there");
    }
}

#[tokio::test]
async fn a_foreign_message_stops_the_writer_and_the_projectors() {
    let cluster = Cluster::start().await;
    let mut command = cluster.node("command", "command", &[], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    for number in 0..5 {
        client.create_target(&format!("target {number}")).await.expect("it writes");
    }
    let before = cluster.audit().await;
    let nats = jetstream::new(cluster.servers.nats().await);
    nats.publish("events.0", "hello".into()).await.expect("NATS is there").await.expect("the stream takes it");
    let place = before.end().stream_sequence + 1;
    let complaint = format!("EVENTS_0: message {place} of the log is not a commit record");

    // What came before it is projected.
    let mut projector = cluster.node("projector", "projector", &[], &[]);
    let url = &cluster.servers.places.postgres_url;
    before.assert_projected(url).await;
    eventually("the projector says why it stands still", || async {
        projector.log().contains(&complaint).then_some(())
    })
    .await;

    let answer = send(client.request(Method::POST, TARGETS).json(&target("behind"))).await;
    assert_eq!((answer.status, answer.reason()), (StatusCode::SERVICE_UNAVAILABLE, "WRITER_UNAVAILABLE"));
    assert!(!command.process.ended().await.success());
    assert!(command.log().contains(&format!("platform: {complaint}")), "{}", command.log());
    let mut again = cluster.node("command", "command", &[], &[]);
    assert!(!again.process.ended().await.success());
    assert!(again.log().contains(&format!("platform: {complaint}")), "{}", again.log());

    // Nothing came behind it, and nothing was made of it.
    let info = nats.get_stream("EVENTS_0").await.expect("it is there").cached_info().state.last_sequence;
    assert_eq!(info, place);
    before.assert_equal_rows(&connect(url).await).await;

    // The remedy: a stream that ends before it, each message in its old place.
    projector.process.end().await;
    let stream = nats.get_stream("EVENTS_0").await.expect("it is there");
    let mut kept = vec![];
    for sequence in 1..place {
        kept.push(stream.get_raw_message(sequence).await.expect("it is there").payload);
    }
    nats.delete_stream("EVENTS_0").await.expect("it is there");
    eventually("NATS takes it", || async { nats.create_stream(rules()).await.ok() }).await;
    for payload in kept {
        nats.publish("events.0", payload).await.expect("NATS is there").await.expect("the stream takes it");
    }
    let command = cluster.node("command", "command", &[], &[]);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    cluster.writes(&command).await;
    assert!(cluster.client(&command).create_target("afterwards").await.is_some());
    let after = cluster.audit().await;
    assert_eq!(after.records[before.records.len() - 1].digest, before.end().digest, "it goes on where it was whole");
    after.assert_projected(url).await;
}

#[tokio::test]
async fn records_of_another_log_or_of_an_older_writer_are_not_read() {
    type Spoil = fn(&mut CommitRecord);
    let broken: [(&str, Spoil); 3] = [
        ("a record of another log", |record| record.log_id = vec![9; 16].into()),
        ("a record of another log", |record| record.incarnation = 0),
        ("epoch 1, but the one before it of epoch 2", |record| record.epoch = 1),
    ];
    for (complaint, spoil) in broken {
        let servers = Servers::start().await;
        let mut forged = Forged::begin(servers.nats().await).await;
        let good = |record: &mut CommitRecord| (record.epoch, record.incarnation) = (2, 1);
        forged.put(vec![], good).await;
        forged
            .put(vec![], |record| {
                good(record);
                spoil(record);
            })
            .await;
        let log = Log::find(servers.nats().await, LogClass::Events, 0).await.expect("there is a log");
        let last = log.read(2).await.expect("it is a record").expect("it is there").position();
        // Whoever begins before it, and whoever begins right there.
        for (from, good) in [(Position::default(), 2), (last, 0)] {
            let records: Vec<_> = log.follow(from).await.expect("it is read").collect().await;
            let (failure, records) = records.split_last().expect("it ends");
            assert_eq!(records.len(), good, "{complaint}");
            let told = failure.as_ref().expect_err("nothing behind it is read").to_string();
            assert!(told.contains("message 3") && told.contains(complaint), "{complaint}: {told}");
        }
    }
}

#[tokio::test]
async fn a_hole_in_the_log_is_told() {
    let servers = Servers::start().await;
    let mut forged = Forged::begin(servers.nats().await).await;
    for _ in 0..3 {
        forged.put(vec![], |_| {}).await;
    }
    let log = Log::find(servers.nats().await, LogClass::Events, 0).await.expect("there is a log");
    let last = log.read(2).await.expect("it is a record").expect("it is there").position();
    let stream = jetstream::new(servers.nats().await).get_stream("EVENTS_0").await.expect("it is there");
    assert!(stream.delete_message(3).await.expect("NATS is there"));
    // Whoever begins before it, and whoever begins right there.
    for (from, good) in [(Position::default(), 2), (last, 0)] {
        let records = log.follow(from).await.expect("it is read").collect::<Vec<_>>();
        let records = timeout(Duration::from_secs(30), records).await.expect("it is noticed");
        let (failure, records) = records.split_last().expect("it ends");
        assert_eq!(records.len(), good);
        let told = failure.as_ref().expect_err("nothing behind it is read").to_string();
        assert!(told.contains("message 4 follows message 2"), "{told}");
    }
}

#[tokio::test]
async fn a_log_that_lost_messages_ends_every_start_and_says_what_is_missing() {
    let servers = Servers::start().await;
    let context = jetstream::new(servers.nats().await);
    for (lost, words) in [(3, "message 2 or later"), (1, "message 1 or later"), (5, "message 2 or later")] {
        let mut forged = Forged::begin(servers.nats().await).await;
        for _ in 0..4 {
            forged.put(vec![], |_| {}).await;
        }
        let stream = context.get_stream("EVENTS_0").await.expect("it is there");
        assert!(stream.delete_message(lost).await.expect("NATS is there"));
        context.update_stream(rules()).await.expect("it takes the rules of a log");
        let told = format!("EVENTS_0: the log has lost messages: 1 of 5 are missing, the first of them {words}");
        for role in ["query", "projector"] {
            let mut flags = servers.flags();
            flags.insert(0, role.to_owned());
            if role == "query" {
                flags.extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
            }
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let (is_success, _, said) = run(&flags);
            assert!(!is_success && said.contains(&told) && said.contains("do not drop the read models"), "{said}");
        }
        let mut flags = servers.flags();
        flags.insert(0, "doctor".to_owned());
        let (is_success, out, _) = run(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!is_success && out.contains("fail  log messages") && out.contains(&told), "{out}");
        context.delete_stream("EVENTS_0").await.expect("it is there");
    }
}
