//! The purge of the log of sessions removes exactly what has aged out; it is not mistaken for a loss, nor a loss for a
//! purge.

use std::{collections::BTreeMap, os::unix::process::ExitStatusExt, time::Duration};

use async_nats::jetstream::{self, stream::Config};
use base::secret;
use domain::log_class::LogClass;
use eventlog::{
    log::Log,
    record::{CommitRecord, Position},
};
use futures::StreamExt;
use prost::Message;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    auditor::{connect, dump},
    client::{Client, ServiceUser, TARGETS, created, send},
    clock::Clock,
    cluster::Cluster,
    eventually,
    platform::Platform,
    process::run,
    servers::{Servers, drop_read_models},
    throughout,
};
use view::{checkpoint, database::Database};

const SESSIONS: &str = "/resources/v3alpha/sessions";
const DAY: Duration = Duration::from_hours(24);

/// A platform on servers of its own, whose clock can be set ahead by days.
struct World {
    servers: Servers,
    clock: Clock,
    platform: Platform,
}

impl World {
    async fn start() -> Self {
        let (servers, clock) = (Servers::start().await, Clock::new());
        let platform = Platform::start_with(&servers.flags(), &[clock.environment()]).await;
        platform.ready().await;
        Self { servers, clock, platform }
    }

    fn is_day(&self, day: u32) {
        self.clock.set_ahead(DAY * day);
    }

    async fn restart(&mut self) {
        self.platform.restart(&[self.clock.environment()]).await;
    }

    async fn log(&self) -> Log {
        Log::find(self.servers.nats().await, LogClass::Sessions, 0).await.expect("it is there")
    }

    /// Returns the stream sequence of the last message that was purged, once there is one.
    async fn purged(&self) -> u64 {
        let log = self.log().await;
        eventually("what has aged out is purged", async || log.purged().await.ok().filter(|purged| *purged > 0)).await
    }

    fn tool(&self, words: &[&str]) -> (bool, String) {
        let places = &self.servers.places;
        let mut all = words.to_vec();
        all.extend(["--nats-url", &places.nats_url, "--nats-token", &places.nats_token]);
        let (is_success, out, told) = run(&all);
        (is_success, out + &told)
    }

    fn doctor(&self) -> (bool, String) {
        let mut flags = self.servers.flags();
        flags.insert(0, "doctor".to_owned());
        let (is_success, out, told) = run(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        (is_success, out + &told)
    }
}

async fn read(client: &Client, id: &str) -> StatusCode {
    send(client.request(Method::GET, &format!("{SESSIONS}/{id}"))).await.status
}

async fn count(postgres: &tokio_postgres::Client, text: &str, id: &str) -> i64 {
    postgres.query_one(text, &[&id]).await.expect("it has the table").get(0)
}

const ROWS: &str = "select count(*) from sessions_3.sessions where id = $1";
const EVENTS: &str = "select count(*) from session_history_1.events where aggregate_id = $1";

/// Returns all rows of the projections of the log of sessions.
async fn rows(postgres_url: &str) -> BTreeMap<String, Vec<String>> {
    let mut all = dump(postgres_url).await;
    all.retain(|table, _| table.starts_with("session"));
    all
}

async fn status(client: &Client, token: &str) -> StatusCode {
    send(client.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token)).await.status
}

async fn revoke(client: &Client, user: &ServiceUser, token: &str) {
    let request = client.anonymous(Method::POST, "/oauth/v2/revoke");
    let request = request.basic_auth(&user.client_id, Some(&user.client_secret)).form(&[("token", token)]);
    assert_eq!(send(request).await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_has_aged_out_goes_and_what_lives_stays_also_where_all_is_built_anew() {
    let mut world = World::start().await;
    let postgres = connect(&world.servers.places.postgres_url).await;
    let early =
        created(&world.platform.client().await, SESSIONS, json!({ "metadata": { "which": "early" } })).await.id();
    world.is_day(12);
    let client = world.platform.client().await;
    let late = created(&client, SESSIONS, json!({ "metadata": { "which": "late" } })).await.id();
    world.is_day(80);
    let client = world.platform.client().await;
    let patch = json!({ "metadata": { "which": "early, and changed" } });
    assert_eq!(send(client.request(Method::PATCH, &format!("{SESSIONS}/{early}")).json(&patch)).await.status, 200);

    world.is_day(98);
    let purged = world.purged().await;
    let user = world.platform.bootstrap.service_user.clone();
    let client = world.platform.client().await;
    let token = Client::log_in(&world.platform.bootstrap.issuer, &user).await.token;
    revoke(&client, &user, &token).await;
    assert_eq!((read(&client, &late).await, read(&client, &early).await), (StatusCode::OK, StatusCode::NOT_FOUND));
    eventually("what ended a week ago has no row", async || (count(&postgres, ROWS, &early).await == 0).then_some(()))
        .await;
    assert_eq!(count(&postgres, EVENTS, &early).await, 1, "what was changed since");
    assert_eq!((count(&postgres, ROWS, &late).await, count(&postgres, EVENTS, &late).await), (1, 1));

    // The longest that a token lives.
    world.clock.set_ahead(DAY * 98 + Duration::from_hours(23));
    let log = world.log().await;
    assert_eq!(log.purged().await.expect("it can be read"), purged, "what comes next ages out on day 109");
    let database = Database::new(&world.servers.places.postgres_url, 1).expect("it is an address");
    eventually("the read models have it all", async || {
        let end = log.end().await.ok()?;
        let least = checkpoint::least(&*database.connection().await.ok()?, LogClass::Sessions, 0).await.ok()?;
        least.filter(|(_, at)| *at == end)
    })
    .await;
    world.platform.stop().await;
    let before = rows(&world.servers.places.postgres_url).await;
    drop_read_models(&world.servers.places.postgres_url).await;
    world.restart().await;
    let client = world.platform.client().await;
    assert_eq!(status(&client, &token).await, StatusCode::UNAUTHORIZED, "it was revoked");
    assert_eq!(read(&client, &late).await, StatusCode::OK);
    let anew = async || (rows(&world.servers.places.postgres_url).await == before).then_some(());
    eventually("all rows are as they were", anew).await;

    let (is_whole, told) = world.tool(&["log", "verify", "--log", "sessions"]);
    assert!(is_whole && told.contains(&format!("the log is intact from message {}", purged + 1)), "{told}");
    let (is_well, told) = world.doctor();
    assert!(is_well && told.contains(&format!("except the first {purged}, which have aged out")), "{told}");
    let (_, told) = world.tool(&["log", "tail", "--log", "sessions", "--from", "1"]);
    assert!(told.contains(&late), "{told}");
}

#[tokio::test]
async fn who_dies_before_it_purges_leaves_it_to_the_next_and_more_than_is_permitted_is_a_loss() {
    let mut world = World::start().await;
    let client = world.platform.client().await;
    created(&client, SESSIONS, json!({ "metadata": { "which": "aged" } })).await;
    world.platform.stop().await;
    world.is_day(98);
    world.platform.respawn(&[world.clock.environment(), ("PLATFORM_FAULT", "purge.permitted:1:kill")]);
    let ended = world.platform.process().ended().await;
    assert_eq!(ended.signal(), Some(9), "it died where it should");
    let log = world.log().await;
    let last = log.last().await.expect("it can be read").expect("there is one");
    let permitted = last.commit.purged_to;
    assert!(permitted > 0 && permitted < last.stream_sequence, "{permitted}");
    assert_eq!(log.purged().await.expect("it can be read"), 0, "nothing is gone yet");

    let first = log.read(1).await.expect("it can be read").expect("it is there").position();
    world.restart().await;
    assert_eq!(world.purged().await, permitted);
    goes_on_with(&log, (first, permitted)).await;
    an_old_build_changes_nothing(&mut world, (&log, permitted)).await;
    let client = world.platform.client().await;
    for which in ["one", "two", "three"] {
        created(&client, SESSIONS, json!({ "metadata": { "which": which } })).await;
    }
    world.platform.stop().await;

    loses_more(&world, permitted).await;
}

/// Checks that no node starts where more messages are missing than is permitted, at the beginning or later.
async fn loses_more(world: &World, permitted: u64) {
    let context = jetstream::new(world.servers.nats().await);
    let mut stream = context.get_stream("SESSIONS_0").await.expect("it is there");
    let end = stream.info().await.expect("it is there").state.last_sequence;
    let whole: Vec<_> = messages(&stream, permitted + 1..=end).await;
    let rules = stream.cached_info().config.clone();
    stream.purge().sequence(permitted + 2).await.expect("it can be purged");
    refuses(world, &format!("the first of them message {}", permitted + 1));

    // As docs/nats-permissions.md says, but that messages can be deleted at first.
    context.delete_stream("SESSIONS_0").await.expect("it is there");
    let deletable = Config { first_sequence: Some(permitted + 1), deny_delete: false, ..rules.clone() };
    eventually("NATS takes it", async || context.create_stream(deletable.clone()).await.ok()).await;
    for message in whole {
        let sent = context.publish("sessions.0", message).await.expect("NATS is there");
        sent.await.expect("the stream takes it");
    }
    let stream = context.get_stream("SESSIONS_0").await.expect("it is there");
    let hole = permitted + 3;
    assert!(stream.delete_message(hole).await.expect("NATS is there"));
    context.update_stream(rules).await.expect("it takes the rules of a log");
    refuses(world, &format!("the first of them message {} or later", permitted + 2));
    let (is_whole, told) = world.tool(&["log", "verify", "--log", "sessions"]);
    assert!(!is_whole && told.contains(&format!("message {hole} of the log")), "{told}");
}

#[tokio::test]
async fn nothing_is_purged_that_a_projection_has_not_taken_up() {
    let (cluster, clock) = (Cluster::start().await, Clock::new());
    clock.set_ahead(DAY * 98);
    let _command = cluster.node("command", "command", &[], &[clock.environment()]);
    let log = Log::find(cluster.servers.nats().await, LogClass::Sessions, 0).await.expect("it is there");
    eventually("a purge is permitted", async || log.last().await.ok()?.filter(|last| last.commit.purged_to > 0)).await;
    let is_whole = async || log.purged().await.is_ok_and(|purged| purged == 0);
    throughout(Duration::from_secs(5), "nothing is purged", is_whole).await;
    let _projector = cluster.node("projector", "projector", &[], &[clock.environment()]);
    eventually("it is purged", async || log.purged().await.ok().filter(|purged| *purged > 0)).await;
}

/// Checks that the permitted purge stays valid after a takeover by a build without purges.
async fn an_old_build_changes_nothing(world: &mut World, (log, permitted): (&Log, u64)) {
    world.platform.stop().await;
    is_taken_over_by_an_old_build(world).await;
    assert_eq!(log.purged().await.expect("it can be read"), permitted, "what was permitted before is");
    let (is_well, told) = world.doctor();
    assert!(is_well, "{told}");
    world.restart().await;
    let newest = log.last().await.expect("it can be read").expect("there is one");
    assert_eq!(newest.commit.purged_to, permitted, "it is said again");
    let (is_whole, told) = world.tool(&["log", "verify", "--log", "sessions"]);
    assert!(is_whole, "{told}");
}

/// Begins an epoch in both logs like a build without purges.
async fn is_taken_over_by_an_old_build(world: &World) {
    let context = jetstream::new(world.servers.nats().await);
    for (class, subject) in [(LogClass::Events, "events.0"), (LogClass::Sessions, "sessions.0")] {
        let log = Log::find(world.servers.nats().await, class, 0).await.expect("it is there");
        let last = log.last().await.expect("it can be read").expect("there is one");
        let barrier = CommitRecord {
            epoch: last.commit.epoch + 1,
            record_id: secret::random::<16>().to_vec().into(),
            first_sequence: last.position().sequence + 1,
            previous_digest: last.digest.to_vec().into(),
            purged_to: 0,
            events: vec![],
            answers: vec![],
            ..last.commit
        };
        let sent = context.publish(subject, barrier.encode_to_vec().into()).await.expect("NATS is there");
        sent.await.expect("the stream takes it");
    }
}

/// Checks that a reader at the beginning, or at a purged record, continues with the first record that is left.
async fn goes_on_with(log: &Log, (gone, purged): (Position, u64)) {
    for from in [Position::default(), gone] {
        assert!(log.has(from).await.expect("NATS is there"));
        let mut records = log.follow(from).await.expect("it is read");
        let next = records.next().await.expect("there is one").expect("it is read");
        assert_eq!(next.stream_sequence, purged + 1);
    }
    let of_another = Position { stream_sequence: purged + 1, ..gone };
    assert!(!log.has(of_another).await.expect("NATS is there"), "what is left is compared");
}

/// Returns the payloads of messages of a stream.
async fn messages(stream: &jetstream::stream::Stream, of: std::ops::RangeInclusive<u64>) -> Vec<bytes::Bytes> {
    let mut found = vec![];
    for sequence in of {
        found.push(stream.get_raw_message(sequence).await.expect("it is there").payload);
    }
    found
}

/// Checks that no node starts, and that the doctor reports why.
fn refuses(world: &World, words: &str) {
    let mut flags = world.servers.flags();
    flags.insert(0, "projector".to_owned());
    let (is_success, _, told) = run(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    let lost = "SESSIONS_0: the log has lost messages";
    assert!(!is_success && told.contains(lost) && told.contains(words), "{words}: {told}");
    let (is_well, told) = world.doctor();
    assert!(!is_well && told.contains(lost) && told.contains(words), "{words}: {told}");
}
