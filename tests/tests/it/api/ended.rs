//! Deactivated and removed objects stop working at once, on every node, with or without Postgres.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{Client, TARGETS, after, done, send, service_user},
    cluster::{Cluster, Node},
    eventually,
    proxy::Proxy,
    throughout,
};
use tokio::time::Instant;

/// How soon every node knows what has ended.
const KNOWN: Duration = Duration::from_secs(1);
/// How long a node may receive nothing about what has ended.
const SILENCE: Duration = Duration::from_secs(5);
const SLACK: u32 = 5;
const USERS: &str = "/resources/v3alpha/users";
const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";

/// Creates a service user who may read the instance, and returns its token.
async fn reader(admin: &Client, issuing: &str, organization: &str, username: &str) -> (String, Client) {
    let user = service_user(admin, (username, json!({})), &format!("?ctx.orgId={organization}")).await;
    done(admin, MEMBERSHIPS, json!({ "userId": user.user_id, "roles": ["IAM_OWNER_VIEWER"] })).await;
    let client = Client::log_in(issuing, &user).await;
    (user.user_id, client)
}

/// Sends a search, which needs no Postgres.
async fn searches(client: &Client) -> StatusCode {
    send(client.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([]))).await.status
}

async fn issues(admin: &Client, oidc: &Node) {
    eventually("tokens are issued", async || {
        let discovery = admin.at(&oidc.url).anonymous(Method::GET, "/.well-known/openid-configuration");
        send(discovery).await.status.is_success().then_some(())
    })
    .await;
}

/// Fails unless the token is dead within the time that it may take.
async fn dies(what: &str, client: &Client) {
    let begun = Instant::now();
    eventually(what, async || (searches(client).await == StatusCode::UNAUTHORIZED).then_some(())).await;
    let took = begun.elapsed();
    println!("{what}: known after {took:.0?} (to be: {KNOWN:?})");
    assert!(took < KNOWN * SLACK, "{what}: {took:?}");
}

#[tokio::test]
async fn tokens_die_with_their_user_and_organization_on_a_node_without_postgres() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let oidc = cluster.node("oidc", "oidc", &[], &[]);
    let (proxy, through) = Proxy::before(&cluster.servers.places.postgres_url).await;
    let query = cluster.node("query", "query", &[("--postgres-url", &through)], &[]);
    cluster.writes(&command).await;
    let (admin, asking) = (cluster.client(&command), cluster.client(&query));
    cluster.searches(&asking).await;
    issues(&admin, &oidc).await;

    let organization = done(&admin, ORGANIZATIONS, json!({ "name": "Ending" })).await.id();
    let mut readers = vec![];
    for (number, place) in
        [&cluster.bootstrap.organization_id, &cluster.bootstrap.organization_id, &organization].into_iter().enumerate()
    {
        let (id, client) = reader(&admin, &oidc.url, place, &format!("reader-{number}")).await;
        let client = client.at(&query.url);
        eventually("the node knows the reader", async || searches(&client).await.is_success().then_some(())).await;
        readers.push((id, client));
    }
    proxy.cut();
    for (_, client) in &readers {
        assert_eq!(searches(client).await, StatusCode::OK, "what was known goes on");
    }
    let (first, second) = (&readers[0], &readers[1]);
    done(&admin, &format!("{USERS}/{}/_deactivate", first.0), json!({})).await;
    dies("a deactivated user, without Postgres", &first.1).await;
    let removed = send(admin.request(Method::DELETE, &format!("{USERS}/{}", second.0))).await;
    assert_eq!(removed.status, StatusCode::OK, "{}", removed.body);
    dies("a removed user, without Postgres", &second.1).await;
    proxy.open();
    done(&admin, &format!("{ORGANIZATIONS}/{organization}/_deactivate"), json!({})).await;
    dies("the user of a deactivated organization", &readers[2].1).await;

    // What was switched on again is not what it was: old tokens stay dead.
    let again = done(&admin, &format!("{USERS}/{}/_reactivate", first.0), json!({})).await;
    let search = asking.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([]));
    assert_eq!(after(&again, search).await.status, StatusCode::OK, "the node has heard of it");
    assert_eq!(searches(&first.1).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_node_that_does_not_hear_what_has_ended_accepts_no_token() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let projector = cluster.node("projector", "projector", &[], &[]);
    let oidc = cluster.node("oidc", "oidc", &[], &[]);
    let (postgres, postgres_url) = Proxy::before(&cluster.servers.places.postgres_url).await;
    let (nats, nats_url) = Proxy::before(&cluster.servers.places.nats_url).await;
    let limit = SILENCE.as_secs().to_string();
    let flags = [("--postgres-url", postgres_url.as_str()), ("--nats-url", &nats_url), ("--silence-limit", &limit)];
    let query = cluster.node("query", "query", &flags, &[]);
    cluster.writes(&command).await;
    let admin = cluster.client(&command);
    cluster.searches(&cluster.client(&query)).await;
    issues(&admin, &oidc).await;
    let (id, client) = reader(&admin, &oidc.url, &cluster.bootstrap.organization_id, "reader").await;
    let client = client.at(&query.url);
    eventually("the node knows the reader", async || searches(&client).await.is_success().then_some(())).await;

    // Without the log it is read what has ended, so that what was on again before anybody looked is noticed too.
    nats.cut();
    for change in ["_deactivate", "_reactivate"] {
        done(&admin, &format!("{USERS}/{id}/{change}"), json!({})).await;
    }
    dies("a token from before, without the log", &client).await;
    let asking = cluster.client(&query);
    // For longer than the node may hear nothing of both.
    throughout(SILENCE + KNOWN, "one of both is enough", async || searches(&asking).await == StatusCode::OK).await;

    postgres.cut();
    refuses_all_tokens("neither is heard", &asking).await;
    postgres.open();
    eventually("it accepts tokens again", async || searches(&asking).await.is_success().then_some(())).await;
    drop(projector);
    refuses_all_tokens("nobody tells Postgres what is in the log", &asking).await;
    nats.open();
    eventually("it accepts tokens again", async || searches(&asking).await.is_success().then_some(())).await;
    assert_eq!(searches(&client).await, StatusCode::UNAUTHORIZED, "what is dead stays dead");
}

/// Asserts that a node goes on for a moment, and then refuses all tokens and reports why.
async fn refuses_all_tokens(why: &str, asking: &Client) {
    assert_eq!(searches(asking).await, StatusCode::OK, "what was heard a moment ago goes on");
    let begun = Instant::now();
    let refused = eventually("no token is accepted", async || {
        let answer = send(asking.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([]))).await;
        (answer.status == StatusCode::SERVICE_UNAVAILABLE).then_some(answer)
    })
    .await;
    println!("{why}: no token is accepted after {:.1?} (to be: {SILENCE:?})", begun.elapsed());
    assert!(begun.elapsed() < SILENCE * SLACK);
    assert!(refused.body["message"].as_str().is_some_and(|text| text.contains("cannot check at")), "{}", refused.body);
    assert!(refused.headers.contains_key("retry-after"));
}
