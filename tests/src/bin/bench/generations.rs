//! A generation of a read model that is built beside the one that answers, while clients write and read.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, TARGETS, created, done, post, send, target},
    platform::Platform,
    process::server,
};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::cpu;

const VIEWS: &str = "/system/v1/views";
/// How often a client writes and reads its write.
const EVERY: Duration = Duration::from_millis(20);
/// How often to check whether the generation is built.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long reads are measured without a build.
const ALONE: Duration = Duration::from_secs(5);

/// Measures the cost of building a generation, and its effect on reads after writes.
pub(crate) async fn measure(platform: &mut Platform, view: &str) {
    let (client, operator) = (platform.client().await, platform.operator().await);
    let (events, _) = platform.log_end().await;
    println!(
        "\na generation of {view} of {events} events beside the one that answers, with 50 writes a second and a read behind each"
    );
    let (pid, postgres) = (platform.process().pid(), server(&platform.data(), "postgres").expect("Postgres runs"));
    let used = || (cpu::of(pid), cpu::of_family(postgres));
    let (begin, before) = (Instant::now(), used());
    let alone = latencies(&client, "alone", sleep(ALONE)).await;
    let (spent, after) = (begin.elapsed(), used());
    let share = |(now, then): (Duration, Duration), spent: Duration| {
        now.saturating_sub(then).as_secs_f64() / spent.as_secs_f64()
    };
    let idle = (share((after.0, before.0), spent), share((after.1, before.1), spent));

    done(&operator, &format!("{VIEWS}/{view}/_replay"), json!({})).await;
    let (begin, before) = (Instant::now(), used());
    let beside = latencies(&client, "beside", built(&operator, view)).await;
    let (spent, after) = (begin.elapsed(), used());
    let more = |now: Duration, then: Duration, idle: f64| {
        (now.saturating_sub(then).as_secs_f64() - idle * spent.as_secs_f64()).max(0.0)
    };
    let (platform_cpu, postgres_cpu) = (more(after.0, before.0, idle.0), more(after.1, before.1, idle.1));
    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    let per_second = |seconds: f64| events as f64 / seconds;
    println!(
        "built and compared in {spent:.1?}: {:.0} events/s; {platform_cpu:.1} s CPU of the platform ({:.0} events per CPU-second) and {postgres_cpu:.1} s of Postgres beyond what the writes cost",
        per_second(spent.as_secs_f64()),
        per_second(platform_cpu.max(0.01)),
    );
    for (when, mut all) in [("before", alone), ("meanwhile", beside)] {
        all.sort();
        let at = |share: usize| all[(all.len() - 1) * share / 100];
        println!(
            "a read behind its write, {when}: {:.1?} in the middle, {:.1?} at 99 %, {:.1?} at most, {} of them",
            at(50),
            at(99),
            at(100),
            all.len()
        );
    }
    let begin = Instant::now();
    done(&operator, &format!("{VIEWS}/{view}/_switch"), json!({})).await;
    let switched = begin.elapsed();
    let begin = Instant::now();
    done(&operator, &format!("{VIEWS}/{view}/_rollback"), json!({})).await;
    println!("switched in {switched:.1?}, back in {:.1?}", begin.elapsed());
    let dropped = send(operator.request(Method::POST, &format!("{VIEWS}/{view}/_drop"))).await;
    assert!(dropped.status.is_success(), "{}", dropped.body);
}

/// Returns the times of reads after writes until `over` completes.
async fn latencies(client: &Client, prefix: &str, over: impl Future<Output = ()>) -> Vec<Duration> {
    let (mut over, mut beats, mut found) = (std::pin::pin!(over), interval(EVERY), vec![]);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let unique = Instant::now();
    loop {
        tokio::select! {
            () = &mut over => return found,
            _ = beats.tick() => {}
        }
        let name = format!("{prefix} {} {:?}", found.len(), unique.elapsed());
        let made = created(client, TARGETS, target(&name)).await;
        let begin = Instant::now();
        let read = client.get_target(&made.id(), Some(&made.consistency())).await;
        assert!(read.status.is_success(), "{}", read.body);
        found.push(begin.elapsed());
    }
}

/// Waits until the next generation is compared.
async fn built(operator: &Client, view: &str) {
    let compared = async || {
        let views = post(operator, &format!("{VIEWS}/_search"), json!({})).await.body;
        let of = views["result"].as_array()?.iter().find(|known| known["viewName"] == view)?.clone();
        let next = of["generations"].as_array()?.first()?.clone();
        (next["verifiedAt"] != Value::Null).then_some(())
    };
    while compared().await.is_none() {
        sleep(LOOK_AGAIN).await;
    }
}
