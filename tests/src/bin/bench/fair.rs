//! Fairness between a greedy and a quiet tenant: how much longer the quiet one waits than when it is alone.

use std::{thread, time::Duration};

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{Client, TARGETS, send, target},
    eventually,
    platform::Platform,
    tenant::instance_beside,
};
use tokio::{runtime::Builder, time::sleep};

use crate::load;

/// How many clients the greedy tenant has; the quiet one has one.
const GREEDY: usize = 256;
/// How long the quiet tenant is measured, and how long the greedy one is active before and after, in seconds.
const SECONDS: u64 = 5;
const AROUND: u64 = 2;
/// How many targets each tenant has to search.
const OBJECTS: usize = 200;

/// What both tenants do.
#[derive(Clone, Copy)]
enum Work {
    Writes,
    Searches,
}

/// Measures both kinds of work.
pub(crate) async fn measure() {
    let mut platform = Platform::start().await;
    platform.ready().await;
    let (greedy, quiet) = (platform.client().await, instance_beside(&platform).await.client().await);
    for client in [&greedy, &quiet] {
        fill(client).await;
    }
    println!("\nfair: a tenant with {GREEDY} clients beside one with 1, who is measured, {SECONDS} s a row");
    println!(
        "both do       alone p50 ms   beside p50 ms   times   p99 ms   greedy per s   greedy p50 ms   greedy failed"
    );
    for (name, work) in [("writes", Work::Writes), ("searches", Work::Searches)] {
        let alone = of_quiet(&quiet, work).await;
        let of_greedy = tokio::spawn(run(GREEDY, SECONDS + 2 * AROUND, greedy.clone(), work));
        sleep(Duration::from_secs(AROUND)).await;
        let beside = of_quiet(&quiet, work).await;
        let of_greedy = of_greedy.await.expect("it does not panic");
        let ms = |outcome: &load::Outcome, percent| outcome.latency(percent).as_secs_f64() * 1000.0;
        println!(
            "{name:<12} {:>13.2} {:>15.2} {:>7.1} {:>8.2} {:>14.0} {:>15.2} {:>15}",
            ms(&alone, 50),
            ms(&beside, 50),
            ms(&beside, 50) / ms(&alone, 50),
            ms(&beside, 99),
            of_greedy.rate(),
            ms(&of_greedy, 50),
            of_greedy.failed,
        );
        assert_eq!(alone.failed + beside.failed, 0, "the quiet tenant is refused");
    }
    println!("(to reach: at most 8 times)");
    platform.stop().await;
}

/// Creates the targets to search, and waits until they are found.
async fn fill(client: &Client) {
    for number in 0..OBJECTS {
        client.create_target(&format!("object {number}")).await.expect("it writes");
    }
    eventually("all are found", async || {
        let found =
            send(client.request(Method::POST, &format!("{TARGETS}/_search?query.limit=1")).json(&json!([]))).await;
        (found.body["details"]["totalResult"] == json!(OBJECTS.to_string())).then_some(())
    })
    .await;
}

/// Runs the client of the quiet tenant, on a thread of its own, so that the others of this process do not delay it.
async fn of_quiet(client: &Client, work: Work) -> load::Outcome {
    let client = client.clone();
    let measuring = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        runtime.block_on(run(1, SECONDS, client.reconnected(), work))
    });
    let joined = tokio::task::spawn_blocking(move || measuring.join()).await.expect("it does not panic");
    joined.expect("it does not panic")
}

async fn run(clients: usize, seconds: u64, client: Client, work: Work) -> load::Outcome {
    let operation = move |_| {
        let (request, wanted) = match work {
            Work::Writes => (client.request(Method::POST, TARGETS).json(&target("bench")), StatusCode::CREATED),
            Work::Searches => {
                (client.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([])), StatusCode::OK)
            }
        };
        async move {
            let Ok(answer) = request.send().await else { return false };
            answer.status() == wanted && answer.bytes().await.is_ok()
        }
    };
    load::run(clients, seconds, operation).await
}
