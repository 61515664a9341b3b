//! Reads that nobody waits for any more keep no connection to Postgres busy, and slow reads none that others need.

use std::time::Instant;

use futures::future::join_all;
use proto::{action::GetTargetRequest, operation::GET_TARGET};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    auditor::connect,
    client::{Client, created, post, send},
    eventually,
    grpc::Grpc,
    platform::Platform,
    tenant::instance_beside,
};
use tokio::task::JoinHandle;
use tokio_postgres::Client as Postgres;
use view::{
    database::AUDITS,
    projection::{HISTORY, TARGETS},
};

/// The connections for rows that are requested by id.
const READS: usize = 8;
/// How many requests hang, more than there are connections.
const HANGING: usize = READS + 4;

/// A platform with a target that nobody can read, because its table is locked.
struct World {
    platform: Platform,
    client: Client,
    target: String,
    /// The session that has the lock.
    locking: Postgres,
    /// Another session, since a transaction sees the activities of one moment.
    watching: Postgres,
}

impl World {
    async fn start() -> Self {
        let platform = Platform::start().await;
        let client = platform.client().await;
        let target = client.create_target("locked").await.expect("it is created");
        eventually("it can be read", || async {
            (client.get_target(&target, None).await.status == StatusCode::OK).then_some(())
        })
        .await;
        let locking = connect(&platform.postgres_url()).await;
        let lock = TARGETS.sql("begin; lock table {schema}.targets in access exclusive mode");
        locking.batch_execute(&lock).await.expect("nobody else has it");
        let watching = connect(&platform.postgres_url()).await;
        Self { platform, client, target, locking, watching }
    }

    /// How many statements wait for the lock.
    async fn hanging(&self) -> usize {
        let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like any (array['%targets%', '%events%'])";
        let found = self.watching.query_one(waiting, &[]).await.expect("it is answered");
        usize::try_from(found.get::<_, i64>(0)).expect("it is a number")
    }

    async fn hang(&self, expected: usize) {
        eventually(&format!("{expected} statements wait"), || async {
            (self.hanging().await == expected).then_some(())
        })
        .await;
    }

    /// Locks history instead of the targets.
    async fn lock_history(&self) {
        self.unlock().await;
        let lock = HISTORY.sql("begin; lock table {schema}.events in access exclusive mode");
        self.locking.batch_execute(&lock).await.expect("nobody else has it");
    }

    async fn unlock(&self) {
        self.locking.batch_execute("rollback").await.expect("it is answered");
    }
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_cancelled_before_its_connection_serves_others() {
    let world = World::start().await;
    let World { platform, client, target, .. } = &world;
    let over_http_1 = || {
        let (client, path) = (client.clone(), format!("{}/{target}", tests::client::TARGETS));
        tokio::spawn(async move { drop(send(client.request(Method::GET, &path)).await) })
    };
    let grpc = Grpc::connect(&platform.bootstrap.issuer, Some(&client.token)).await;
    let over_http_2 = || {
        let (grpc, request) = (grpc.clone(), GetTargetRequest { id: target.clone() });
        tokio::spawn(async move { drop(grpc.call(&GET_TARGET, request).await) })
    };
    let user = format!("/resources/v3alpha/users/{}", platform.bootstrap.service_user.user_id);
    let cancelled = || async { platform.management().sum("platform_db_cancelled_total", &["pool=\"reads\""]).await };
    let ways: [(&str, &dyn Fn() -> JoinHandle<()>); 2] = [("HTTP/2", &over_http_2), ("HTTP/1.1", &over_http_1)];
    for (way, get) in ways.repeat(3) {
        let before = cancelled().await;
        let callers: Vec<_> = (0..HANGING).map(|_| get()).collect();
        world.hang(READS).await;
        callers.iter().for_each(JoinHandle::abort);
        let gone = Instant::now();
        // Who needs a connection meanwhile waits for it, and not for the statement that hangs on it.
        let users = join_all((0..HANGING).map(|_| send(client.request(Method::GET, &user))));
        assert!(users.await.iter().all(|answer| answer.status == StatusCode::OK), "{way}: others are served");
        world.hang(0).await;
        let took = gone.elapsed();
        println!("{way}: {} ms after its clients had gone, nothing hangs any more", took.as_millis());
        // Postgres ends each statement after 5 s.
        assert!(took.as_millis() < 2500, "{way}: its statements were not cancelled, but ended after {took:?}");
        assert!(cancelled().await >= before + 8.0, "{way}: it is counted");
    }
    world.unlock().await;
    assert_eq!(client.get_target(target, None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn slow_reads_take_no_connection_from_logins_commands_and_the_audit() {
    let world = World::start().await;
    let World { platform, client, target, .. } = &world;
    let slow = (0..READS).map(|_| {
        let (client, target) = (client.clone(), target.clone());
        tokio::spawn(async move { client.get_target(&target, None).await })
    });
    let slow: Vec<_> = slow.collect();
    world.hang(READS).await;

    // It logs in.
    let other = platform.client().await;
    created(&other, "/resources/v3alpha/organizations", json!({ "name": "meanwhile" })).await;
    let events = post(client, "/resources/v3alpha/events/_search", json!({})).await;
    assert_eq!(events.status, StatusCode::OK, "{events:?}");
    assert_eq!(world.hanging().await, READS, "the others still hang");

    world.unlock().await;
    for answer in slow {
        assert_eq!(answer.await.expect("it ends").status, StatusCode::OK, "it only had to wait");
    }
}

#[tokio::test]
async fn slow_searches_in_events_of_a_tenant_leave_others_their_turn_and_their_connections() {
    let world = World::start().await;
    let World { platform, client, .. } = &world;
    let quiet = instance_beside(platform).await.client().await;
    world.lock_history().await;
    let search = |client: &Client| {
        let client = client.clone();
        tokio::spawn(async move {
            let answer = post(&client, "/resources/v3alpha/events/_search", json!({})).await;
            (answer.status, Instant::now())
        })
    };
    let greedy: Vec<_> = (0..HANGING).map(|_| search(client)).collect();
    world.hang(AUDITS).await;
    let other = search(&quiet);
    assert_eq!(client.get_target(&world.target, None).await.status, StatusCode::OK);
    world.unlock().await;
    let (status, at) = other.await.expect("it ends");
    assert_eq!(status, StatusCode::OK, "it had its turn");
    let greedy = join_all(greedy).await.into_iter().map(|answer| answer.expect("it ends"));
    let (ok, later) = greedy.fold((0, 0), |(ok, later), (status, end)| {
        (ok + usize::from(status == StatusCode::OK), later + usize::from(end > at))
    });
    assert_eq!(ok, HANGING, "so had they");
    assert!(later >= 3, "it came last, and tenants take turns, but only {later} of {HANGING} ended later");
}

#[tokio::test]
async fn what_a_command_needs_to_know_is_not_read_on_when_its_caller_has_gone() {
    let world = World::start().await;
    let World { platform, client, .. } = &world;
    world.lock_history().await;
    let (unknown, path) = (client.clone(), format!("{}/1", tests::client::TARGETS));
    let caller =
        tokio::spawn(async move { send(unknown.request(Method::PATCH, &path).json(&json!({ "name": "new" }))).await });
    world.hang(1).await;
    caller.abort();
    let gone = Instant::now();
    world.hang(0).await;
    let took = gone.elapsed();
    println!("{} ms after its client had gone, nothing hangs any more", took.as_millis());
    assert!(took.as_millis() < 2500, "it was not cancelled, but ended after {took:?}");
    let cancelled = platform.management().sum("platform_db_cancelled_total", &["pool=\"history\""]).await;
    assert!(cancelled >= 1.0, "it is counted");
    world.unlock().await;
    assert!(client.create_target("goes on").await.is_some());
}
