//! The cost of executions: looking one up, calling a target on this machine, and delivering events.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use action::executions::ExecutionIndex;
use domain::log_class::LogClass;
use eventlog::log::Log;
use proto::operation::GET_TARGET;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, TARGETS, send},
    endpoint::{Endpoint, execute},
    eventually,
    platform::Platform,
};
use view::database::Database;

/// The number of lookups in the index.
const LOOKS: u32 = 1_000_000;
/// How many requests are sent, one after another.
const REQUESTS: u32 = 2000;
/// The numbers of targets, with the numbers of events that are delivered to each.
const EVENTS: [(usize, usize); 2] = [(1, 2000), (100, 100)];

pub(crate) async fn measure() {
    let platform = Platform::start().await;
    let (client, endpoint) = (platform.client().await, Endpoint::start().await);
    let (id, _) = endpoint.target(&client, "restWebhook", &json!({})).await;
    let (url, token) = platform.nats();
    let nats = async_nats::ConnectOptions::with_token(token).connect(url).await.expect("NATS is there");
    let log = Log::open(nats, LogClass::Events, 0, 1).await.expect("the log can be opened");
    let database = Database::new(&platform.postgres_url(), 1).expect("the address is right");
    let index = ExecutionIndex::open(log, &database, 0).await.expect("the log can be read");
    println!("| what | time |\n|---|---|");
    measure_lookups(&index, &platform, "look for an execution where there is none");
    execute(&client, json!({ "response": { "service": GET_TARGET.facts.service } }), &[&id]).await;
    let found = || async { look_once(&index, &platform).then_some(()) };
    eventually("the execution is known", found).await;
    measure_lookups(&index, &platform, "find one by its service");
    let with = requests(&client, &id).await;
    execute(&client, json!({ "response": { "service": GET_TARGET.facts.service } }), &[]).await;
    let without = requests(&client, &id).await;
    println!("| get a target, no execution | {:.0} µs |", micros(without));
    println!("| get a target, a webhook on this machine for its response | {:.0} µs |", micros(with));
    drop(platform);
    for (targets, events) in EVENTS {
        measure_deliveries(targets, events).await;
    }
}

fn look_once(index: &ExecutionIndex, platform: &Platform) -> bool {
    let facts = &GET_TARGET.facts;
    index.call(black_box(&platform.bootstrap.instance_id), facts.service, facts.grpc).is_some()
}

fn measure_lookups(index: &ExecutionIndex, platform: &Platform, what: &str) {
    let begun = Instant::now();
    for _ in 0..LOOKS {
        black_box(look_once(index, platform));
    }
    println!("| {what} | {:.0} ns |", begun.elapsed().as_secs_f64() / f64::from(LOOKS) * 1e9);
}

async fn requests(client: &Client, id: &str) -> Duration {
    let begun = Instant::now();
    for _ in 0..REQUESTS {
        let answer = send(client.request(Method::GET, &format!("{TARGETS}/{id}"))).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    begun.elapsed() / REQUESTS
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Writes events while they are delivered to the endpoint, each to a number of targets.
async fn measure_deliveries(targets: usize, events: usize) {
    let platform = Platform::start().await;
    let (client, endpoint) = (platform.client().await, Endpoint::start().await);
    let mut ids = vec![];
    for _ in 0..targets {
        ids.push(endpoint.target(&client, "restWebhook", &json!({})).await.0);
    }
    let condition: Value = json!({ "event": { "event": "target.changed" } });
    execute(&client, condition, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let begun = Instant::now();
    let writers = (0..16).map(|writer| {
        let (client, id) = (client.clone(), ids[writer % ids.len()].clone());
        tokio::spawn(async move {
            for number in 0..events / 16 {
                let request = client.request(Method::PATCH, &format!("{TARGETS}/{id}"));
                let answer = send(request.json(&json!({ "name": format!("{writer}.{number}") }))).await;
                assert_eq!(answer.status, 200, "{}", answer.body);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("it ends");
    }
    let told = events / 16 * 16 * targets;
    let all = || std::future::ready((endpoint.calls().len() >= told).then_some(()));
    eventually("every event is told", all).await;
    #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
    let rate = told as f64 / begun.elapsed().as_secs_f64();
    println!("| events told, {targets} targets | {rate:.0} a second |");
}
