//! Several nodes: how long nobody writes when the writer dies or ends, how soon another projector takes over, and the
//! cost of a request through a standby.

use std::time::{Duration, Instant};

use reqwest::Method;
use rustix::process::Signal;
use tests::{
    client::{Client, TARGETS, send, target},
    cluster::{Cluster, Node},
    eventually,
    process::server,
};

use crate::{cpu, load};

/// How often each kind of end is measured.
const TIMES: usize = 5;
/// How many clients write, for the cost of a hop.
const CLIENTS: usize = 16;
const SECONDS: u64 = 4;

/// Measures on two command nodes and two projectors.
pub(crate) async fn measure() {
    let cluster = Cluster::start().await;
    let projectors = [projector(&cluster, 0), projector(&cluster, 1)];
    let mut active = command(&cluster, 0);
    cluster.writes(&active).await;
    let mut standby = command(&cluster, 1);
    warm(&cluster, &standby).await;

    println!("\nmany nodes: the time in which nobody writes, seen by a client of the standby");
    println!("{:<44} {:>8} {:>8}", "what becomes of the node that writes", "p50 s", "most s");
    for (what, signal) in [("kill -9 (to reach: 5)", Signal::KILL), ("SIGTERM (to reach: 1)", Signal::TERM)] {
        let mut gaps = vec![];
        for number in 0..TIMES {
            gaps.push(gap(&cluster, &mut active, &standby, signal).await);
            // The node that ended comes back as the standby.
            let ended = std::mem::replace(&mut active, standby);
            drop(ended);
            standby = command(&cluster, 2 + number + if signal == Signal::TERM { TIMES } else { 0 });
            warm(&cluster, &standby).await;
        }
        print_row(what, gaps);
    }
    let projectors = take_over(&cluster, &active, projectors).await;
    hop(&cluster, &active, &standby).await;
    drop(projectors);
}

/// Measures where the CPU time of a command is spent, with each role in a process of its own.
pub(crate) async fn apart() {
    const CLIENTS: usize = 64;
    let cluster = Cluster::start().await;
    let projector = projector(&cluster, 0);
    let writer = command(&cluster, 0);
    cluster.writes(&writer).await;
    let client = cluster.client(&writer);
    let nats = server(&cluster.servers.folder(), "nats").expect("NATS runs");
    let parts = [("command", writer.process.pid()), ("projector", projector.process.pid()), ("NATS", nats)];
    let before = parts.map(|(_, pid)| cpu::of(pid));
    let outcome = load::run(CLIENTS, SECONDS, move |_| {
        let request = client.request(Method::POST, TARGETS).json(&target("bench"));
        async move { request.send().await.is_ok_and(|answer| answer.status() == 201) }
    });
    let outcome = outcome.await;
    println!("\nms CPU a command at {CLIENTS} clients, roles apart ({:.0} per s):", outcome.rate());
    for ((name, pid), before) in parts.into_iter().zip(before) {
        println!("{name:<12} {:.3}", outcome.ms_each(cpu::of(pid).saturating_sub(before)));
    }
}

fn command(cluster: &Cluster, number: usize) -> Node {
    cluster.node("command", &format!("command-{number}"), &[("--node-number", &number.to_string())], &[])
}

/// Waits until a standby forwards commands.
async fn warm(cluster: &Cluster, standby: &Node) {
    let client = cluster.client(standby);
    eventually("a standby", || client.create_target("warm")).await;
}

fn projector(cluster: &Cluster, number: usize) -> Node {
    cluster.node("projector", &format!("projector-{number}"), &[], &[])
}

/// Returns the longest time between two answers to a client that writes continuously.
async fn gap(cluster: &Cluster, active: &mut Node, standby: &Node, signal: Signal) -> Duration {
    let client = cluster.client(standby);
    let writing = tokio::spawn(async move {
        let (mut longest, mut last) = (Duration::ZERO, Instant::now());
        let end = last + Duration::from_secs(9);
        while Instant::now() < end {
            if client.create_target("gap").await.is_some() {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
        }
        longest
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    active.process.signal(signal);
    active.process.ended().await;
    writing.await.expect("a client does not panic")
}

fn print_row(what: &str, mut gaps: Vec<Duration>) {
    gaps.sort();
    let (middle, most) = (gaps[gaps.len() / 2].as_secs_f64(), gaps[gaps.len() - 1].as_secs_f64());
    println!("{what:<44} {middle:>8.2} {most:>8.2}");
}

/// Measures how long a read with the token of its write waits when the projector was just killed.
async fn take_over(cluster: &Cluster, active: &Node, mut projectors: [Node; 2]) -> [Node; 2] {
    let query = cluster.node("query", "query", &[], &[]);
    let (writer, reader) = (cluster.client(active), cluster.client(&query));
    cluster.searches(&reader).await;
    let mut times = vec![];
    for number in 0..TIMES {
        // The first projector has most work units, because the other one began later.
        let [first, second] = projectors;
        drop(first);
        let begin = Instant::now();
        let written = send(writer.request(Method::POST, TARGETS).json(&target("projected"))).await;
        loop {
            let found = reader.get_target(&written.id(), Some(&written.consistency())).await;
            if found.status == 200 {
                break;
            }
        }
        times.push(begin.elapsed());
        projectors = [second, projector(cluster, 2 + number)];
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    print_row("kill -9 of the projector: until a read has it", times);
    projectors
}

/// Measures the cost of commands at the writer, and through a standby.
async fn hop(cluster: &Cluster, active: &Node, standby: &Node) {
    println!(
        "\n{CLIENTS} clients write{:>30} {:>10} {:>10} {:>16}",
        "per second", "p50 ms", "p99 ms", "ms CPU a command"
    );
    let nats = server(&cluster.servers.folder(), "nats").expect("it runs");
    let mut costs = vec![];
    for (what, node) in [("to the node that writes", active), ("to a standby", standby)] {
        let client: Client = cluster.client(node);
        let pids = [active.process.pid(), standby.process.pid(), nats];
        let used = || pids.iter().map(|pid| cpu::of(*pid)).sum::<Duration>();
        let before = used();
        let outcome = load::run(CLIENTS, SECONDS, move |_| {
            let client = client.clone();
            async move { client.create_target("hop").await.is_some() }
        })
        .await;
        let cost = outcome.ms_each(used().saturating_sub(before));
        let ms = |percent| outcome.latency(percent).as_secs_f64() * 1000.0;
        println!("{what:<44} {:>8.0} {:>10.2} {:>10.2} {cost:>16.3}", outcome.rate(), ms(50), ms(99));
        costs.push((cost, ms(50)));
    }
    println!("one hop costs {:.3} ms CPU and {:.2} ms at the median", costs[1].0 - costs[0].0, costs[1].1 - costs[0].1);
}
