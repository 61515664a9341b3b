//! Many tenants: the cost of an idle instance.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures::StreamExt;
use reqwest::Method;
use serde_json::json;
use tests::{
    client::{Client, send},
    eventually,
    platform::Platform,
};

use crate::{cpu, load, start};

const INSTANCES: &str = "/resources/v3alpha/instances";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
/// How many organizations are created in each instance, in addition to its first one.
const MORE: usize = 2;
/// How many instances are created at the same time.
const AT_ONCE: usize = 16;
const CLIENTS: usize = 8;
const SECONDS: u64 = 5;

/// The resources of a process of which there must not be one for each tenant.
const HELD: [(&str, &str); 3] =
    [("tasks", "platform_tasks"), ("threads", "process_threads"), ("descriptors", "process_open_fds")];

/// Creates a number of instances, and measures before and after.
pub(crate) async fn measure(count: usize) {
    let mut platform = Platform::start().await;
    platform.ready().await;
    let operator = platform.operator().await;
    create_instance(&operator, "warm".to_owned()).await;
    println!("\n{count} instances with {} organizations each", MORE + 1);
    start::memory("before", &mut platform).await;
    let before = cached_counts(&platform).await;
    let (begun, used) = (Instant::now(), cpu::of(platform.process().pid()));
    let making = futures::stream::iter(0..count).map(|number| create_instance(&operator, format!("tenant-{number}")));
    let ids: Vec<String> = making.buffer_unordered(AT_ONCE).collect().await;
    let (elapsed, used) = (begun.elapsed(), cpu::of(platform.process().pid()).saturating_sub(used));
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let each = used.as_secs_f64() * 1000.0 / count.max(1) as f64;
    println!("made in {elapsed:.1?}, {each:.2} ms CPU each, with their keys and projections");
    let operator = platform.operator().await;
    settles(&operator, count + 2).await;
    let after = cached_counts(&platform).await;
    for ((name, _), (before, after)) in HELD.iter().zip(before.into_iter().zip(after)) {
        println!("{name:<12} {before:>6} before, {after:>6} after");
    }
    start::memory("with all of them", &mut platform).await;
    lists(&operator, ids.clone()).await;
    start::measure(&mut platform).await;
    let operator = platform.operator().await;
    lists(&operator, ids).await;
    platform.stop().await;
}

/// Creates an instance with its organizations, and returns its id.
async fn create_instance(operator: &Client, name: String) -> String {
    let body = json!({ "name": name, "domain": format!("{name}.example") });
    let made = send(operator.request(Method::POST, INSTANCES).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    for number in 0..MORE {
        let path = format!("{ORGANIZATIONS}?ctx.instanceId={}", made.id());
        let body = json!({ "name": format!("organization {number}") });
        let request = || operator.request(Method::POST, &path).json(&body);
        // The instance has to be in the read model.
        eventually("an organization", async || (send(request()).await.status == 201).then_some(())).await;
    }
    made.id()
}

/// Waits until all instances can be found, and nothing is in progress.
async fn settles(operator: &Client, count: usize) {
    eventually("all are found", async || {
        let found = send(operator.request(Method::POST, &format!("{INSTANCES}/_search?query.limit=1"))).await;
        (found.body["details"]["totalResult"] == json!(count.to_string())).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
}

async fn cached_counts(platform: &Platform) -> Vec<u64> {
    let management = platform.management();
    let mut held = vec![];
    for (_, metric) in HELD {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a small count")]
        held.push(management.sum(metric, &[]).await as u64);
    }
    held
}

/// Lists the organizations of one instance after another, and the instances.
async fn lists(operator: &Client, ids: Vec<String>) {
    let (asking, next) = (operator.clone(), AtomicUsize::new(0));
    let of_instances = load::run(CLIENTS, SECONDS, move |_| {
        let id = &ids[next.fetch_add(1, Ordering::Relaxed) % ids.len()];
        let request = asking.request(Method::POST, &format!("{ORGANIZATIONS}/_search?ctx.instanceId={id}"));
        async move { request.send().await.is_ok_and(|answer| answer.status() == 200) }
    });
    row("organizations of any instance", &of_instances.await);
    let asking = operator.clone();
    let of_system = load::run(CLIENTS, SECONDS, move |_| {
        let request = asking.request(Method::POST, &format!("{INSTANCES}/_search"));
        async move { request.send().await.is_ok_and(|answer| answer.status() == 200) }
    });
    row("the first 100 instances", &of_system.await);
}

fn row(what: &str, outcome: &load::Outcome) {
    println!(
        "list of {what:<32} {:>6.0} per s, p50 {:.1?}, p99 {:.1?}, {} failed",
        outcome.rate(),
        outcome.latency(50),
        outcome.latency(99),
        outcome.failed
    );
}
