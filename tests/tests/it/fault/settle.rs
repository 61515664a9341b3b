//! A publish whose answer is lost, and an unavailable broker: every record is settled correctly.

use std::time::Duration;

use base::{clock, secret};
use bytes::Bytes;
use command::settle::{Settled, commit};
use domain::log_class::LogClass;
use eventlog::{
    log::Log,
    record::{CommitRecord, Position, Record},
};
use reqwest::{Method, StatusCode};
use tests::{
    client::{TARGETS, send, target},
    cluster::{Cluster, Node, is_writer},
    eventually,
    load::Load,
    proxy::Proxy,
    servers::Servers,
};
use tokio::time::Instant;

/// How long settling may take: the log waits 1 s for the answer to a publish, and then settles it at once.
const SETTLED_WITHIN: Duration = Duration::from_millis(1500);
const SLACK: u32 = 5;

/// The same log through the proxy and directly.
struct Logs {
    proxied: Log,
    direct: Log,
    first: Record,
}

impl Logs {
    /// Opens a log of a shard with a first record.
    async fn start(servers: &Servers, proxy: &Proxy, shard: u16) -> Self {
        let token = servers.places.nats_token.clone();
        let proxied = async_nats::ConnectOptions::with_token(token).connect(&proxy.address).await;
        let direct = Log::open(servers.nats().await, LogClass::Events, shard, 1).await.expect("the log can be made");
        let proxied = Log::open(proxied.expect("the proxy is there"), LogClass::Events, shard, 1)
            .await
            .expect("the log is there");
        let first = record(1, Position::default(), b"");
        let Settled::Committed(first) = commit(&direct, Position::default(), first).await else {
            panic!("an empty log takes a record");
        };
        Self { proxied, direct, first }
    }

    fn next(&self, epoch: u64) -> CommitRecord {
        record(epoch, self.first.position(), &self.first.digest)
    }

    async fn length(&self) -> u64 {
        self.direct.last().await.expect("the log can be read").expect("it is not empty").stream_sequence
    }
}

fn record(epoch: u64, behind: Position, digest: &[u8]) -> CommitRecord {
    CommitRecord {
        log_id: vec![7; 16].into(),
        incarnation: 1,
        epoch,
        record_id: secret::random::<16>().to_vec().into(),
        first_sequence: behind.sequence + 1,
        committed_at: clock::now().as_microsecond(),
        previous_digest: Bytes::copy_from_slice(digest),
        ..CommitRecord::default()
    }
}

#[tokio::test]
async fn a_record_whose_answer_is_lost_is_found_in_the_log() {
    let servers = Servers::start().await;
    let proxy = Proxy::start(&nats_address(&servers)).await;
    let logs = Logs::start(&servers, &proxy, 1).await;

    proxy.lose_answers(2);
    let next = logs.next(1);
    let begin = Instant::now();
    let settled = commit(&logs.proxied, logs.first.position(), next.clone()).await;
    println!("settled after {:?}", begin.elapsed());
    assert!(begin.elapsed() < SETTLED_WITHIN * SLACK);
    let Settled::Committed(committed) = settled else { panic!("{settled:?}") };
    assert_eq!((committed.stream_sequence, &committed.commit.record_id), (2, &next.record_id));
    assert_eq!((proxy.lost(), logs.length().await), ((0, 1), 2), "it is in the log once");
}

#[tokio::test]
async fn a_record_that_is_not_in_the_log_is_sent_again() {
    let servers = Servers::start().await;
    let proxy = Proxy::start(&nats_address(&servers)).await;
    let logs = Logs::start(&servers, &proxy, 1).await;

    proxy.lose_publishes(2);
    let next = logs.next(1);
    let begin = Instant::now();
    let settled = commit(&logs.proxied, logs.first.position(), next.clone()).await;
    println!("settled after {:?}, with two publishes lost", begin.elapsed());
    assert!(begin.elapsed() < SETTLED_WITHIN * 2 * SLACK);
    let Settled::Committed(committed) = settled else { panic!("{settled:?}") };
    assert_eq!((committed.stream_sequence, &committed.commit.record_id), (2, &next.record_id));
    assert_eq!((proxy.lost(), logs.length().await), ((2, 0), 2), "it is in the log once");
}

#[tokio::test]
async fn a_record_whose_place_was_taken_is_not_committed() {
    let servers = Servers::start().await;
    let proxy = Proxy::start(&nats_address(&servers)).await;
    let (taken, foreign) =
        tokio::join!(Logs::start(&servers, &proxy, 1), async { Logs::start(&servers, &proxy, 2).await });

    proxy.lose_publishes(2);
    let other = taken.next(2);
    let bytes = Bytes::from(prost::Message::encode_to_vec(&other));
    let meanwhile = async {
        eventually("the publishes are lost", || async { (proxy.lost().0 == 2).then_some(()) }).await;
        taken.direct.publish(bytes, 1).await.expect("the place is free");
        let text = "no record".into();
        foreign.direct.context().publish("events.2", text).await.expect("NATS is there").await.expect("it is stored");
    };
    let (own, lost) = (taken.next(1), foreign.next(1));
    let (settled, of_foreign, ()) = tokio::join!(
        commit(&taken.proxied, taken.first.position(), own),
        commit(&foreign.proxied, foreign.first.position(), lost),
        meanwhile
    );
    let Settled::Overtaken(winner) = settled else { panic!("{settled:?}") };
    assert_eq!((winner.stream_sequence, &winner.commit.record_id), (2, &other.record_id));
    assert!(matches!(of_foreign, Settled::Foreign(_)), "{of_foreign:?}");
    assert_eq!((taken.length().await, proxy.arrived()), (2, 2), "nothing was sent behind it");

    // The place is taken before the record is sent: NATS refuses it.
    let behind = Position::default();
    for logs in [&taken, &foreign] {
        let late = commit(&logs.proxied, behind, record(9, behind, b"")).await;
        assert!(matches!(late, Settled::Overtaken(first) if first.commit.record_id == logs.first.commit.record_id));
    }
    assert_eq!((taken.length().await, proxy.arrived()), (2, 4));
}

/// Starts a cluster whose command node connects to NATS through a proxy.
async fn behind_proxy() -> (Cluster, Proxy, Node, Node) {
    let cluster = Cluster::start_with_short_leases().await;
    let proxy = Proxy::start(&nats_address(&cluster.servers)).await;
    let projector = cluster.node("projector", "projector", &[], &[]);
    let command = cluster.node("command", "command", &[("--nats-url", &format!("nats://{}", proxy.address))], &[]);
    cluster.writes(&command).await;
    (cluster, proxy, projector, command)
}

#[tokio::test]
async fn a_node_settles_lost_publishes_and_answers() {
    let (cluster, proxy, _projector, command) = behind_proxy().await;
    let load = Load::start(&[cluster.client(&command)], 4, "settle");
    load.creates(10).await;
    proxy.lose_answers(1);
    eventually("the answer is lost", || async { (proxy.lost().1 == 1).then_some(()) }).await;
    println!("an answer was lost: creates go on after {:?}", load.creates(1).await);
    proxy.lose_publishes(1);
    eventually("the publish is lost", || async { (proxy.lost().0 == 1).then_some(()) }).await;
    let gap = load.creates(1).await;
    println!("a publish was lost: creates go on after {gap:?}");
    assert!(gap < SETTLED_WITHIN * SLACK);
    let told = load.finish().await;
    assert!(told.refused.is_empty(), "nobody noticed: {:?}", told.refused);
    cluster.audit().await.assert_told(&told);
}

#[tokio::test]
async fn a_node_that_was_overtaken_says_that_it_did_nothing_and_takes_over_again() {
    let cluster = Cluster::start_with_short_leases().await;
    let places = &cluster.servers.places;
    let (proxy, monitor) = (
        Proxy::start(&nats_address(&cluster.servers)).await,
        Proxy::start(places.nats_monitor_url.trim_start_matches("http://")).await,
    );
    let urls = [format!("nats://{}", proxy.address), format!("http://{}", monitor.address)];
    let flags = [("--nats-url", urls[0].as_str()), ("--nats-monitor-url", &urls[1])];
    let command = cluster.node("command", "command", &flags, &[]);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    let before = cluster.audit().await;
    let last = before.records.last().expect("the log was set up");

    proxy.lose_publishes(1);
    let create = tokio::spawn(send(client.request(Method::POST, TARGETS).json(&target("overtaken"))));
    eventually("the publish is lost", || async { (proxy.lost().0 == 1).then_some(()) }).await;
    let barrier = CommitRecord {
        log_id: last.commit.log_id.clone(),
        epoch: last.commit.epoch + 1,
        ..record(1, last.position(), &last.digest)
    };
    let direct = Log::open(cluster.servers.nats().await, LogClass::Events, 0, 1).await.expect("the log is there");
    let bytes = prost::Message::encode_to_vec(&barrier).into();
    monitor.cut();
    direct.publish(bytes, last.stream_sequence).await.expect("the place is free");

    let refused = create.await.expect("the client is not cancelled");
    assert_eq!((refused.status, refused.reason()), (StatusCode::SERVICE_UNAVAILABLE, "WRITER_UNAVAILABLE"));
    // It does not write on a broker that does not say that it keeps what it acknowledges, and asks again.
    eventually("it asks the broker again", || async { command.log().contains("tries again").then_some(()) }).await;
    assert!(!is_writer(&client).await);
    monitor.open();
    println!("it writes again {:?} later", cluster.writes(&command).await);
    assert!(client.create_target("again").await.is_some());
    let audit = cluster.audit().await;
    let created = audit.created();
    assert!(!created.contains_key("overtaken") && created.contains_key("again"));
    assert!(audit.records.last().expect("there are records").commit.epoch > barrier.epoch);
}

#[tokio::test]
async fn a_node_writes_again_when_nats_is_back() {
    let (cluster, proxy, _projector, command) = behind_proxy().await;
    let load = Load::start(&[cluster.client(&command)], 4, "away");
    load.creates(10).await;
    // Longer than the lease lasts, by cut connections; longer than anything is waited for, by silence.
    for (how, away) in [("cut", Duration::from_secs(3)), ("silent", Duration::from_secs(7))] {
        match how {
            "cut" => proxy.cut(),
            _ => proxy.silence(),
        }
        tokio::time::sleep(away).await;
        proxy.open();
        let gap = load.creates(1).await;
        println!("NATS was {how} for {away:?}: creates go on {gap:?} later");
        assert!(gap < Duration::from_secs(4) * SLACK, "{gap:?}");
    }
    let told = load.finish().await;
    println!("{} acknowledged, not served: {:?}", told.acknowledged.len(), told.refused);
    let audit = cluster.audit().await;
    audit.assert_told(&told);
    audit.assert_projected(&cluster.servers.places.postgres_url).await;
}

#[tokio::test]
async fn a_node_ends_in_time_while_nats_is_away() {
    let (cluster, proxy, _projector, mut command) = behind_proxy().await;
    proxy.silence();
    let client = cluster.client(&command);
    let create = tokio::spawn(async move { client.create_target("never").await });
    eventually("the create is on its way", || async { (proxy.waiting() > 0).then_some(()) }).await;
    let begin = Instant::now();
    command.process.end().await;
    println!("it ended {:?} after it was told to", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(15), "the promise of every process");
    assert_eq!(create.await.expect("the client is not cancelled"), None);
}

fn nats_address(servers: &Servers) -> String {
    servers.places.nats_url.trim_start_matches("nats://").to_owned()
}
