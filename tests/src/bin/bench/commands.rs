//! Durable commands: throughput, CPU time, and the number of events per record.

use reqwest::Method;
use tests::{
    client::{TARGETS, target},
    platform::Platform,
    process::server,
};

use crate::{SECONDS, cpu, load, machine, naive};

/// Measures creating targets over HTTP in comparison with the naive publisher.
pub(crate) async fn measure(platform: &mut Platform) {
    println!(
        "\ncommands: POST /targets over HTTP, {SECONDS} s a row; CPU of the platform (projections included) and NATS"
    );
    println!(
        "clients    per s   p50 ms   p99 ms   ms CPU platform   ms CPU NATS   events/record   naive per s   naive ms CPU NATS"
    );
    let client = platform.client().await;
    let nats = server(&platform.data(), "nats").expect("NATS runs");
    let mut at_64 = (0.0, 0.0, 0.0);
    for clients in [1, 16, 64, 256] {
        let before = (cpu::of(platform.process().pid()), cpu::of(nats), platform.log_end().await);
        let outcome = load::run(clients, SECONDS, {
            let client = client.clone();
            move |_| {
                let request = client.request(Method::POST, TARGETS).json(&target("bench"));
                async move {
                    let Ok(answer) = request.send().await else { return false };
                    answer.status() == 201 && answer.bytes().await.is_ok()
                }
            }
        });
        let outcome = outcome.await;
        let after = (cpu::of(platform.process().pid()), cpu::of(nats), platform.log_end().await);
        let own = outcome.ms_each(after.0.saturating_sub(before.0));
        let of_nats = outcome.ms_each(after.1.saturating_sub(before.1));
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let share = (after.2.0 - before.2.0) as f64 / (after.2.1 - before.2.1).max(1) as f64;
        let before_naive = cpu::of(nats);
        let naive = naive::publish(platform, clients).await;
        let naive_cpu = naive.ms_each(cpu::of(nats).saturating_sub(before_naive));
        println!(
            "{clients:>7} {:>8.0} {:>8.2} {:>8.2} {own:>17.3} {of_nats:>13.3} {share:>15.1} {:>13.0} {naive_cpu:>19.3}",
            outcome.rate(),
            outcome.latency(50).as_secs_f64() * 1000.0,
            outcome.latency(99).as_secs_f64() * 1000.0,
            naive.rate(),
        );
        assert_eq!(outcome.failed, 0, "commands fail under load");
        if clients == 64 {
            at_64 = (own + of_nats, outcome.rate(), naive.rate());
        }
    }
    let (cpu, rate, naive) = at_64;
    println!("at 64 clients: {cpu:.3} ms CPU a command (to reach: 0.25), {:.2} times the naive rate", rate / naive);
    println!("(to reach: 1 where fdatasync takes 0.5 ms or more; it takes {:?})", machine::sync_time(&platform.data()));
}
