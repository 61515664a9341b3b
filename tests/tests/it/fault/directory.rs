//! What a node remembers of tenants and their users: right until it changes, at no cost.

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    auditor::connect,
    client::{Client, ServiceUser, after, created, done, post, send, service_user},
    cluster::Cluster,
    eventually,
    platform::Platform,
    servers::Servers,
    tenant::instance_beside,
    throughout,
};

use super::scrub::{USERS, flags};

/// Longer than answers are used of which nothing is known.
const WHILE: Duration = Duration::from_secs(3);

/// How many answers were loaded from Postgres.
async fn loaded(platform: &Platform) -> u64 {
    let sum = platform.management().sum("platform_directory_lookups_total", &["outcome=\"loaded\""]).await;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    let count = sum as u64;
    count
}

async fn reads_its_users(client: &Client) -> bool {
    post(client, &format!("{USERS}/_search"), json!({})).await.status == 200
}

#[tokio::test]
async fn tenants_at_rest_cost_no_queries_and_a_change_is_seen() {
    let platform = Platform::start().await;
    platform.ready().await;
    let (mut tenants, mut clients) = (vec![], vec![]);
    for _ in 0..5 {
        let tenant = instance_beside(&platform).await;
        clients.push(tenant.client().await);
        tenants.push(tenant);
    }
    let [changed, ..] = &tenants[..] else { panic!("there are five") };
    let admin = changed.client().await;
    let viewer = json!({ "username": "viewer", "service": { "name": "viewer" } });
    let viewer_id = created(&admin, USERS, viewer).await.id();
    let role = json!({ "userId": viewer_id, "roles": ["IAM_OWNER_VIEWER"] });
    let role = created(&admin, "/resources/v3alpha/memberships", role).await.id();
    let viewer = changed.log_in(&admin, &viewer_id, "viewer").await;
    clients.push(viewer.clone());
    eventually("nothing is asked every second", async || {
        let (before, until, mut rounds) = (loaded(&platform).await, Instant::now() + WHILE, 0);
        while Instant::now() < until {
            for client in &clients {
                assert!(reads_its_users(client).await);
            }
            rounds += 1;
        }
        let after = loaded(&platform).await;
        println!("{rounds} rounds, {} answers loaded", after - before);
        (before > 0 && after == before).then_some(())
    })
    .await;

    let removed = send(admin.request(Method::DELETE, &format!("/resources/v3alpha/memberships/{role}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let since = Instant::now();
    eventually("the role is gone", async || (!reads_its_users(&viewer).await).then_some(())).await;
    println!("seen after {:.1?}", since.elapsed());
}

/// Returns the status of an attempt to log in; `None` if it succeeds.
async fn refusal(url: &str, user: &ServiceUser) -> Option<StatusCode> {
    Client::try_log_in(url, user).await.err().map(|answer| answer.status)
}

#[tokio::test]
async fn a_secret_that_was_replaced_does_not_count_although_the_read_model_stands_still() {
    let cluster = Cluster::start().await;
    let [command, projector, oidc] = ["command", "projector", "oidc"].map(|role| cluster.node(role, role, &[], &[]));
    cluster.writes(&command).await;
    cluster.is_ready(&oidc).await;
    let admin = cluster.client(&command);
    let [user, other] = [
        service_user(&admin, ("replaced", json!({})), "").await,
        service_user(&admin, ("untouched", json!({})), "").await,
    ];
    for known in [&user, &other] {
        let logs_in = async || refusal(&oidc.url, known).await.is_none().then_some(());
        eventually("the node knows the secret", logs_in).await;
    }
    drop(projector);
    let secret = done(&admin, &format!("{USERS}/{}/_generate_secret", user.user_id), json!({})).await;
    let client_secret = secret.body["clientSecret"].as_str().expect("it is shown").to_owned();
    let renewed = ServiceUser { client_secret, ..user.clone() };
    let is_refused = async |user, status| (refusal(&oidc.url, user).await == Some(status)).then_some(());
    for of_user in [&user, &renewed] {
        let waits = || is_refused(of_user, StatusCode::SERVICE_UNAVAILABLE);
        eventually("neither secret counts as long as the read model has one and the log has the other", waits).await;
        throughout(WHILE, "it never does", async || waits().await.is_some()).await;
    }
    assert_eq!(refusal(&oidc.url, &other).await, None, "others are not concerned");
    // A node that starts now has not heard of the change, and reads it from the log.
    let late = cluster.node("oidc", "late", &[], &[]);
    cluster.is_ready(&late).await;
    for of_user in [&user, &renewed] {
        assert_eq!(refusal(&late.url, of_user).await, Some(StatusCode::SERVICE_UNAVAILABLE));
    }
    assert_eq!(refusal(&late.url, &other).await, None);

    let _projector = cluster.node("projector", "another", &[], &[]);
    eventually("the new one counts", async || refusal(&oidc.url, &renewed).await.is_none().then_some(())).await;
    assert_eq!(refusal(&oidc.url, &user).await, Some(StatusCode::UNAUTHORIZED));
}

#[tokio::test]
async fn a_row_that_is_repaired_is_read_again() {
    let servers = Servers::start().await;
    let platform = Platform::start_with(&flags(&servers), &[]).await;
    platform.ready().await;
    let client = platform.client().await;
    let database = connect(&servers.places.postgres_url).await;
    let mut refused = None;
    // A row may be repaired before somebody needs it.
    for number in 0..10 {
        let name = format!("user {number}");
        let user_id = created(&client, USERS, json!({ "username": name, "service": { "name": name } })).await.id();
        let secret = post(&client, &format!("{USERS}/{user_id}/_generate_secret"), json!({})).await;
        let client_secret = secret.body["clientSecret"].as_str().expect("it is shown").to_owned();
        after(&secret, client.request(Method::GET, &format!("{USERS}/{user_id}"))).await;
        database.execute("delete from access_10.users where id = $1", &[&user_id]).await.expect("it is lost");
        let user = ServiceUser { user_id, client_id: name, client_secret };
        if Client::try_log_in(&platform.bootstrap.issuer, &user).await.is_err() {
            refused = Some(user);
            break;
        }
    }
    let user = refused.expect("somebody is refused whose row is lost");
    let logs_in = async || Client::try_log_in(&platform.bootstrap.issuer, &user).await.ok().map(|_| ());
    eventually("the row is repaired, and that is seen", logs_in).await;
}
