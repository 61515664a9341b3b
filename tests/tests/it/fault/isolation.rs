//! Failures of one command, event or tenant do not affect all others.

use std::{fs, time::Duration};

use futures::future::join_all;
use proto::{action::CreateTargetRequest, operation::CREATE_TARGET};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    auditor::{Audit, connect},
    client::{Answer, Client, TARGETS, done, send, service_user, target},
    cluster::{Cluster, Node},
    eventually,
    grpc::Grpc,
    platform::Platform,
    proxy::Proxy,
    servers::Servers,
    tenant::instance_beside,
};
use tokio::task::JoinHandle;

const API: &str = "/resources/v3alpha";

async fn rename(client: &Client, id: &str, name: &str) -> Answer {
    send(client.request(Method::PATCH, &format!("{TARGETS}/{id}")).json(&json!({ "name": name }))).await
}

async fn writer(cluster: &Cluster, name: &str, fault: &str) -> (Node, Client) {
    let node = cluster.node("command", name, &[], &[("PLATFORM_FAULT", fault)]);
    cluster.writes(&node).await;
    let client = cluster.client(&node);
    (node, client)
}

/// Sends a create without waiting for its answer.
fn creating(client: &Client, name: &str, key: Option<&str>) -> JoinHandle<Answer> {
    let mut request = client.request(Method::POST, TARGETS).timeout(Duration::from_secs(50)).json(&target(name));
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    tokio::spawn(send(request))
}

#[tokio::test]
async fn a_decision_that_panics_refuses_that_command_and_leaves_nothing() {
    let cluster = Cluster::start().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let (command, client) = writer(&cluster, "command", "turn.decided/PatchTarget:1:panic").await;
    let id = client.create_target("target").await.expect("it is created");
    let end = cluster.audit().await.end();
    for _ in 0..2 {
        let body = json!({ "name": "careless" });
        let patch =
            client.request(Method::PATCH, &format!("{TARGETS}/{id}")).header("idempotency-key", "key").json(&body);
        let refused = send(patch).await;
        refused.assert_refused("its decision panics", 500, "INTERNAL");
        let number = refused.body["message"].as_str().and_then(|told| told.split(' ').next_back()).expect("it has one");
        let told = command.log();
        let line = told.lines().find(|line| line.contains(number)).expect("it is in the log under its number");
        assert!(line.contains("PatchTarget") && line.contains("turn.decided"), "{line}");
    }
    assert_eq!(cluster.audit().await.end(), end, "nothing of it is in the log");

    // The writer goes on.
    assert!(client.create_target("another").await.is_some());
    assert_eq!(send(client.request(Method::DELETE, &format!("{TARGETS}/{id}"))).await.status, StatusCode::OK);
    assert_eq!(cluster.audit().await.events_of(&id).len(), 2, "created and removed");
    assert!(!command.log().contains("no longer writes"));
}

#[tokio::test]
async fn an_object_whose_fold_panics_refuses_only_who_needs_it() {
    let cluster = Cluster::start().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let (mut before, client) = writer(&cluster, "before", "").await;
    let broken = client.create_target("broken").await.expect("it is created");
    let other = client.create_target("other").await.expect("it is created");
    cluster.audit().await.wait_projected(&cluster.servers.places.postgres_url).await;
    before.process.end().await;

    let (command, client) = writer(&cluster, "command", &format!("turn.folding/{broken}:1:panic")).await;
    for _ in 0..2 {
        rename(&client, &broken, "never").await.assert_refused("its fold panics", 500, "INTERNAL");
        assert_eq!(rename(&client, &other, "renamed").await.status, StatusCode::OK);
    }
    assert!(client.create_target("new").await.is_some());
    assert!(!command.log().contains("no longer writes"));
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_not_decided() {
    let cluster = Cluster::start().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let proxy = Proxy::start(cluster.servers.places.nats_url.trim_start_matches("nats://")).await;
    let command = cluster.node("command", "command", &[("--nats-url", &format!("nats://{}", proxy.address))], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    client.create_target("makes everything about the caller known").await.expect("it writes");

    // The lease is renewed, and no record gets into the log.
    let seen = proxy.arrived();
    // For about 15 s, in which callers lose their patience.
    proxy.lose_publishes(8);
    let first = creating(&client, "first", Some("first"));
    eventually("its publish is lost", || async { (proxy.arrived() > seen).then_some(()) }).await;
    let waiting = |number: f64| {
        let management = command.management.clone();
        let all_wait = move || {
            let management = management.clone();
            async move { (management.sum("platform_commands_waiting", &[]).await >= number).then_some(()) }
        };
        async move { eventually("they wait for their turn", all_wait).await }
    };
    // Over HTTP/2, which tells a node that a client has gone.
    let grpc = Grpc::connect(&command.url, Some(&client.token)).await;
    let request: CreateTargetRequest = serde_json::from_value(json!({ "target": target("gone") })).expect("it is one");
    let gone = tokio::spawn(async move {
        let _ = grpc.call_with(&CREATE_TARGET, request, &[("idempotency-key", "gone")]).await;
    });
    waiting(2.0).await;
    gone.abort();
    let late = creating(&client, "late", Some("late"));
    waiting(2.0).await;
    // Its key is free as soon as the node knows that its client has gone.
    let again = eventually("the key is free", || async {
        let again = creating(&client, "again", Some("gone"));
        tokio::time::timeout(Duration::from_millis(500), again).await.is_err().then_some(())
    });
    again.await;

    let first = first.await.expect("it is answered");
    first.assert_refused("it is in a record that is on its way", 503, "OUTCOME_UNKNOWN");
    let late = late.await.expect("it is answered");
    late.assert_refused("its turn did not come", 503, "WRITER_UNAVAILABLE");
    let retried = eventually("it writes again", || async {
        let retried = creating(&client, "late", Some("late")).await.expect("it is answered");
        (retried.status == StatusCode::CREATED).then_some(retried)
    });
    assert!(!retried.await.headers.contains_key("idempotency-replayed"), "it had not been done");
    let created = cluster.audit().await.created();
    let times = |name: &str| created.get(name).map_or(0, Vec::len);
    assert_eq!((times("first"), times("gone"), times("late")), (1, 0, 1), "{created:?}");
}

#[tokio::test]
async fn what_is_slow_to_read_for_one_command_refuses_no_other() {
    let cluster = Cluster::start().await;
    let mut projector = cluster.node("projector", "projector", &[], &[]);
    let (mut before, client) = writer(&cluster, "before", "").await;
    let mut ids = vec![];
    for number in 0..10 {
        ids.push(client.create_target(&format!("target {number}")).await.expect("it writes"));
    }
    let url = &cluster.servers.places.postgres_url;
    cluster.audit().await.wait_projected(url).await;
    before.process.end().await;
    projector.process.end().await;
    // Whoever reads the events of this one waits.
    let text = "create function history_2.slow() returns boolean language plpgsql volatile cost 1000000000 as \
                $$begin perform pg_sleep(60); return true; end$$; \
                alter table history_2.events rename to kept; create view history_2.events as \
                select * from history_2.kept where aggregate_id <> 'ID' or history_2.slow(); \
                alter role current_user set enable_seqscan = off; alter role current_user set enable_hashjoin = off; \
                alter role current_user set enable_mergejoin = off";
    connect(url).await.batch_execute(&text.replace("ID", &ids[3])).await.expect("Postgres is there");

    let proxy = Proxy::start(cluster.servers.places.nats_url.trim_start_matches("nats://")).await;
    let command = cluster.node("command", "command", &[("--nats-url", &format!("nats://{}", proxy.address))], &[]);
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    client.create_target("makes everything about the caller known").await.expect("it writes");
    // For about two seconds, in which all the others gather, to be loaded together.
    let seen = proxy.arrived();
    proxy.lose_publishes(2);
    let first = creating(&client, "first", None);
    eventually("its publish is lost", || async { (proxy.arrived() > seen).then_some(()) }).await;
    let patches = ids.iter().map(|id| rename(&client, id, "renamed"));
    for (number, patched) in join_all(patches).await.into_iter().enumerate() {
        if number == 3 {
            patched.assert_refused("its history is not read in time", 503, "WRITER_UNAVAILABLE");
        } else {
            assert_eq!(patched.status, StatusCode::OK, "{number}: {}", patched.body);
        }
    }
    assert_eq!(first.await.expect("it is answered").status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_tenant_that_floods_the_writer_keeps_no_other_from_its_turn() {
    const FLOOD: usize = 100;
    let servers = Servers::start().await;
    let proxy = Proxy::start(servers.places.nats_url.trim_start_matches("nats://")).await;
    let mut flags = servers.flags();
    let place = flags.iter().position(|word| word == "--nats-url").expect("it is given");
    flags[place + 1] = format!("nats://{}", proxy.address);
    let platform = Platform::start_with(&flags, &[]).await;
    platform.ready().await;
    let (greedy, quiet) = (platform.client().await, instance_beside(&platform).await);
    let (quiet_id, quiet) = (quiet.bootstrap.instance_id.clone(), quiet.client().await);
    for client in [&greedy, &quiet] {
        client.create_target("makes everything about the caller known").await.expect("it writes");
    }

    let seen = proxy.arrived();
    // For about 6 s.
    proxy.lose_publishes(5);
    let mut all = vec![creating(&greedy, "first", None)];
    eventually("its publish is lost", || async { (proxy.arrived() > seen).then_some(()) }).await;
    all.extend((0..FLOOD).map(|number| creating(&greedy, &format!("flood {number}"), None)));
    let management = platform.management();
    let waiting = |number: usize| {
        let management = management.clone();
        async move {
            let waiting = management.sum("platform_commands_waiting", &[]).await;
            (waiting >= f64::from(u32::try_from(number).expect("they are few"))).then_some(())
        }
    };
    eventually("the flood waits", || waiting(FLOOD + 1)).await;
    all.extend(["one", "two"].map(|name| creating(&quiet, name, None)));
    eventually("all wait", || waiting(FLOOD + 3)).await;
    for answer in join_all(all).await {
        let answer = answer.expect("it is answered");
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    }
    let audit = Audit::of(servers.nats().await).await;
    let added = audit.events.iter().filter(|recorded| recorded.event.r#type == "target.added");
    let instances: Vec<_> = added.map(|recorded| recorded.event.instance_id.clone()).collect();
    let since = &instances[instances.len() - FLOOD - 3..];
    let quiet: Vec<_> = since.iter().enumerate().filter(|(_, id)| **id == quiet_id).map(|(place, _)| place).collect();
    println!("the quiet tenant's commands are at {quiet:?} of {}", since.len());
    // The first of the flood was on its way; after that they take turns.
    assert!(quiet.len() == 2 && quiet[1] <= 5, "they waited for the flood: {quiet:?}");
}

/// Creates a service user whose token reads targets, and returns its id and the token.
async fn reader(client: &Client, oidc: &Node) -> (String, String) {
    let user = service_user(client, ("reader", json!({})), "").await;
    let role = json!({ "userId": user.user_id, "roles": ["IAM_OWNER_VIEWER"] });
    done(client, &format!("{API}/memberships"), role).await;
    let token = Client::log_in(&oidc.url, &user).await.token;
    (user.user_id, token)
}

#[tokio::test]
async fn a_record_that_cannot_be_applied_in_memory_holds_up_no_other() {
    let switch = tempfile::NamedTempFile::new().expect("a temporary file can be made").into_temp_path();
    fs::remove_file(&switch).expect("it was just made");
    let cluster = Cluster::start().await;
    let fault = format!("follower.applying:1:panic-while={}", switch.display());
    let [_projector, command, oidc] = ["projector", "command", "oidc"].map(|role| cluster.node(role, role, &[], &[]));
    let query = cluster.node("query", "query", &[], &[("PLATFORM_FAULT", &fault)]);
    cluster.writes(&command).await;
    for node in [&oidc, &query] {
        cluster.is_ready(node).await;
    }
    let (at_command, at_query) = (cluster.client(&command), cluster.client(&query));
    let (id, token) = reader(&at_command, &oidc).await;
    let answered = async || {
        let request = at_query.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(&token);
        send(request).await.status
    };
    eventually("its role is known", async || (answered().await == StatusCode::NOT_FOUND).then_some(())).await;

    fs::write(&switch, "").expect("the folder can be written");
    let off = at_command.request(Method::POST, &format!("{API}/users/{id}/_deactivate"));
    assert_eq!(send(off).await.status, StatusCode::OK);
    let set = async |name: &str| {
        let body = json!({ name: { "set": "61.5s" } });
        let answer = send(at_command.request(Method::PATCH, "/settings/v3alpha/oidc").json(&body)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    };
    set("accessTokenLifetime").await;
    for what in ["what has ended", "what is set in which context", "what executions call"] {
        let told = format!("{what} goes on without a record that cannot be applied");
        eventually(&told, async || query.log().contains(&told).then_some(())).await;
    }
    eventually("it counts as ended", async || (answered().await == StatusCode::UNAUTHORIZED).then_some(())).await;

    fs::remove_file(&switch).expect("it is there");
    set("idTokenLifetime").await;
    eventually("what comes behind it is taken up", async || {
        let found = send(at_query.request(Method::GET, "/settings/v3alpha/oidc")).await;
        found.body.to_string().contains("61.500s").then_some(())
    })
    .await;
}
