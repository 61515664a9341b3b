//! The second log: a process that is killed or stopped between the two logs loses no acknowledged revocation, and
//! invents none.

use std::{os::unix::process::ExitStatusExt, time::Duration};

use domain::log_class::LogClass;
use eventlog::{
    log::Log,
    record::{Position, Record},
};
use futures::StreamExt;
use jiff::SignedDuration;
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use tests::{
    auditor::{Audit, connect},
    client::{Client, ServiceUser, TARGETS, send},
    cluster::Cluster,
    eventually,
    forge::append_revocation,
    platform::Platform,
    process::run,
    servers::{Servers, drop_read_models},
};

/// The steps at which a process is killed, with the hit. The first publish to that log is its barrier record.
const STEPS: [(&str, u32); 6] = [
    ("activate.between", 1),
    ("commit.publishing/SESSIONS", 1),
    ("commit.published/SESSIONS", 1),
    ("commit.publishing/SESSIONS", 2),
    ("commit.published/SESSIONS", 2),
    ("commit.answering", 1),
];

async fn status(client: &Client, token: &str) -> StatusCode {
    send(client.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token)).await.status
}

/// Revokes a token, and returns whether that was acknowledged.
async fn revoke(client: &Client, user: &ServiceUser, token: &str) -> bool {
    let request = client.anonymous(Method::POST, "/oauth/v2/revoke").timeout(Duration::from_secs(15));
    let request = request.basic_auth(&user.client_id, Some(&user.client_secret)).form(&[("token", token)]);
    request.send().await.is_ok_and(|answer| answer.status() == StatusCode::OK)
}

/// Returns the records of the second log, each of which continues the one before.
async fn records(client: async_nats::Client) -> Vec<Record> {
    let log = Log::open(client, LogClass::Sessions, 0, 1).await.expect("it is there");
    let end = log.end().await.expect("it can be read");
    let mut records = log.follow(Position::default()).await.expect("it can be read");
    let mut found: Vec<Record> = vec![];
    while u64::try_from(found.len()).expect("it is short") < end {
        let record = records.next().await.expect("there is one more").expect("it continues the one before");
        found.push((*record).clone());
    }
    found
}

#[tokio::test]
async fn whoever_dies_between_the_logs_loses_no_revocation_and_invents_none() {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let client = platform.client().await;
    let user = platform.bootstrap.service_user.clone();
    let mut over = vec![];
    for (point, hit) in STEPS {
        let [token, kept] = [
            Client::log_in(&platform.bootstrap.issuer, &user).await.token,
            Client::log_in(&platform.bootstrap.issuer, &user).await.token,
        ];
        platform.process().kill().await;
        platform.respawn(&[("PLATFORM_FAULT", &format!("{point}:{hit}:kill"))]);
        // It may be dead before it answers.
        let asking = async {
            eventually("an answer, or the end", async || {
                let is_there = client.anonymous(Method::GET, "/oauth/v2/keys").send().await.is_ok();
                (is_there && revoke(&client, &user, &token).await).then_some(())
            })
            .await;
        };
        let status_of_end = tokio::select! {
            ended = platform.process().ended() => Some(ended),
            () = asking => None,
        };
        let ended = status_of_end.unwrap_or_else(|| panic!("{point} {hit}: it acknowledged and did not die"));
        assert_eq!(ended.signal(), Some(9), "{point} {hit}: it died where it should");
        platform.restart(&[]).await;
        let known = async || revoke(&client, &user, &token).await.then_some(());
        eventually("it is revoked after all", known).await;
        assert_eq!(status(&client, &token).await, StatusCode::UNAUTHORIZED, "{point} {hit}");
        assert_ne!(status(&client, &kept).await, StatusCode::UNAUTHORIZED, "{point} {hit}: nobody revoked it");
        assert!(client.create_target("after").await.is_some(), "{point} {hit}: the other log goes on");
        over.push(token);
    }
    platform.stop().await;
    platform.restart(&[]).await;
    for token in &over {
        assert_eq!(status(&client, token).await, StatusCode::UNAUTHORIZED);
    }
    let audit = Audit::of(servers.nats().await).await;
    audit.assert_projected(&servers.places.postgres_url).await;
    let records = records(servers.nats().await).await;
    let events: usize = records.iter().map(|record| record.events.len()).sum();
    assert_eq!(events, over.len(), "each was revoked once, however often that was asked");
    assert!(records.is_sorted_by_key(|record| record.commit.epoch));
    assert!(
        records.iter().all(|record| record.commit.log_id == audit.records[0].commit.log_id),
        "both are of one platform"
    );
}

#[tokio::test]
async fn a_writer_that_was_stopped_before_it_publishes_a_revocation_leaves_it_to_the_next() {
    let cluster = Cluster::start_with_short_leases().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let fault = ("PLATFORM_FAULT", "commit.publishing/SESSIONS:2:stop");
    let first = cluster.node("command", "first", &[], &[fault]);
    cluster.writes(&first).await;
    let second = cluster.node("command", "second", &[("--node-number", "1")], &[]);
    let oidc = cluster.node("oidc", "oidc", &[], &[]);
    cluster.is_ready(&oidc).await;
    let (at_oidc, at_second) = (cluster.client(&oidc), cluster.client(&second));
    let user = &cluster.bootstrap.service_user;
    let token = Client::log_in(&oidc.url, user).await.token;
    let revoked = eventually("the next writer does it", async || revoke(&at_oidc, user, &token).await.then_some(()));
    let (gap, ()) = tokio::join!(cluster.writes(&second), revoked);
    println!("the second writes after {gap:?}");
    first.process.signal(Signal::CONT);
    assert!(at_second.create_target("after").await.is_some());
    let at_first = cluster.client(&first);
    let refused = async || {
        let request = at_first.anonymous(Method::POST, TARGETS).bearer_auth(&token).json(&serde_json::json!({}));
        (send(request).await.status == StatusCode::UNAUTHORIZED).then_some(())
    };
    eventually("the first knows", refused).await;
    let records = records(cluster.servers.nats().await).await;
    let written: Vec<u64> = records.iter().filter(|it| !it.events.is_empty()).map(|it| it.commit.epoch).collect();
    assert_eq!(written.len(), 1, "it is in the log once: {written:?}");
    let last = records.iter().map(|record| record.commit.epoch).max().expect("there are some");
    assert_eq!(written, [last], "and the one who was stopped has not written it");
}

/// Returns the events of an aggregate of the second log in history, by how many days from now each is.
async fn history(postgres: &tokio_postgres::Client, id: &str) -> Vec<i64> {
    let select = "select version, (extract(epoch from committed_at - clock_timestamp()) / 86400)::bigint \
                  from session_history_1.events where aggregate_id = $1 order by version";
    let rows = postgres.query(select, &[&id]).await.expect("it has the table");
    rows.iter().map(|row| row.get(1)).collect()
}

#[tokio::test]
async fn what_has_aged_out_begins_anew_in_history_too() {
    let servers = Servers::start().await;
    let mut platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let postgres = connect(&servers.places.postgres_url).await;
    platform.stop().await;
    for (id, days) in [("aged", 0), ("other", 1), ("aged", 99)] {
        append_revocation(servers.nats().await, "1", id, SignedDuration::from_hours(days * 24)).await;
    }
    for round in ["from where it was", "all of it in one batch"] {
        platform.restart(&[]).await;
        platform.ready().await;
        let ages = eventually("it is in history", async || {
            let ages = history(&postgres, "aged").await;
            (!ages.is_empty()).then_some(ages)
        })
        .await;
        assert_eq!((ages, history(&postgres, "other").await), (vec![99], vec![]), "{round}");
        let nats = &servers.places;
        let (is_whole, told, complaint) = run(&[
            "log",
            "verify",
            "--log",
            "sessions",
            "--nats-url",
            &nats.nats_url,
            "--nats-token",
            &nats.nats_token,
        ]);
        assert!(is_whole && told.contains("the log is intact"), "{told}{complaint}");
        platform.stop().await;
        drop_read_models(&servers.places.postgres_url).await;
    }
}

#[tokio::test]
async fn the_log_of_sessions_alone_is_lost_and_made_anew() {
    let cluster = Cluster::start().await;
    let mut nodes = ["projector", "command", "oidc"].map(|role| cluster.node(role, role, &[], &[]));
    let [_, command, oidc] = &nodes;
    cluster.writes(command).await;
    cluster.is_ready(oidc).await;
    let (user, at_oidc) = (&cluster.bootstrap.service_user, cluster.client(oidc));
    let token = Client::log_in(&oidc.url, user).await.token;
    assert!(revoke(&at_oidc, user, &token).await);
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    eventually("history has it", async || {
        let select = "select 1 from session_history_1.events";
        postgres.query_opt(select, &[]).await.expect("it has the table")
    })
    .await;
    for node in &mut nodes {
        node.process.end().await;
    }
    let context = async_nats::jetstream::new(cluster.servers.nats().await);
    context.delete_stream("SESSIONS_0").await.expect("it is there");

    // History has the only copy of what was revoked, and it still counts.
    let mut command = cluster.node("command", "command", &[], &[]);
    assert!(!command.process.ended().await.success());
    let said = command.log();
    let told = |words: &str| said.lines().any(|line| line.starts_with("platform: ") && line.contains(words));
    assert!(told("session_history is at message") && told("but SESSIONS_0 ends at"), "{said}");
    // The search index of sessions, which is of the log that is gone, is built anew.
    let [mut projector, mut query] = ["projector", "query"].map(|role| cluster.node(role, role, &[], &[]));
    cluster.is_ready(&query).await;
    let at_query = cluster.client(&query);
    assert_eq!(status(&at_query, &token).await, StatusCode::UNAUTHORIZED);
    query.process.end().await;
    projector.process.end().await;

    // As docs/operations.md says.
    let recipe = "drop schema session_history_1, sessions_3 cascade; \
                  delete from platform.checkpoints where projection in ('session_history', 'sessions')";
    postgres.batch_execute(recipe).await.expect("Postgres takes it");
    let [_projector, command, oidc, query] =
        ["projector", "command", "oidc", "query"].map(|role| cluster.node(role, role, &[], &[]));
    cluster.writes(&command).await;
    cluster.is_ready(&oidc).await;
    cluster.is_ready(&query).await;
    let (at_oidc, at_query) = (cluster.client(&oidc), cluster.client(&query));
    assert_eq!(status(&at_query, &token).await, StatusCode::NOT_FOUND, "nobody knows any more that it ended");
    assert!(revoke(&at_oidc, user, &token).await);
    eventually("it is known again", async || {
        (status(&at_query, &token).await == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
}
